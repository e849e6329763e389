"""Publishing the corrected stream by progress: patience, fence then read, unknown outcomes, what is read back."""

from __future__ import annotations

import pytest

from borealis_py.protocol.publishing import DOUBLINGS_MAX, PLAY, Phase, PublishContext, Publishing
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import (
    AbandonWriter,
    Effect,
    EmitEvent,
    FenceWriter,
    Publish,
    Turn,
    WriterBusy,
    WriterCommitted,
    WriterEvent,
    WriterLost,
    WriterReady,
)
from sunion.model import Output
from tests.sunion.unions import output_of

MS = 1000
TIMING = Timing(publish_buckets=3)
ROW = Output(((1, 1),))
FIRST_PATIENCE = TIMING.patience_us + TIMING.patience_step_us


class Driven:
    """Replica 1 of 2, whose topic starts at bucket 0 and acknowledges at once."""

    def __init__(self, replica: int = 1, lowest_live: int = 0) -> None:
        self.publishing = Publishing(replica, TIMING, 0)
        self.output = output_of(1, 0, rows_max=10)
        self.lowest_live = lowest_live
        self.closed = 100

    def say(self, *buckets: int, end: int, ack: bool = True) -> None:
        self.output.stable_run(self.output.stable, end, dict.fromkeys(buckets, ROW))
        if ack:
            self.output.acknowledged(10**9)

    def turn(
        self,
        now: int,
        progress: tuple[int, ...] = (),
        writer: tuple[WriterEvent, ...] = (),
        gap: bool = False,
        read_to: int | None = None,
    ) -> list[Effect]:
        read_to = now if read_to is None else read_to
        closed = max(self.closed, self.output.stable)
        standing = PublishContext(
            now=now, stable=self.output.stable, lowest_live=self.lowest_live, gap=gap, read_to=read_to, closed=closed
        )
        effects = self.publishing.turn(Turn(now, progress=progress, writer=writer), standing, self.output)
        return [e for e in effects if not isinstance(e, EmitEvent)]


def test_the_lowest_live_replica_takes_over_at_once_while_nobody_has_published() -> None:
    driven = Driven(replica=0)
    assert driven.turn(0) == [FenceWriter(1)]
    assert driven.turn(1, writer=(WriterReady(1, None),)) == []
    driven.say(2, end=4)
    assert driven.turn(2) == [Publish(1, 0, 4, {2: ROW})]


def test_what_only_this_process_was_told_to_be_committed_does_not_count_as_read() -> None:
    """The broker may have lost the ends of that transaction: another writer would not find it."""
    driven = Driven(replica=0)
    driven.turn(0)
    driven.turn(1, writer=(WriterReady(1, None),))
    driven.say(2, end=4)
    driven.turn(2)
    driven.turn(3, writer=(WriterCommitted(1, None),))
    assert (driven.publishing.progress, driven.publishing.read) == (4, None)
    driven.turn(4, progress=(4,))
    driven.turn(5, progress=(3,))
    assert driven.publishing.read == 4


def test_the_others_wait_their_patience_from_when_they_are_ahead() -> None:
    driven = Driven()
    driven.turn(0)
    driven.say(0, end=1)
    driven.turn(500 * MS)
    assert driven.publishing.wakeup(1) == FIRST_PATIENCE  # it stood still since the turn before
    assert driven.turn(FIRST_PATIENCE - 1) == []
    assert driven.turn(FIRST_PATIENCE) == [FenceWriter(1)]


def test_who_has_just_begun_to_run_takes_over_without_patience_and_waits_when_it_has_lost_that() -> None:
    driven = Driven()
    driven.publishing.at_once = True
    driven.say(0, 1, 2, end=3)
    assert driven.turn(0, progress=(0,)) == [FenceWriter(1)]
    assert driven.turn(1, writer=(WriterReady(1, 2),)) == [Publish(1, 2, 3, {2: ROW})]
    assert driven.turn(2, writer=(WriterLost(1, fenced=True),)) == [AbandonWriter()]
    assert driven.turn(1 + FIRST_PATIENCE) == []
    assert driven.turn(2 + FIRST_PATIENCE) == [FenceWriter(2)]


def test_progress_that_moves_starts_patience_again() -> None:
    driven = Driven()
    driven.say(0, 1, end=2)
    driven.turn(0)
    driven.turn(900 * MS, progress=(1,))
    assert driven.turn(900 * MS + FIRST_PATIENCE - 1) == []
    assert driven.turn(900 * MS + FIRST_PATIENCE) == [FenceWriter(1)]


