"""Planted in roles: who runs, who is silent, and where a standby begins (R17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

from borealis_py.node.standby import Standby
from borealis_py.protocol import roles
from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.output_gate import Speaking
from borealis_py.protocol.roles import RoleFold
from borealis_py.protocol.turn import Append, Effect, SaveCheckpoint
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.simulation.scenario import SECOND, Scenario
from borealis_py.simulation.toy_query import ToyKernel, ToyState
from sunion.model import State, StreamRecord
from sunion.output import SOutput
from sunion.union import SUnion
from sunion.units import Bucket, MonotonicUs
from tests.planted.bug import Bug, Script
from tests.planted.patches import together
from tests.planted.worlds import Worlds

KILLS = ("crash", "crash_loop", "pause")


def _all_by(way: RecoveryWay) -> Callable[[Scenario], Scenario]:
    def change(scenario: Scenario) -> Scenario:
        nodes = tuple(replace(plan, recovery=RecoveryPlan(way), replicas=2) for plan in scenario.nodes)
        return replace(scenario, nodes=nodes, span=max(3, scenario.span), lost=())

    return change


ACTIVE_STANDBY, PASSIVE = _all_by(RecoveryWay.ACTIVE_STANDBY), _all_by(RecoveryWay.PASSIVE_STANDBY)
BACKUP = _all_by(RecoveryWay.UPSTREAM_BACKUP)


def _slow_start(scenario: Scenario) -> Scenario:
    return replace(PASSIVE(scenario), starts_us=12 * SECOND)


def _more_counts_as_said_than_is() -> Any:
    kept = SOutput.said_elsewhere

    def said(self: SOutput, stable: int, live: int) -> None:
        kept(self, stable + 5, live)

    return mock.patch.object(SOutput, "said_elsewhere", said)


def _says_nothing_of_what_it_withheld() -> Any:
    return mock.patch.object(SOutput, "unsaid", return_value=[])


def _waited_for_nothing() -> Any:
    """What was withheld is said as if it were fresh."""

    def say(self: Speaking) -> Iterator[Append]:
        self._unheard.clear()
        return (Append(token, record) for token, record in self._output.unsaid())

    return mock.patch.object(Speaking, "_say_late", say)


def _standbys_speak() -> Any:
    def say(self: Speaking, said: tuple[int, StreamRecord]) -> list[Effect]:
        return [Append(*said)]

    return mock.patch.object(Speaking, "say", say)


def _nobody_takes_over() -> Any:
    return mock.patch.object(RoleFold, "due", property(lambda self: False))


def _nobody_steps_back() -> Any:
    return mock.patch.object(Speaking, "_step_back", return_value=[])


def _needs(more: int) -> Any:
    kept = Checkpointing._taken

    def taken(self: Checkpointing, f_s: Bucket, *rest: Any) -> SaveCheckpoint:
        how = self._rebuilding
        if how is not None:
            self._rebuilding = replace(how, buckets=max(0, how.buckets - more))
        try:
            return kept(self, f_s, *rest)
        finally:
            self._rebuilding = how

    return mock.patch.object(Checkpointing, "_taken", taken)


def _a_need_too_high() -> Any:
    return _needs(1)


def _a_start_says_a_bucket_that_it_rebuilds() -> Any:
    kept = Checkpointing._taken

    def taken(self: Checkpointing, *of: Any) -> SaveCheckpoint:
        saved = kept(self, *of)
        return replace(saved, said=saved.said - 1) if saved.said > saved.bucket else saved

    return mock.patch.object(Checkpointing, "_taken", taken)


def _a_start_is_silent() -> Any:
    return mock.patch.object(Standby, "begins")


def _a_start_is_silent_and_as_good_as_a_turn() -> Any:
    """Whoever has run gives way at once to one that is still starting."""
    gives_way = property(lambda self: self.runner is not None and not self.runs)
    return together(
        _a_start_is_silent(),
        mock.patch.object(roles, "_starts", return_value=False),
        mock.patch.object(RoleFold, "yields", gives_way),
    )


def _an_increment_before_its_acks() -> Any:
    """Only the first checkpoint of an incarnation, which is a base, waits for them."""
    kept = Checkpointing.turn
    first: set[Checkpointing] = set()

    def turn(
        self: Checkpointing, now: MonotonicUs, f_s: Bucket, state: State, union: SUnion, ack_s: Bucket
    ) -> list[Effect]:
        found = kept(self, now, f_s, state, union, f_s if self in first else ack_s)
        if found:
            first.add(self)
        return found

    return mock.patch.object(Checkpointing, "turn", turn)


def _an_increment_without_one_entry() -> Any:
    kept = ToyKernel.encode_increment

    def encode(self: ToyKernel, before: ToyState, after: ToyState, since: int, end: int) -> bytes:
        entries = msgspec.json.decode(kept(self, before, after, since, end))
        return msgspec.json.encode(entries[:-1])

    return mock.patch.object(ToyKernel, "encode_increment", encode)


SAFETY = ("convergence", "hole", "stable", "corrected", "client", "dead letter", "redo", "stable view")
BUGS = (
    Bug(
        "R17 what is acknowledged is said",
        "safety",
        _more_counts_as_said_than_is,
        Worlds(KILLS, SAFETY, found=1, seeds=40, change=ACTIVE_STANDBY),
    ),
    Bug(
        "R17 a take-over says what was withheld",
        "safety",
        _says_nothing_of_what_it_withheld,
        Worlds(KILLS, SAFETY, found=1, seeds=40, change=ACTIVE_STANDBY),
    ),
    Bug(
        "B12 what was withheld has waited",
        "liveness",
        _waited_for_nothing,
        script=Script(
            "tests/protocol/test_roles.py::test_what_a_standby_says_when_it_takes_over_has_waited_since_it_was_ready"
        ),
    ),
    Bug(
        "R17 a standby is silent",
        "quality",
        _standbys_speak,
        Worlds(KILLS, ("silence",), found=1, seeds=12, change=ACTIVE_STANDBY),
    ),
    Bug(
        "R17 a standby takes over",
        "liveness",
        _nobody_takes_over,
        Worlds(KILLS, ("runs", "convergence"), found=1, seeds=12, change=PASSIVE),
    ),
    Bug(
        "R17 a start is heard",
        "quality",
        _a_start_is_silent,
        Worlds(KILLS, (), change=_slow_start),
    ),
    Bug(
        "R17 whoever has started prevails",
        "liveness",
        _a_start_is_silent_and_as_good_as_a_turn,
        Worlds(KILLS, ("runs", "convergence"), found=65, seeds=80, change=_slow_start),
    ),
    Bug(
        "R17 of two that run one steps back",
        "quality",
        _nobody_steps_back,
        Worlds(("pause",), ("runs", "convergence"), found=1, seeds=40, change=PASSIVE),
    ),
    Bug(
        "B1 an increment waits for its acks",
        "safety",
        _an_increment_before_its_acks,
        Worlds(("cut_own", "crash"), SAFETY, found=31, seeds=60, change=PASSIVE),
    ),
    Bug(
        "R12 an increment is all that is new",
        "safety",
        _an_increment_without_one_entry,
        Worlds(KILLS, SAFETY, found=1, seeds=40, change=PASSIVE),
    ),
    Bug(
        "R17 a start reads what its state stands on",
        "safety",
        _a_need_too_high,
        Worlds(KILLS, SAFETY, found=8, seeds=40, change=BACKUP),
    ),
    Bug(
        "R17 a start says nothing that it rebuilds",
        "safety",
        _a_start_says_a_bucket_that_it_rebuilds,
        Worlds(KILLS, SAFETY, found=2, seeds=40, change=BACKUP),
    ),
)
