"""Planted in what outlives a process: checkpoints, incarnations, starts, heartbeats (R11, R12, B1, B30, B31)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.node.input_reader import InputReader
from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.control import ControlFold, Recovery
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.turn import SaveCheckpoint, SendHeartbeat
from tests.simulation.planted.bug import Bug


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


def _zombies_stay() -> Any:
    return mock.patch.object(ControlFold, "_check_own", return_value=None)


def _same_incarnation_again() -> Any:
    before = InputReader.read_control
    return mock.patch.object(InputReader, "read_control", lambda self: before(self) - 1)


def _never_ready() -> Any:
    before = Recovery.done

    def done(self: Recovery, control: Any, *, ack_l: int, **more: Any) -> bool:
        return before(self, control, ack_l=ack_l - 1_000_000, **more)

    return mock.patch.object(Recovery, "done", done)


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
        ("cut_own", "crash"),
        ("hole", "retention"),
        60,
        found=1,
    ),
    Bug(
        "R12 a checkpoint's state is that of its bucket",
        "safety",
        _checkpoint_of_a_later_state,
        ("crash", "crash_loop"),
        ("stable", "convergence", "diverged"),
        60,
        found=21,
    ),
    Bug("B30 who is replaced leaves", "liveness", _zombies_stay, ("zombie",), ("convergence",), found=1),
    Bug(
        "B30 every start is a new incarnation",
        "liveness",
        _same_incarnation_again,
        ("crash",),
        ("convergence",),
        found=1,
    ),
    Bug("R11 the goal of a start is fixed", "liveness", _never_ready, (), ("convergence",), found=1),
    Bug(
        "B31 heartbeats tell what was acknowledged",
        "liveness",
        _beats_from_nowhere,
        ("crash",),
        ("convergence",),
        found=2,
    ),
)