def test_progress_above_what_the_inputs_have_closed_is_not_believed_until_they_have() -> None:
    driven = Driven()
    driven.closed = 5
    driven.say(0, 3, end=5)
    driven.turn(0, progress=(2, 9))
    assert driven.publishing.frontier == 2
    driven.closed = 9
    driven.turn(1)
    assert driven.publishing.frontier == 9


def test_progress_of_all_that_the_inputs_have_closed_is_believed_at_once() -> None:
    """Who publishes would otherwise repeat rows of another's."""
    driven = Driven()
    driven.closed = 4
    driven.say(0, 1, 2, 3, end=4)
    ready(driven)
    assert driven.turn(FIRST_PATIENCE + 1, progress=(4,), writer=(WriterCommitted(1),)) == []
    assert driven.publishing.frontier == 4


def test_the_next_record_corrects_progress_that_was_not_believed() -> None:
    driven = Driven()
    driven.closed = 5
    driven.say(0, 3, end=5)
    driven.turn(0, progress=(2, 9, 3))
    driven.closed = 9
    driven.turn(1)
    assert driven.publishing.frontier == 3


def test_unbelieved_progress_that_stands_still_is_taken_over_behind_what_was_really_written() -> None:
    """It does not lose what a false one says is there, also once the inputs have closed that."""
    driven = Driven()
    driven.closed = 5
    driven.say(0, 3, end=5)
    driven.turn(0, progress=(2,))
    driven.turn(500 * MS, progress=(9,))
    assert driven.turn(500 * MS + FIRST_PATIENCE - 1) == []
    now = 500 * MS + FIRST_PATIENCE
    assert driven.turn(now) == [FenceWriter(1)]
    driven.closed = 9
    assert driven.turn(now, writer=(WriterReady(1, 3),)) == [Publish(1, 3, 5, {3: ROW})]
    driven.turn(now + 1, writer=(WriterCommitted(1),))
    assert driven.publishing.frontier == 5


def test_nobody_takes_over_without_anything_to_write() -> None:
    driven = Driven()
    driven.say(end=1)
    driven.turn(0, progress=(1,))
    assert driven.turn(60_000 * MS) == []
    assert driven.publishing.wakeup(1) is None


@pytest.mark.parametrize("unfit", ["gap", "stale"])
def test_nobody_takes_over_on_an_old_look_at_the_progress(unfit: str) -> None:
    driven = Driven()
    driven.say(0, end=1)
    driven.turn(0)
    later = 5_000 * MS
    stale = later - TIMING.gap_us - 1
    assert driven.turn(later, gap=unfit == "gap", read_to=stale if unfit == "stale" else None) == []
    standing = PublishContext(now=later, stable=1, lowest_live=0, gap=False, read_to=stale, closed=1)
    assert driven.publishing.wants_ends(standing) is (unfit == "stale")


def test_who_may_publish_at_once_looks_again_if_it_was_away() -> None:
    driven = Driven(replica=0)
    assert driven.turn(0, gap=True) == []
    assert driven.turn(1) == [FenceWriter(1)]


def test_a_writer_that_is_ready_and_lost_in_one_turn_is_reported_and_abandoned() -> None:
    driven = Driven(replica=0)
    assert driven.turn(0) == [FenceWriter(1)]
    standing = PublishContext(now=1, stable=0, lowest_live=0, gap=False, read_to=1, closed=100)
    effects = driven.publishing.turn(Turn(1, writer=(WriterReady(1, 0), WriterLost(1, True))), standing, driven.output)
    assert [type(effect) for effect in effects] == [EmitEvent, AbandonWriter]
    assert driven.publishing.phase is Phase.IDLE


LATER = FIRST_PATIENCE + TIMING.gap_us


@pytest.mark.parametrize(
    ("now", "read_to", "stable", "wanted"),
    [
        (LATER, LATER - TIMING.gap_us - 1, 1, True),
        (LATER, LATER - TIMING.gap_us, 1, False),  # the last look is fresh enough
        (FIRST_PATIENCE, FIRST_PATIENCE - TIMING.gap_us - 1, 1, True),
        (FIRST_PATIENCE - 1, 0, 1, False),  # its patience is not over
        (LATER, 0, 0, False),  # it has nothing to publish
    ],
)
def test_the_ends_are_asked_for_when_a_take_over_waits_for_nothing_else(
    now: int, read_to: int, stable: int, wanted: bool
) -> None:
    driven = Driven()
    driven.turn(0, progress=(0,))
    assert (
        driven.publishing.wants_ends(
            PublishContext(now=now, stable=stable, lowest_live=0, gap=False, read_to=read_to, closed=100)
        )
        is wanted
    )


