"""Bugs on purpose: each switches one rule of the protocol off in the product, as long as the context lasts.

`kinds`: faults that bring it out, so that few seeds are needed. `oracles`: which of them may be the one to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import sunion.union
from borealis_py.protocol import publishing, reconciliation
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.publishing import Publishing
from borealis_py.protocol.redo import RedoFailed, RedoJob
from borealis_py.protocol.stagger import Stagger
from borealis_py.protocol.turn import SaveCheckpoint, WriterLost
from sunion.model import StableBucket
from sunion.output import SOutput
from sunion.source import SourceFold, fold
from sunion.union import SUnion
from sunion.view import View

Plant = Callable[[], Any]


@dataclass(frozen=True)
class Bug:
    """A rule, how to switch it off, and what that should look like."""

    rule: str
    plant: Callable[[], Any]
    kinds: tuple[str, ...]
    oracles: tuple[str, ...]
    seeds: int = 12

    @contextmanager
    def planted(self) -> Iterator[None]:
        with self.plant():
            yield


def _checkpoint_before_ack() -> Any:
    def checkpoint(self: Manager) -> None:
        if self.f_s > self.checkpointed:
            self.checkpointed = self.f_s
            self._effects.append(SaveCheckpoint(self.f_s, self._s, self.union.marks(self.f_s)))

    return mock.patch.object(Manager, "_checkpoint", checkpoint)


def _checkpoint_at_the_end_of_what_was_read() -> Any:
    def mark(self: sunion.union.SourceInput, bucket: int) -> sunion.union.Mark:
        return sunion.union.Mark(self.offset, self.fold)

    return mock.patch.object(sunion.union.SourceInput, "mark", mark)


def _late_redo_counts() -> Any:
    jobs: dict[object, RedoJob] = {}
    start, answered = reconciliation.Reconciliation.start, reconciliation.Reconciliation.answered

    def remember(self: reconciliation.Reconciliation, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        if self.job is not None:
            jobs[self, self.job.id] = self.job

    def believe(self: reconciliation.Reconciliation, now: int, result: Any, stable: int, effects: Any) -> Any:
        if isinstance(result, RedoFailed):
            return answered(self, now, result, stable, effects)
        self.job = self.deadline = None
        return jobs[self, result.id], result

    return mock.patch.multiple(reconciliation.Reconciliation, start=remember, answered=believe)


def _fence_ignored() -> Any:
    def unfenced(state: SourceFold, record: Any, *rest: Any) -> Any:
        if not record.claim and record.epoch >= 0:
            record = replace(record, epoch=state.epoch, uid=state.owner)
        return fold(state, record, *rest)

    return mock.patch.object(sunion.union, "fold", unfenced)


def _duplicates_count() -> Any:
    def repeating(state: SourceFold, record: Any, *rest: Any) -> Any:
        return fold(replace(state, last_seq=-1), record, *rest)

    return mock.patch.object(sunion.union, "fold", repeating)


def _label_dropped() -> Any:
    before = SOutput.tentative

    def tentative(self: SOutput, record: Any) -> Any:
        token, _ = before(self, record)
        return token, StableBucket(record.inc, record.bucket, record.output, record.held)

    return mock.patch.object(SOutput, "tentative", tentative)


def _lacks_nothing() -> Any:
    before = SOutput.tentative
    return mock.patch.object(
        SOutput, "tentative", lambda self, record: before(self, replace(record, lacked=(), completeness=1.0))
    )


def _wrong_ties() -> Any:
    before = SUnion.__init__

    def init(self: SUnion, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        order = self._ops.order
        self._ops = mock.Mock(wraps=self._ops)
        self._ops.order = lambda parts: sorted(order(parts), key=lambda row: (row[0], -row[1]))

    return mock.patch.object(SUnion, "__init__", init)


def _tentative_taints_stable() -> Any:
    before = Manager._step_live

    def step(self: Manager, bucket: int) -> None:
        before(self, bucket)
        self._s = self._l

    return mock.patch.object(Manager, "_step_live", step)


def _deadline_without_ends() -> Any:
    before = Manager._run_live

    def run(self: Manager) -> None:
        self._read_to = max(self._read_to, self._now)
        before(self)

    return mock.patch.object(Manager, "_run_live", run)


def _no_fence_after_unknown() -> Any:
    before = Publishing._answered

    def answered(self: Publishing, event: Any, now: int) -> Any:
        if isinstance(event, WriterLost) and not event.fenced:
            self.phase = publishing.Phase.READY
            return []
        return before(self, event, now)

    return mock.patch.object(Publishing, "_answered", answered)


def _no_stagger() -> Any:
    before = Stagger.turn

    def turn(self: Stagger, *args: Any) -> None:
        before(self, *args)
        self.granted = self.asking

    return mock.patch.object(Stagger, "turn", turn)


def _no_undo() -> Any:
    before = View.stable_run

    def run(self: View, *args: Any) -> Any:
        return [c for c in before(self, *args) if c.kind.value != "UNDO"]

    return mock.patch.object(View, "stable_run", run)


def _fold_states_left_out() -> Any:
    before = SUnion.marks

    def marks(self: SUnion, bucket: int) -> Any:
        return tuple(replace(m, fold=SourceFold(m.fold.boundary)) for m in before(self, bucket))

    return mock.patch.object(SUnion, "marks", marks)


def _never_forgets_the_wait() -> Any:
    return mock.patch("borealis_py.protocol.manager.budget", lambda timing, threshold, hops=0: threshold + 400_000)


def _tuples_open_buckets() -> Any:
    before = SUnion.top.fget
    assert before is not None

    def top(self: SUnion) -> int:
        return max([before(self), *(b for source in self.inputs for b in source.counts)])

    return mock.patch.object(SUnion, "top", property(top))


def _jobs_chase_for_ever() -> Any:
    start = reconciliation.Reconciliation.start
    return mock.patch.object(reconciliation.Reconciliation, "start", lambda self, *args: start(self, *args[:6]))


SOURCES = ("source_cut", "source_failed")
BUGS = (
    Bug("B1 checkpoint only after the acks", _checkpoint_before_ack, ("cut_own", "crash"), ("hole",), 40),
    Bug(
        "B3 a checkpoint's mark is where its bucket starts",
        _checkpoint_at_the_end_of_what_was_read,
        (*SOURCES, "crash"),
        ("stable", "redo", "convergence"),
    ),
    Bug(
        "B3 a range goes with the fold before it",
        _fold_states_left_out,
        (*SOURCES, "crash", "source_duel", "garbage"),
        ("stable", "redo", "convergence"),
    ),
    Bug(
        "B4 a late redo result does not count",
        _late_redo_counts,
        (*SOURCES, "redos"),
        ("stable", "exception", "hole", "convergence"),
        80,  # the late answer must fall into the reconciliation that went on without it
    ),
    Bug("A2 fenced records do not count", _fence_ignored, ("garbage",), ("stable", "dead letters")),
    Bug("A2 duplicates do not count", _duplicates_count, ("garbage",), ("stable", "dead letters")),
    Bug("A3 tentative results are labelled", _label_dropped, SOURCES, ("stable", "hole")),
    Bug("B17 a tentative result says what it lacks", _lacks_nothing, SOURCES, ("label",)),
    Bug("ties go by input", _wrong_ties, (), ("stable",)),
    Bug("S never sees tentative input", _tentative_taints_stable, SOURCES, ("stable", "exception")),
    Bug("B14 no expiry before the end was read", _deadline_without_ends, ("pause",), ("needless",), 40),
    Bug("B7 fence after an unknown outcome", _no_fence_after_unknown, ("commits",), ("corrected",)),
    Bug("B27 one after the other", _no_stagger, SOURCES, ("stagger",), 30),
    Bug("B40 UNDO comes from the view", _no_undo, SOURCES, ("undo",)),
    Bug("R13 D is X less the slack", _never_forgets_the_wait, SOURCES, ("availability",)),
    Bug("R1 only boundaries open buckets", _tuples_open_buckets, ("garbage",), ("premature", "convergence")),
    Bug("R4 jobs do not chase the live frontier", _jobs_chase_for_ever, SOURCES, ("convergence",)),
)
