"""Planted in what a replica decides by what it has read: policies, labels, waits, budgets (A3, R1, R3, R4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.protocol import manager
from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.labels import Labels
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.output_gate import Speaking
from borealis_py.protocol.reconciliation import Reconciliation
from borealis_py.protocol.settings import DelayPolicy, Delays
from borealis_py.simulation.scenario import SECOND, Fault, Scenario
from sunion.model import TentativeBucket
from sunion.output import SOutput
from sunion.stream_fold import FeedProgress, StreamFold
from tests.planted.bug import Bug, Script
from tests.planted.scenarios import ms, one_node, pairs, small_jobs
from tests.planted.worlds import SOURCES, Worlds


def _policies(failure: DelayPolicy, stabilization: DelayPolicy, redos: str = "slow") -> Any:
    """All redos are jobs that take long, so that there is a phase to obey the second policy in."""

    def change(scenario: Scenario) -> Scenario:
        jobs = [Fault("redos", k, 0, scenario.heal_us, redos) for k in range(scenario.replicas)]
        kept = [f for f in scenario.faults if f.kind not in ("policy", "redos")]
        return replace(
            scenario,
            delays=Delays(1_000_000, failure, stabilization),
            timing=replace(scenario.timing, inline_us=0, inline_buckets=1),
            faults=(*jobs, *kept),
        )

    return change


def _stabilization_policy_ignored() -> Any:
    before = Manager._ready_at

    def ready_at(self: Manager, bucket: int) -> int | None:
        given, self.delays = self.delays, replace(self.delays, stabilization=self.delays.failure)
        at = before(self, bucket)
        self.delays = given
        return at

    return mock.patch.object(Manager, "_ready_at", ready_at)


def _taken_for(policy: DelayPolicy, other: DelayPolicy) -> Any:
    before = manager.delay.ready_at

    def ready_at(end: Any, inputs: Any, given: DelayPolicy, **waits: int) -> int | None:
        return before(end, inputs, other if given is policy else given, **waits)

    return mock.patch.object(manager.delay, "ready_at", ready_at)


def _said(change: Any) -> Any:
    before = SOutput.tentative
    return mock.patch.object(SOutput, "tentative", lambda self, record: before(self, change(record)))


def _diverged_at_itself() -> Any:
    def itself(record: TentativeBucket) -> TentativeBucket:
        return replace(record, diverged_from=record.bucket)

    return _said(itself)


def _names_one_source_less() -> Any:
    def less(record: TentativeBucket) -> TentativeBucket:
        return (
            replace(record, missing_sources=record.missing_sources[1:]) if len(record.missing_sources) > 1 else record
        )

    return _said(less)


def _a_little_too_complete() -> Any:
    def more(record: TentativeBucket) -> TentativeBucket:
        return replace(record, completeness=min(1.0, record.completeness + 0.01))

    return _said(more)


def _labels_of_an_earlier_divergence() -> Any:
    return mock.patch.object(Labels, "corrected", return_value=None)


def _repeats_have_waited() -> Any:
    before = StreamFold._stable

    def stable(self: StreamFold, replica: int, first: int, end: int, output: Any, held: int, said: list[Any]) -> bool:
        taken = before(self, replica, first, end, output, held, said)
        said[:] = [
            replace(w, waited_us=held) if isinstance(w, FeedProgress) and w.bucket == end - 1 else w for w in said
        ]
        return taken

    return mock.patch.object(StreamFold, "_stable", stable)


def _no_checkpoint_when_stable() -> Any:
    return mock.patch.object(Checkpointing, "soon", return_value=None)


def _jobs_without_bound() -> Any:
    return mock.patch.object(Reconciliation, "_rows_max", property(lambda self: 10**9))


def _deadline_twice_as_long() -> Any:
    before = Reconciliation.start_job

    def start(self: Reconciliation, now: int, *args: Any) -> Any:
        effects = before(self, now, *args)
        if self.deadline is not None:
            self.deadline += self._timing.redo_deadline_us
        return effects

    return mock.patch.object(Reconciliation, "start_job", start)


def _outbox_twice_as_long() -> Any:
    def room(self: Speaking) -> int:
        return (2 * self._timing.outbox_max - self._output.waiting) // 2 + 1

    return mock.patch.object(Speaking, "room", property(room))


def _cut_from_its_own_topic(scenario: Scenario) -> Scenario:
    cut = Fault("cut_own", 0, 2 * SECOND, scenario.heal_us - SECOND)
    return replace(scenario, width_us=50_000, faults=(cut,))


def _again_within_a_window(scenario: Scenario) -> Scenario:
    """Two of three sources are lost, all come back, and one is lost again before the window ends."""
    first, again = ms(3_000, 5_000), ms(5_600, 8_000)
    faults = (Fault("source_failed", 0, *first), Fault("source_failed", 1, *first), Fault("source_failed", 0, *again))
    return replace(one_node(scenario, 3, faults, inline_us=1_000_000), width_us=200_000, span=20)


def _nothing_is_waited_for() -> Any:
    return mock.patch.object(manager.delay, "ready_at", lambda end, *rest, **waits: end)


P, D, S = DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND
BUGS = (
    Bug(
        "R3 the stabilization policy applies while granted",
        "safety",
        _stabilization_policy_ignored,
        Worlds(SOURCES, ("policy",), found=1, seeds=30, change=_policies(P, S)),
        scene="suspend",
    ),
    Bug(
        "R3 suspend says nothing tentative",
        "safety",
        lambda: _taken_for(S, P),
        Worlds(SOURCES, ("policy",), found=1, change=_policies(S, S)),
        scene="suspend",
    ),
    Bug(
        "R3 delay waits D",
        "quality",
        lambda: _taken_for(D, P),
        Worlds(SOURCES, ("policy",), found=1, change=_policies(D, P)),
        scene="delay",
    ),
    Bug(
        "A3 diverged_from is where the state diverged",
        "safety",
        _diverged_at_itself,
        Worlds(SOURCES, ("labels",), found=3),
    ),
    Bug(
        "A3 every source that is missing is named",
        "safety",
        _names_one_source_less,
        Worlds(SOURCES, ("label", "labels"), found=9, seeds=60, nodes=None),
    ),
    Bug(
        "A3 completeness is exact",
        "safety",
        _a_little_too_complete,
        Worlds(SOURCES, ("labels",), found=3),
    ),
    Bug(
        "B17 a divergence that is over is forgotten",
        "safety",
        _labels_of_an_earlier_divergence,
        Worlds(SOURCES, ("labels",), found=1, seeds=5, change=_again_within_a_window),
    ),
    Bug(
        "R1 what a repeat was held does not count",
        "quality",
        _repeats_have_waited,
        Worlds(
            ("crash", "pause", "slow"),
            ("held", "premature", "avoidable"),
            found=1,
            seeds=60,
            nodes=2,
            change=pairs,
        ),
        script=Script("tests/sunion/test_stream.py::test_what_a_repeat_was_held_does_not_count"),
    ),
    Bug(
        "R14 a checkpoint as soon as STABLE",
        "liveness",
        _no_checkpoint_when_stable,
        Worlds(SOURCES, ("checkpoint",), found=3),
        script=Script(
            "tests/protocol/test_starting.py::test_a_checkpoint_is_taken_as_soon_as_the_replica_is_stable_again"
        ),
    ),
    Bug(
        "R4 jobs are short at first",
        "quality",
        _jobs_without_bound,
        Worlds(SOURCES, ("job",), found=3, seeds=30, change=small_jobs),
    ),
    Bug(
        "R4 a job is waited for up to its deadline",
        "quality",
        _deadline_twice_as_long,
        Worlds((*SOURCES, "redos"), ("job",), found=6, seeds=60),
    ),
    Bug(
        "B43 so many records and no more",
        "quality",
        _outbox_twice_as_long,
        Worlds(("cut_own",), ("outbox", "buffers"), found=1, change=_cut_from_its_own_topic),
    ),
    Bug(
        "R3 suspend lasts longer than D",
        "safety",
        lambda: _taken_for(S, D),
        scene="suspend",
    ),
    Bug(
        "R3 a bucket waits for what is missing",
        "quality",
        _nothing_is_waited_for,
        scene="lost_input",
    ),
)