def test_the_lowest_replica_asks_for_the_ends_at_once_while_nothing_was_published() -> None:
    driven = Driven(replica=0)
    standing = PublishContext(now=0, stable=0, lowest_live=0, gap=False, read_to=-(10**9), closed=100)
    assert driven.publishing.wants_ends(standing)
    driven.turn(0)
    assert driven.publishing.phase is Phase.TAKING
    assert not driven.publishing.wants_ends(standing)


def ready(driven: Driven, now: int = 0, progress: int | None = 0) -> None:
    driven.turn(now, progress=() if progress is None else (progress,))
    driven.turn(now + FIRST_PATIENCE)
    assert driven.publishing.phase is Phase.TAKING
    driven.turn(now + FIRST_PATIENCE, writer=(WriterReady(1, progress),))


def test_it_fences_first_and_goes_on_from_the_progress_read_after_that() -> None:
    driven = Driven()
    driven.say(0, 1, 2, end=3)
    driven.turn(0, progress=(0,))
    assert driven.turn(FIRST_PATIENCE) == [FenceWriter(1)]
    assert driven.turn(FIRST_PATIENCE + 1) == []  # nothing is written before the answer
    assert driven.turn(FIRST_PATIENCE + 2, writer=(WriterReady(1, 2),)) == [Publish(1, 2, 3, {2: ROW})]


def test_a_transaction_follows_the_one_that_committed() -> None:
    driven = Driven()
    driven.say(0, 1, 2, 3, 4, end=6)
    ready(driven)
    assert driven.publishing.phase is Phase.COMMITTING
    later = FIRST_PATIENCE + 1
    assert driven.turn(later) == []
    assert driven.turn(later, writer=(WriterCommitted(1),)) == [Publish(1, 3, 6, {3: ROW, 4: ROW})]
    assert driven.output.published == 3


def test_progress_alone_waits_for_a_while() -> None:
    driven = Driven()
    driven.say(0, end=1)
    ready(driven)
    start = FIRST_PATIENCE + 1
    driven.turn(start, writer=(WriterCommitted(1),))
    driven.say(end=9)
    due = start + TIMING.progress_only_us
    assert driven.turn(due - 1) == []
    assert driven.turn(due) == [Publish(1, 1, 9, {})]


def test_progress_alone_has_no_turn_of_its_own_while_another_comes_in_time() -> None:
    driven = Driven()
    driven.say(0, end=1)
    ready(driven)
    start = FIRST_PATIENCE + 1
    driven.turn(start, writer=(WriterCommitted(1),))
    driven.say(end=9)
    assert driven.publishing.wakeup(9) == start + TIMING.progress_only_us + TIMING.progress_only_us // PLAY
    assert TIMING.progress_only_us // PLAY >= 100_000, "a bucket's turn takes it along"


def test_after_fenced_it_waits_its_patience_and_after_unknown_a_moment() -> None:
    for fenced, patience in ((True, FIRST_PATIENCE), (False, TIMING.patience_unknown_us)):
        driven = Driven()
        driven.say(0, end=1)
        ready(driven)
        at = FIRST_PATIENCE + 7
        assert driven.turn(at, writer=(WriterLost(1, fenced),)) == [AbandonWriter()]
        assert driven.turn(at + patience - 1) == []
        assert driven.turn(at + patience) == [FenceWriter(2)]


def test_patience_doubles_with_each_writer_that_is_lost_until_progress_grows() -> None:
    driven = Driven()
    driven.say(0, 1, end=2)
    ready(driven)
    at, waited = FIRST_PATIENCE, []
    for attempt in range(1, DOUBLINGS_MAX + 4):
        driven.turn(at, writer=(WriterLost(attempt, True),))
        waited.append(driven.publishing.patience_us)
        at += waited[-1]
        assert driven.turn(at) == [FenceWriter(attempt + 1)]
    assert waited == [FIRST_PATIENCE << min(n, DOUBLINGS_MAX) for n in range(DOUBLINGS_MAX + 3)]
    driven.turn(at, progress=(1,), writer=(WriterLost(DOUBLINGS_MAX + 4, True),))
    assert driven.publishing.patience_us == FIRST_PATIENCE


@pytest.mark.parametrize("commit_us", [500_000, 3_000_000, 9_000_000])
def test_two_that_fence_each_other_let_one_commit_however_slow_the_log_is(commit_us: int) -> None:
    """Each fences the other as soon as it takes over; who is left alone for `commit_us` has committed."""
    both = [Driven(replica=k) for k in range(2)]
    for driven in both:
        driven.say(0, end=1)
        driven.turn(0, progress=(0,))
    writer: tuple[int, int, int] | None = None  # whose, its attempt, since when
    for now in range(0, 120_000_000, 50_000):
        if writer is not None and now - writer[2] >= commit_us:
            return
        for k, driven in enumerate(both):
            effects = driven.turn(now)
            if effects and isinstance(effects[0], FenceWriter):
                fenced, writer = writer, (k, effects[0].attempt, now)
                driven.turn(now, writer=(WriterReady(writer[1], 0),))
                if fenced is not None:
                    both[fenced[0]].turn(now, writer=(WriterLost(fenced[1], True),))
    raise AssertionError("nobody could commit in two minutes")


