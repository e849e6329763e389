"""Planted in what is read and when it runs: folds, buckets, order, waiting (A2, R1 to R3, R6, B9, B13, B14)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import sunion.input_buffers
from borealis_py.protocol.delay import FeedState
from borealis_py.protocol.input_state import InputState
from borealis_py.protocol.manager import Manager
from sunion.bucket import Buckets
from sunion.input_buffers import SourceBuffer
from sunion.model import FOREVER
from sunion.source import Accepted, SourceFold, fold
from sunion.union import Mark, SUnion
from tests.planted.bug import Bug, Script
from tests.planted.patches import together
from tests.planted.worlds import SOURCES, Worlds


def _fence_ignored() -> Any:
    def unfenced(state: SourceFold, record: Any, *rest: Any) -> Any:
        if not record.claim and record.epoch >= 0:
            record = replace(record, epoch=state.epoch, uid=state.owner)
        return fold(state, record, *rest)

    return mock.patch.object(sunion.input_buffers, "fold", unfenced)


def _duplicates_count() -> Any:
    def repeating(state: SourceFold, record: Any, *rest: Any) -> Any:
        return fold(replace(state, last_seq=-1), record, *rest)

    return mock.patch.object(sunion.input_buffers, "fold", repeating)


def _late_counts() -> Any:
    def lenient(state: SourceFold, record: Any, *rest: Any) -> Any:
        after, accepted = fold(replace(state, boundary=min(state.boundary, FOREVER - 1) - 400_000), record, *rest)
        return replace(after, boundary=max(after.boundary, state.boundary)), accepted

    return mock.patch.object(sunion.input_buffers, "fold", lenient)


def _future_counts() -> Any:
    def boundless(state: SourceFold, record: Any, buckets: Any, ops: Any, source: str, ahead_max_us: int) -> Any:
        return fold(state, record, buckets, ops, source, 10**15)

    return mock.patch.object(sunion.input_buffers, "fold", boundless)


def _rejects_dropped() -> Any:
    def silent(*arguments: Any) -> tuple[SourceFold, Accepted]:
        after, accepted = fold(*arguments)
        return after, accepted._replace(rejects=())

    return mock.patch.object(sunion.input_buffers, "fold", silent)


def _boundary_closes_its_own_bucket() -> Any:
    def close(self: SourceBuffer, buckets: Buckets) -> None:
        self.closed = buckets.last if self.fold.ended else buckets.closed_by(self.fold.boundary) + 1

    return mock.patch.object(SourceBuffer, "close", close)


def _boundary_closes_one_less() -> Any:
    def close(self: SourceBuffer, buckets: Buckets) -> None:
        self.closed = buckets.last if self.fold.ended else buckets.closed_by(self.fold.boundary - 1)

    return mock.patch.object(SourceBuffer, "close", close)


def _one_input_is_enough() -> Any:
    def complete(self: SUnion) -> None:
        self.complete = max(s.closed for s in self.inputs)

    return mock.patch.object(SUnion, "_complete", complete)


def _end_closes_nothing() -> Any:
    def close(self: SourceBuffer, buckets: Buckets) -> None:
        if not self.fold.ended:
            self.closed = buckets.closed_by(self.fold.boundary)

    return mock.patch.object(SourceBuffer, "close", close)


def _ordered(change: Any) -> Any:
    before = SUnion.__init__

    def init(self: SUnion, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        order = self._ops.order
        self._ops = mock.Mock(wraps=self._ops)
        self._ops.order = lambda parts: change(order(parts))

    return mock.patch.object(SUnion, "__init__", init)


def _wrong_ties() -> Any:
    return _ordered(lambda rows: sorted(rows, key=lambda row: (row[0], -row[1])))


def _input_by_input() -> Any:
    return _ordered(lambda rows: sorted(rows, key=lambda row: row[1]))


def _tuples_open_buckets() -> Any:
    before = SUnion.top.fget
    assert before is not None

    def top(self: SUnion) -> int:
        return max([before(self), *(b for source in self.inputs for b in source.counts)])

    return mock.patch.object(SUnion, "top", property(top))


def _mark_at_the_end_of_what_was_read() -> Any:
    return mock.patch.object(SourceBuffer, "mark", lambda self, bucket: Mark(self.offset, self.fold))


def _fold_states_left_out() -> Any:
    before = SUnion.marks

    def marks(self: SUnion, bucket: int) -> Any:
        return tuple(replace(m, fold=SourceFold(m.fold.boundary)) for m in before(self, bucket))

    return mock.patch.object(SUnion, "marks", marks)


def _deadline_without_ends() -> Any:
    before = Manager._run_live

    def run(self: Manager) -> None:
        self._ends.answered(self._now)
        before(self)

    return mock.patch.object(Manager, "_run_live", run)


def _waits_too_long() -> Any:
    before = Manager._handle_delays

    def set_delays(self: Manager, delays: Any) -> None:
        before(self, delays)
        self._wait_us += self.timing.slack_us + 400_000

    return mock.patch.object(Manager, "_handle_delays", set_delays)


def _waits_from_creation() -> Any:
    before = Manager._ready_at

    def ready_at(self: Manager, bucket: int) -> int | None:
        at = before(self, bucket)
        return None if at is None else at - self.buckets.width_us

    return mock.patch.object(Manager, "_ready_at", ready_at)


def _no_small_delta() -> Any:
    before = Manager._handle_delays

    def set_delays(self: Manager, delays: Any) -> None:
        before(self, delays)
        self._delta_us = self._wait_us = 60_000_000

    return mock.patch.object(Manager, "_handle_delays", set_delays)


def _memory_without_bound() -> Any:
    return mock.patch.multiple(
        InputState,
        release_memory=lambda self, stable, live, keep_from, rows_max: (
            self.union.passed(live),
            self.creation.forget(live),
        ),
        ahead=lambda self, live, rows_max: frozenset(),
    )


def _never_forgives() -> Any:
    def on_report(self: FeedState, bucket: int, tentative: bool, live: int) -> None:
        self.heard = True
        self.said = max(self.said, bucket + 1)

    return together(
        mock.patch.object(InputState, "forgive", return_value=None),
        mock.patch.object(FeedState, "on_report", on_report),
        mock.patch.object(FeedState, "forgive", return_value=None),
    )


def _heard_is_forgotten() -> Any:
    """By every run without a late feed."""
    kept = FeedState.on_live_run

    def on_live_run(self: FeedState, bucket: int) -> None:
        kept(self, bucket)
        self.heard = self.heard and not self.late

    return mock.patch.object(FeedState, "on_live_run", on_live_run)


WRONG_ROWS = ("stable", "exception", "convergence", "redo", "corrected", "client", "dead letters")
EARLY = ("needless", "avoidable", "premature")
BUGS = (
    Bug(
        "A2 fenced records do not count",
        "safety",
        _fence_ignored,
        Worlds(("garbage",), ("stable", "dead letters"), found=1),
    ),
    Bug(
        "A2, B6 duplicates do not count",
        "safety",
        _duplicates_count,
        Worlds(("garbage",), ("stable", "dead letters"), found=1),
        script=Script(
            "tests/protocol/test_scenarios.py::test_one_failure",
            "is called stable and differs",
        ),
    ),
    Bug(
        "A2 late tuples do not count",
        "safety",
        _late_counts,
        Worlds(("garbage",), WRONG_ROWS, found=1, seeds=30),
    ),
    Bug(
        "A2 tuples far ahead do not count",
        "safety",
        _future_counts,
        Worlds(("garbage",), WRONG_ROWS, found=1, seeds=30),
    ),
    Bug(
        "A2 what is refused becomes a dead letter",
        "safety",
        _rejects_dropped,
        Worlds(("garbage",), ("dead letters", "stable"), found=1),
    ),
    Bug(
        "A2 a boundary closes only buckets that end by it",
        "safety",
        _boundary_closes_its_own_bucket,
        Worlds((), WRONG_ROWS, found=1),
        script=Script(
            "tests/protocol/test_scenarios.py::test_one_failure",
            "is called stable and differs",
        ),
    ),
    Bug(
        "R2 all inputs must close a bucket",
        "safety",
        _one_input_is_enough,
        Worlds((), WRONG_ROWS, found=1),
    ),
    Bug(
        "A2 ties go by input",
        "safety",
        _wrong_ties,
        Worlds((), ("stable",), found=1),
    ),
    Bug(
        "A2 rows go by time before they go by input",
        "safety",
        _input_by_input,
        Worlds((), ("stable",), found=1),
        script=Script(
            "tests/protocol/test_scenarios.py::test_one_failure",
            "is called stable and differs",
        ),
    ),
    Bug(
        "B3 a checkpoint's mark is where its bucket starts",
        "safety",
        _mark_at_the_end_of_what_was_read,
        Worlds((*SOURCES, "crash"), ("stable", "redo", "convergence"), found=1),
    ),
    Bug(
        "B3 a range goes with the fold before it",
        "safety",
        _fold_states_left_out,
        Worlds((*SOURCES, "crash", "source_duel", "garbage"), ("stable", "redo", "convergence"), found=2),
        script=Script("tests/protocol/test_scenarios.py::test_one_failure", "the ranges do not close"),
    ),
    Bug(
        "B22 END closes everything",
        "liveness",
        _end_closes_nothing,
        Worlds(("garbage",), ("end",), found=1),
    ),
    Bug(
        "R1 only boundaries open buckets",
        "liveness",
        _tuples_open_buckets,
        Worlds(("garbage",), ("premature", "convergence", "avoidable"), found=1),
    ),
    Bug(
        "R13 D is X less the slack",
        "liveness",
        _waits_too_long,
        Worlds(SOURCES, ("availability",), found=3),
    ),
    Bug(
        "R3 a late input gets delta, not D",
        "liveness",
        _no_small_delta,
        Worlds(SOURCES, ("availability",), found=3),
    ),
    Bug(
        "B9 waiting counts from the bucket's end",
        "liveness",
        _waits_from_creation,
        Worlds(SOURCES, ("premature", "convergence"), found=3),
        scene="lost_input",
    ),
    Bug(
        "R6 memory is bounded",
        "liveness",
        _memory_without_bound,
        Worlds(SOURCES, ("buffers",), found=9, seeds=40),
    ),
    Bug(
        "B14 no expiry before the end was read",
        "quality",
        _deadline_without_ends,
        Worlds(("pause",), EARLY, found=4, seeds=40),
        script=Script(
            "tests/protocol/test_scenarios.py::test_a_bucket_does_not_expire_while_its_input_lies_unread_in_the_log"
        ),
    ),
    Bug(
        "B13 who is heard again is forgiven",
        "quality",
        _never_forgives,
        Worlds(SOURCES, ("premature",), found=3),
        script=Script(
            "tests/protocol/test_scenarios.py::test_an_input_that_heals_with_a_lag_between_delta_and_d_is_waited_for_again"
        ),
    ),
    Bug(
        "B13 that a feed was heard outlasts runs without it",
        "quality",
        _heard_is_forgotten,
        script=Script("tests/protocol/test_delay.py::test_only_a_feed_that_was_heard_since_it_became_late_is_forgiven"),
    ),
)
