"""Planted in what outlives a process: checkpoints and heartbeats (R12, B1, B31)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.turn import SaveCheckpoint, SendHeartbeat
from tests.planted.bug import Bug, Script
from tests.planted.worlds import Worlds


def _checkpoint_before_ack() -> Any:
    def turn(self: Checkpointing, now: int, f_s: int, state: Any, union: Any, ack_s: int) -> Any:
        if f_s <= self.newest:
            return []
        self.newest = f_s
        return [SaveCheckpoint(f_s, state, union.marks(f_s))]

    return mock.patch.object(Checkpointing, "turn", turn)


def _checkpoint_of_a_later_state() -> Any:
    before = Checkpointing.turn

    def turn(self: Checkpointing, now: int, f_s: int, state: Any, union: Any, ack_s: int) -> Any:
        return [replace(saved, state=state) for saved in before(self, now, f_s, state, union, ack_s)]

    return mock.patch.object(Checkpointing, "turn", turn)


def _beats_from_nowhere() -> Any:
    before = HeartbeatTimer.beat

    def beat(self: HeartbeatTimer, **arguments: Any) -> Any:
        sent = [b.heartbeat for b in before(self, **arguments)]
        return [SendHeartbeat(replace(b, ack_s=b.ack_s + 1_000, ack_l=b.ack_l + 1_000)) for b in sent]

    return mock.patch.object(HeartbeatTimer, "beat", beat)


BUGS = (
    Bug(
        "B1 checkpoint only after the acks",
        "safety",
        _checkpoint_before_ack,
        Worlds(("cut_own", "crash"), ("hole", "retention"), found=1, seeds=60),
        script=Script(
            "tests/protocol/test_scenarios.py::test_a_crash_with_records_in_flight", "is ahead of the own topic"
        ),
    ),
    Bug(
        "R12 a checkpoint's state is that of its bucket",
        "safety",
        _checkpoint_of_a_later_state,
        Worlds(("crash", "crash_loop"), ("stable", "convergence", "diverged"), found=21, seeds=60),
    ),
    Bug(
        "B31 heartbeats tell what was acknowledged",
        "liveness",
        _beats_from_nowhere,
        Worlds(("crash",), ("convergence",), found=2),
    ),
)