@pytest.mark.parametrize("fenced", [True, False])
def test_losing_the_very_first_take_over_is_waited_out_too(fenced: bool) -> None:
    driven = Driven(replica=0)
    driven.say(0, end=1)
    assert driven.turn(0) == [FenceWriter(1)]
    assert driven.turn(1, writer=(WriterLost(1, fenced),)) == [AbandonWriter()]
    assert not driven.publishing.wants_ends(
        PublishContext(now=2, stable=1, lowest_live=0, gap=False, read_to=-(10**9), closed=1)
    )
    patience = TIMING.patience_us if fenced else TIMING.patience_unknown_us
    assert driven.turn(patience) == []
    assert driven.turn(1 + patience) == [FenceWriter(2)]


def test_an_answer_to_an_attempt_that_is_over_changes_nothing() -> None:
    driven = Driven()
    driven.say(0, end=1)
    ready(driven)
    driven.turn(FIRST_PATIENCE + 1, writer=(WriterLost(1, True),))
    assert driven.turn(FIRST_PATIENCE + 2, writer=(WriterCommitted(1), WriterReady(1, 1))) == []
    assert (driven.publishing.phase, driven.publishing.frontier) == (Phase.IDLE, 0)


def test_a_zombie_writer_that_reads_anothers_progress_writes_only_beyond_it() -> None:
    driven = Driven()
    driven.say(0, 1, end=2)
    ready(driven)
    driven.turn(FIRST_PATIENCE + 1, writer=(WriterCommitted(1),))
    driven.say(2, 3, end=4)
    assert driven.turn(FIRST_PATIENCE + 2, progress=(3,)) == [Publish(1, 3, 4, {3: ROW})]


def test_rows_that_left_memory_are_read_back_only_as_far_as_the_own_topic_holds_them() -> None:
    driven = Driven()
    ready(driven_with(driven, acked=False))
    assert driven.publishing.phase is Phase.READY  # nothing is acknowledged: the topic would look empty
    driven.output.acknowledged(1)
    assert driven.turn(FIRST_PATIENCE + 1) == [Publish(1, 0, 1, None)]
    driven.output.acknowledged(2)
    later = FIRST_PATIENCE + 2
    assert driven.turn(later, writer=(WriterCommitted(1),)) == [Publish(1, 1, 2, None)]
    assert driven.turn(later, writer=(WriterCommitted(1),)) == [Publish(1, 2, 3, {2: ROW})]


def test_what_was_read_back_may_end_before_what_was_asked_for() -> None:
    """How much goes into one transaction shows when it is read: the answer tells, and the next goes on from there."""
    driven = Driven()
    ready(driven_with(driven, acked=True))
    assert driven.publishing.phase is Phase.COMMITTING  # of buckets 0 and 1
    later = FIRST_PATIENCE + 2
    assert driven.turn(later, writer=(WriterCommitted(1, 1),)) == [Publish(1, 1, 2, None)]


def driven_with(driven: Driven, acked: bool) -> Driven:
    """Two buckets too big for memory, and one that is not."""
    big = Output(tuple((i, i) for i in range(11)))
    driven.output.stable_run(0, 1, {0: big})
    driven.output.stable_run(1, 3, {1: big, 2: ROW})
    if acked:
        driven.output.acknowledged(10**9)
    return driven


def test_a_writer_at_work_is_not_fenced_and_patience_begins_again() -> None:
    driven = Driven()
    driven.turn(0)
    driven.say(0, end=1)
    driven.turn(0)
    assert driven.turn(FIRST_PATIENCE) == [FenceWriter(1)]
    at = FIRST_PATIENCE + 300 * MS
    assert driven.turn(at, writer=(WriterBusy(1),)) == []
    assert driven.publishing.phase is Phase.IDLE
    assert driven.turn(at + FIRST_PATIENCE - 1) == []
    assert driven.turn(at + FIRST_PATIENCE) == [FenceWriter(2)]
    driven.turn(at + FIRST_PATIENCE + 1, writer=(WriterBusy(1), WriterReady(2, None)))
    assert driven.publishing.phase is not Phase.IDLE, "the first attempt's word is nothing"
