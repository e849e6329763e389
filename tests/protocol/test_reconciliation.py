"""What a redo runs on: inline, a job on Spark, or a local read of the log; one at a time, by its id and frontier."""

from __future__ import annotations

import pytest

from borealis_py.protocol.pace import Pace
from borealis_py.protocol.reconciliation import Reconciliation
from borealis_py.protocol.redo import MEASURED, RedoDone, RedoFailed, RedoJob, RedoPlace, RedoResult, SourceRange
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import CancelRedo, Effect, EmitEvent, StartRedo
from sunion.errors import RetentionLost
from sunion.model import Input
from sunion.union import SUnion
from tests.sunion.lists import AHEAD_US, BUCKETS, OPS, W, batch, claim

TIMING = Timing(inline_us=3, inline_buckets=2, redo_rows=5)


def made_for(timing: Timing, spark: bool = True) -> Reconciliation:
    return Reconciliation(timing, Pace(timing, W), spark)


def union(rows_per_bucket: int = 2, buckets: int = 10) -> SUnion:
    made = SUnion([Input.source("s0")], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    made.feed(0, claim(0))
    for b in range(buckets):
        rows = [(b * W + i, i) for i in range(rows_per_bucket)]
        made.feed(0, batch(1 + b, b * rows_per_bucket, rows, (b + 1) * W))
    return made


def begun(now: int = 0) -> tuple[Reconciliation, list[Effect], SUnion]:
    redo, effects, made = made_for(TIMING), [], union()
    redo.begin()
    effects += redo.start_job(now, made, 0, 10, "S")
    return redo, effects, made


def answered(
    redo: Reconciliation, now: int, result: RedoResult, stable: int, effects: list[Effect]
) -> tuple[RedoJob, RedoDone] | None:
    found, decided = redo.answered(now, result, stable)
    effects += decided
    return found


def done(job: int, seconds: float = 0.001) -> RedoDone:
    return RedoDone(job, "S'", {}, "spark", seconds)


@pytest.mark.parametrize(("rows", "target", "inline"), [(2, 2, True), (1, 3, True), (2, 3, False), (0, 10, True)])
def test_few_rows_or_few_buckets_run_inline(rows: int, target: int, inline: bool) -> None:
    redo = made_for(TIMING)
    redo.begin()
    assert redo.inline(union(rows), 0, target) is inline


def test_so_few_buckets_run_inline_wherever_they_lie_and_whatever_they_hold() -> None:
    redo = made_for(TIMING)
    redo.begin()
    assert redo.inline(union(100), 7, 9)
    assert not redo.inline(union(100), 7, 10)


@pytest.mark.parametrize(("turn_us", "rows", "inline"), [(5_000, 20, True), (5_000, 21, False), (20_000, 5, True)])
def test_what_is_expected_to_take_longer_than_a_limit_becomes_jobs(turn_us: int, rows: int, inline: bool) -> None:
    timing = Timing(inline_us=100_000, inline_buckets=0, slice_rows=200, slice_us=1_000)
    pace = Pace(timing, W)
    redo = Reconciliation(timing, pace)
    redo.begin()
    assert redo.inline(union(10**4), 0, 10), "what rows cost is not known yet"
    pace.takes(0, 1, 1, 0)
    pace.takes(1, 1, 1, 1)
    pace.turn(turn_us, waited=False)
    assert redo.inline(union(rows, 1), 0, 1) is inline
    redo.begin()
    assert redo.inline(union(rows, 1), 0, 1), "nor in the next one"


def test_what_was_evicted_never_runs_from_memory() -> None:
    redo, made = made_for(TIMING), union(0)
    made.evict(1)
    assert not redo.inline(made, 0, 1)
    assert redo.inline(made, 1, 2)


def test_a_job_is_cut_by_rows_and_knows_its_ranges_and_the_fold_before_them() -> None:
    redo, effects, made = begun()
    (started,) = effects
    assert isinstance(started, StartRedo)
    job = started.job
    assert (job.first, job.end, job.rows, job.state, started.place) == (0, 2, 4, "S", RedoPlace.SPARK)
    assert job.ranges == (SourceRange(0, 1, 11, made.marks(0)[0].fold),)
    assert job.ranges[0].fold.owner == "a"
    assert redo.wakeup() == TIMING.redo_deadline_us


@pytest.mark.parametrize(("s_per_row", "rows"), [(0.001, [2, 4, 8, 8]), (0.25, [2, 4, 6, 6]), (3.0, [2, 2, 2, 2])])
def test_each_job_of_a_grant_may_be_twice_as_long_as_the_one_before_up_to_a_limit_of_rows_and_of_time(
    s_per_row: float, rows: list[int]
) -> None:
    timing = Timing(inline_us=0, inline_buckets=0, redo_rows=2, redo_rows_max=8, redo_us=1_500_000)
    redo, made = made_for(timing), union(2, 40)
    redo.begin()
    first, sizes = 0, []
    for _ in range(4):
        effects: list[Effect] = []
        effects += redo.start_job(0, made, first, 40, "S")
        (started,) = effects
        assert isinstance(started, StartRedo)
        assert answered(redo, 1, done(started.job.id, s_per_row * started.job.rows), first, []) is not None
        first = started.job.end
        sizes.append(started.job.rows)
    assert sizes == rows
    redo.begin()
    effects = redo.start_job(0, made, first, 40, "S")
    assert [e.job.rows for e in effects if isinstance(e, StartRedo)] == [2]


def test_one_bucket_larger_than_a_job_is_a_job() -> None:
    redo, effects = made_for(TIMING), []
    effects += redo.start_job(0, union(9), 0, 10, "S")
    assert (effects[0].job.first, effects[0].job.end) == (0, 1)


def test_the_result_of_the_current_job_at_the_same_frontier_counts_once() -> None:
    redo, effects, _ = begun()
    job = effects[0].job
    assert answered(redo, 1, done(job.id), 0, effects) == (job, done(job.id))
    assert [e.event for e in effects if isinstance(e, EmitEvent)] == ["REDO"]
    assert redo.job is None
    assert answered(redo, 2, done(job.id), 0, effects) is None


@pytest.mark.parametrize(("result", "stable"), [(done(99), 0), (done(1), 1), (RedoFailed(99, "old"), 0)])
def test_any_other_result_is_ignored(result: RedoResult, stable: int) -> None:
    redo, effects, _ = begun()
    before = list(effects)
    assert answered(redo, 1, result, stable, effects) is None
    assert (effects, redo.job) == (before, before[0].job)


def test_a_failed_job_makes_the_rest_of_this_reconciliation_inline() -> None:
    redo, effects, made = begun()
    assert answered(redo, 1, RedoFailed(1, "no worker"), 0, effects) is None
    assert effects[1:] == [EmitEvent("REDO_FAILED", "no worker")]
    assert redo.inline(made, 0, 10)
    redo.begin()
    assert not redo.inline(made, 0, 10)


def test_at_its_deadline_a_job_is_cancelled_and_its_late_answer_ignored() -> None:
    redo, effects, _ = begun()
    effects += redo.check_deadline(TIMING.redo_deadline_us - 1)
    assert redo.job is not None
    effects += redo.check_deadline(TIMING.redo_deadline_us)
    assert effects[1:] == [CancelRedo(1), EmitEvent("REDO_FAILED", "no answer within 2.5 s")]
    assert answered(redo, TIMING.redo_deadline_us, done(1), 0, effects) is None


def after(*took: float, failed: RedoFailed | None = None) -> list[int]:
    """For how long each job of 2 buckets is waited for, of those that took so many seconds, and of one after them."""
    redo, made, waited = made_for(TIMING), union(), []
    for seconds in (*took, None):
        redo.begin()
        (started,) = redo.start_job(0, made, 0, 10, "S")
        assert isinstance(started, StartRedo)
        assert redo.deadline == started.job.deadline_us
        waited.append(started.job.deadline_us or 0)
        if seconds is not None:
            answer = RedoFailed(started.job.id, failed.reason) if failed else done(started.job.id, seconds)
            answered(redo, round(seconds * 1e6), answer, 0, [])
    return waited


def test_a_job_is_waited_for_as_its_like_took_here_and_no_longer_than_t_allows() -> None:
    """12 times as long as the longest of the last three, but 2.5 s at least, and 7.5 s at most."""
    least, most = TIMING.redo_deadline_us, TIMING.redo_deadline_most_us
    assert (least, most, TIMING.stagger_us) == (2_500_000, 7_500_000, 9_000_000)
    assert after() == [least]
    assert after(0.1, 0.2) == [least, least, least]
    assert after(0.5, 0.1, 0.1, 0.1) == [least, 6_000_000, 6_000_000, 6_000_000, least]
    assert after(0.5, 2.4) == [least, 6_000_000, most]


def test_a_job_that_was_given_up_lets_the_next_one_take_longer() -> None:
    redo, made = made_for(TIMING), union()
    for within_us in (TIMING.redo_deadline_us, TIMING.redo_deadline_most_us):
        redo.begin()
        (started,) = redo.start_job(0, made, 0, 10, "S")
        assert isinstance(started, StartRedo)
        assert started.job.deadline_us == within_us
        assert redo.check_deadline(within_us - 1) == []
        assert redo.check_deadline(within_us) != []
    late = RedoFailed(0, "q: not done by the deadline, at bucket 3")
    assert after(2.3, failed=late) == [2_500_000, 7_500_000], "as the runner finds it out"
    assert after(0.1, failed=late) == [2_500_000, 2_500_000], "what fails at once says nothing about time"


def test_what_is_measured_at_the_start_counts_and_is_no_result() -> None:
    redo, made = made_for(TIMING), union()
    assert redo.answered(0, done(MEASURED, 0.4), 0) == (None, [])
    assert redo.answered(0, RedoFailed(MEASURED, "no slot"), 0) == (None, [])
    redo.begin()
    (started,) = redo.start_job(0, made, 0, 10, "S")
    assert isinstance(started, StartRedo)
    assert started.job.deadline_us == 4_800_000
    assert started.job.id > MEASURED
    effects = redo.check_deadline(4_800_000)
    assert effects[1] == EmitEvent("REDO_FAILED", "no answer within 4.8 s; by the last ones, 0.4 s would do here")


def test_when_spark_has_failed_evicted_rows_are_read_again_locally_with_a_rest_between_tries() -> None:
    redo, effects, made = begun()
    answered(redo, 1, RedoFailed(1, "no worker"), 0, effects)
    made.evict(9)
    assert not redo.inline(made, 0, 10)
    effects += redo.start_job(2, made, 0, 10, "S")
    assert (effects[-1].place, redo.deadline, redo.wakeup()) == (RedoPlace.LOG, None, None)
    answered(redo, 3, RedoFailed(2, "log unreachable"), 0, effects)
    assert redo.resting(3)
    before = len(effects)
    effects += redo.start_job(4, made, 0, 10, "S")
    assert (len(effects), redo.wakeup()) == (before, 3 + TIMING.retry_us)
    effects += redo.start_job(3 + TIMING.retry_us, made, 0, 10, "S")
    assert effects[-1].job.id == 3


def test_after_spark_has_failed_one_local_job_follows_the_other_at_once() -> None:
    redo, effects, made = begun()
    answered(redo, 1, RedoFailed(1, "no worker"), 0, effects)
    made.evict(9)
    effects += redo.start_job(2, made, 0, 10, "S")
    assert answered(redo, 3, done(2), 0, effects) is not None
    assert not redo.resting(3)
    effects += redo.start_job(3, made, effects[-2].job.end, 10, "S")
    assert (effects[-1].job.id, effects[-1].place) == (3, RedoPlace.LOG)


def test_without_spark_all_runs_from_memory_and_what_left_it_by_local_jobs() -> None:
    redo, effects, made = made_for(TIMING, spark=False), [], union()
    for _ in range(2):  # a later grant gives no other chance
        redo.begin()
        assert redo.inline(made, 0, 10)
    made.evict(2)
    assert not redo.inline(made, 0, 10)
    effects += redo.start_job(0, made, 0, 10, "S")
    assert (effects[-1].place, redo.deadline) == (RedoPlace.LOG, None)
    assert redo.inline(made, 2, 10)


def test_slices_in_a_row_are_told_as_one() -> None:
    redo, effects = made_for(TIMING), []
    effects += redo.note_inline(0)
    assert effects == []
    redo.ran_inline(0, 2, 5, 1_000_000)
    redo.ran_inline(2, 4, 7, 2_000_000)
    effects += redo.note_inline(3_000_000)
    assert effects == [EmitEvent("REDO", "", (0, 4, 12, "inline", 2.0))]


def test_jobs_that_only_chase_the_live_frontier_give_way_to_inline() -> None:
    """Found by the simulator: each job took as long as life needed to add the next one's buckets (seed 32)."""
    redo, effects, made = made_for(TIMING), [], union(buckets=20)
    redo.begin()
    effects += redo.start_job(0, made, 0, 2, "S", to_live=True)
    assert answered(redo, 1, done(effects[0].job.id), 0, effects) is not None
    assert redo.inline(made, 2, 12), "10 buckets came while 2 were redone"
    assert redo.inline(made, 3, 12), "and that stays so until the end of this reconciliation"
    redo.begin()
    assert not redo.inline(made, 3, 12)


def test_while_jobs_chase_what_comes_during_the_next_one_stays_in_memory() -> None:
    redo, effects, made = made_for(TIMING), [], union(buckets=20)
    redo.begin()
    effects += redo.start_job(0, made, 0, 2, "S", to_live=True)
    assert redo.keep_from(0, 12) == 12, "over the budget all that a redo can read again may go"
    assert answered(redo, 1, done(1), 0, effects) is not None
    made.evict(12)
    assert not redo.inline(made, 2, 12), "evicted: another job"
    effects += redo.start_job(1, made, 2, 12, "S")
    end = effects[-1].job.end
    assert redo.keep_from(2, 14) == end
    assert answered(redo, 2, done(2), 2, effects) is not None
    assert redo.keep_from(end, 15) == end
    redo.end()
    assert redo.keep_from(end, 16) == 16


def test_a_job_that_did_not_reach_the_live_frontier_says_nothing_of_the_next_one() -> None:
    redo, effects, made = made_for(TIMING), [], union(buckets=20)
    redo.begin()
    effects += redo.start_job(0, made, 0, 2, "S")
    assert answered(redo, 1, done(effects[0].job.id), 0, effects) is not None
    assert not redo.inline(made, 2, 12)


def test_rows_that_neither_memory_nor_the_log_has_end_the_replica_by_name() -> None:
    """Simulator, seed 5192: the redo was tried again every second, for ever."""
    redo, effects, made = begun()
    gone = "source s0: offset 7 is no longer in the log"
    assert answered(redo, 1, RedoFailed(effects[0].job.id, gone, lost=True), 0, effects) is None, "memory may have them"
    made.evict(10)
    effects += redo.start_job(2, made, 0, 10, "S")
    with pytest.raises(RetentionLost, match="offset 7"):
        answered(redo, 3, RedoFailed(effects[-1].job.id, gone, lost=True), 0, effects)


def test_an_adoption_is_a_job_with_a_number_of_its_own() -> None:
    """With a number that was used before, an answer that comes late would count for it."""
    redo, effects, made = begun()
    effects += redo.adopt(1, 2, 0, 9, "S")
    effects += redo.start_job(2, made, 0, 10, "S")
    assert effects[1] == StartRedo(
        RedoJob(id=2, first=0, end=9, state="S", ranges=(), rows=0, peer=2, deadline_us=TIMING.adopt_deadline_us),
        RedoPlace.PEER,
    )
    assert [e.job.id for e in effects] == [1, 2, 3]


def test_after_an_adoption_without_an_answer_the_next_one_waits_twice_as_long_each_time() -> None:
    redo, effects, now, waits = made_for(TIMING), [], 0, []
    for end in range(9, 17):
        assert redo.may_adopt(now, 1, 99)
        effects += redo.adopt(now, 1, 0, end, "S")
        effects += redo.check_deadline(now + TIMING.adopt_deadline_us)
        assert redo.job is None
        began = now = now + TIMING.adopt_deadline_us
        while not redo.may_adopt(now, 1, 99):
            now += TIMING.adopt_deadline_us
        waits.append((now - began) // TIMING.adopt_deadline_us)
    assert waits == [2, 4, 8, 16, 32, 32, 32, 32]
    effects += redo.adopt(now, 1, 0, 17, "S")
    assert answered(redo, now, done(effects[-1].job.id), 0, effects) is not None
    effects += redo.adopt(now, 1, 0, 18, "S")
    effects += redo.check_deadline(now + TIMING.adopt_deadline_us)
    assert redo.may_adopt(now + 3 * TIMING.adopt_deadline_us, 1, 99)


def test_a_peers_checkpoint_that_is_gone_is_no_loss() -> None:
    redo, effects = made_for(TIMING), []
    effects += redo.adopt(0, 1, 0, 9, "S")
    redo._local = True
    assert answered(redo, 1, RedoFailed(effects[0].job.id, "no such file", lost=True), 0, effects) is None
    assert redo.job is None
