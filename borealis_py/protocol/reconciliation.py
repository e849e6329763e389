"""How a granted replica runs its redo: in inline slices, as a job on Spark, or by a local re-read (R4.3, B4, R6)."""

from __future__ import annotations

from borealis_py.protocol.delay import ALWAYS
from borealis_py.protocol.job_time import JobTime
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.redo import MEASURED, RedoDone, RedoFailed, RedoJob, RedoPlace, RedoResult, SourceRange
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import CancelRedo, Effect, EmitEvent, StartRedo
from sunion.errors import RetentionLost
from sunion.model import State
from sunion.union import SUnion
from sunion.units import Bucket, MonotonicUs, Offset

ADOPT_DOUBLINGS = 5
"""After so many adoptions without an answer, the wait before the next one stops growing, at 48 s."""


class Reconciliation:
    """The current job, if any, and whether Spark is still trusted in this reconciliation.

    Args:
        pace: knows what rows cost inline; forgets it at each grant.
        spark: jobs may run on Spark. If False, buckets run from memory, and local jobs read again what left it.

    Attributes:
        job: the job that runs; None: none runs.
        deadline: when it is given up; None: never.
    """

    def __init__(self, timing: Timing, pace: Pace, spark: bool = True) -> None:
        self._timing = timing
        self._pace = pace
        self._job_time = JobTime(timing)
        self._spark = spark
        """Whether this replica has a Spark at all."""
        self.job: RedoJob | None = None
        self.deadline: MonotonicUs | None = None
        self._began = MonotonicUs(0)
        """When the last job on Spark or in this process began."""
        self._local = False
        """Whether the last such job runs in this process."""
        self._next_id = 1
        """The id of the next job; it only grows, so that a late result counts for no other job (B4)."""
        self._trust_spark = spark
        """Whether jobs run on Spark: from each grant on until one of its jobs fails."""
        self._took_all: int | None = None
        """How many buckets the last job had, if it went up to the live frontier."""
        self._jobs_chase = False
        """Whether jobs would follow the live frontier for ever, so that the rest of this redo runs inline."""
        self._jobs_done = 0
        """Jobs that were done since the grant."""
        self._in_time: int | None = None
        """How many rows the last job would have run in `redo_us`; None: no job of this grant is done."""
        self._retry_at = MonotonicUs(0)
        """When a local job may be tried again after one has failed."""
        self._inline: tuple[int, int, int, int] | None = None
        """First and end bucket, rows and beginning of what runs inline and has not been reported."""
        self._refused: tuple[int, int] | None = None
        """Peer and bucket of the last checkpoint that could not be adopted."""
        self._unanswered = 0
        """Adoptions in a row that had no answer in time."""
        self._adopt_at = ALWAYS
        """When an adoption may be tried again."""

    def begin(self) -> None:
        """A grant begins: Spark is tried again."""
        self.end()
        self._pace.forget()
        self._trust_spark = self._spark
        self._jobs_done = 0

    def end(self) -> None:
        """A grant ends: forget what its jobs took, as later ones may differ."""
        self._took_all, self._jobs_chase, self._in_time = None, False, None

    @property
    def job_buckets(self) -> int:
        """Buckets of the current job; 0: none runs."""
        return 0 if self.job is None else self.job.end - self.job.first

    @property
    def _rows_max(self) -> int:
        """Rows of the next job: each may have twice as many as the one before, so that first corrections come soon and
        the jobs' fixed cost does not let F_l get away; but no more than fit `redo_us`, by what the last one took."""
        least = self._timing.redo_rows
        most = min(least << min(self._jobs_done, 30), self._timing.redo_rows_max)
        return most if self._in_time is None else min(most, max(least, self._in_time))

    def wakeup(self) -> MonotonicUs | None:
        """When a deadline passes or a failed local job may be tried again; None: neither is due."""
        if self.job is not None:
            return self.deadline
        return self._retry_at if self._local and not self._trust_spark and self._retry_at else None

    def resting(self, now: MonotonicUs) -> bool:
        """Whether a local job has failed and may not be tried again yet."""
        return self._local and not self._trust_spark and now < self._retry_at

    def inline(self, union: SUnion, first: Bucket, target: Bucket) -> bool:
        """Whether to run from memory: there is little work, no Spark, or Spark has failed. Not if rows were evicted."""
        if self._took_all is not None and 2 * (target - first) > self._took_all:
            self._jobs_chase = True  # F_l advances during a job by what the job corrects: jobs would never end
        if first < union.evicted:
            return False
        if not self._trust_spark or self._jobs_chase or target - first <= self._timing.inline_buckets:
            return True
        rows = 0
        for bucket in union.busy(first, target):
            rows += union.count(bucket)
            if self._pace.expected_us(rows) > self._timing.inline_us:
                return False
        return True

    def keep_from(self, stable: Bucket, live: Bucket) -> Bucket:
        """The first bucket whose rows must stay in memory, even over the budget (R6.5).

        That is the live frontier, unless jobs chase it: then the rest must run from memory, so rows that arrive during
        the next job stay.
        """
        if not self._jobs_chase:
            return live
        return stable if self.job is None else self.job.end

    def start_job(
        self,
        now: MonotonicUs,
        union: SUnion,
        first: Bucket,
        target: Bucket,
        state: State,
        to_live: bool = False,
    ) -> list[Effect]:
        """Begin a job on the buckets from `first` up to `target` at most, as many as hold `_rows_max` rows.

        `to_live`: `target` is the live frontier. If the job after one up to there is hardly smaller, jobs would chase
        the live frontier for ever, so the rest runs inline.
        """
        local = not self._trust_spark
        if local and self.resting(now):
            return []
        end, rows = target, 0
        for n, bucket in enumerate(union.busy(first, target)):
            if n and rows + union.count(bucket) > self._rows_max:
                end = Bucket(bucket)
                break
            rows += union.count(bucket)
        ranges = tuple(
            SourceRange(i, Offset(mark.offset), Offset(source.offset), mark.fold)
            for (i, source), mark in zip(union.sources.items(), union.marks(first), strict=True)
        )
        within_us = None if local else self._job_time.deadline_us(rows)
        self.job = RedoJob(
            id=self._next_id, first=first, end=end, state=state, ranges=ranges, rows=rows, deadline_us=within_us
        )
        self._next_id += 1
        self._took_all = end - first if to_live and end == target else None
        self._local = local
        self._began, self.deadline = now, None if within_us is None else MonotonicUs(now + within_us)
        return [StartRedo(self.job, RedoPlace.LOG if local else RedoPlace.SPARK)]

    def may_adopt(self, now: MonotonicUs, peer: int, bucket: Bucket) -> bool:
        """Whether to try this checkpoint: it has not been refused, and no adoption timed out lately.

        What delays one adoption (a peer's stable records lie behind all tentative ones of a long failure) delays the
        next one too, and nothing is redone meanwhile.
        """
        return self._refused != (peer, bucket) and now >= self._adopt_at

    def adopt(self, now: MonotonicUs, peer: int, first: Bucket, end: Bucket, state: State) -> list[Effect]:
        """Begin to take over a peer's checkpoint at `end`, with what it emitted for [first, end) (B44, B2)."""
        within_us = self._timing.adopt_deadline_us
        self.job = RedoJob(
            id=self._next_id, first=first, end=end, state=state, ranges=(), rows=0, peer=peer, deadline_us=within_us
        )
        self._next_id += 1
        self._took_all = None
        self.deadline = MonotonicUs(now + within_us)
        return [StartRedo(self.job, RedoPlace.PEER)]

    def answered(
        self, now: MonotonicUs, result: RedoResult, stable: Bucket
    ) -> tuple[tuple[RedoJob, RedoDone] | None, list[Effect]]:
        """Take a result. It counts only if its job is current and the stable frontier is where it began (B4).

        Returns:
            The job with its outcome, or None if the result does not count or the job failed; and the effects.

        Raises:
            RetentionLost: rows that left memory are deleted from the log.
        """
        if result.id == MEASURED:
            if isinstance(result, RedoDone):
                self._job_time.took(0, round(result.seconds * 1e6))
            return None, []
        job = self.job
        if job is None or result.id != job.id or stable != job.first:
            return None, []
        if isinstance(result, RedoFailed):
            if result.lost and self._local and job.peer is None:
                raise RetentionLost(result.reason)  # neither memory nor the log has it
            if job.deadline_us is not None and 10 * (now - self._began) >= 9 * job.deadline_us:
                self._took_too_long(now)  # the runner's own limit comes a little earlier
            return None, self._give_up(now, result.reason)
        self.job = self.deadline = None
        if job.peer is not None:
            self._unanswered = 0
        else:
            if not self._local:
                self._job_time.took(job.rows, round(result.seconds * 1e6))
            self._jobs_done += 1
            self._in_time = round(job.rows * self._timing.redo_us / max(1.0, result.seconds * 1e6))
        return (job, result), [EmitEvent("REDO", "", (job.first, job.end, job.rows, result.engine, result.seconds))]

    def check_deadline(self, now: MonotonicUs) -> list[Effect]:
        """Forget and cancel a job that is past its deadline (B4)."""
        if self.job is None or self.deadline is None or now < self.deadline:
            return []
        job, within_us = self.job, self.job.deadline_us
        assert within_us is not None
        reason = f"no answer within {within_us / 1e6:.3g} s"
        if job.peer is not None:
            self._unanswered += 1
            self._adopt_at = MonotonicUs(now + (within_us << min(self._unanswered, ADOPT_DOUBLINGS)))
        else:
            expected_us = self._job_time.expected_us(job.rows)
            reason += f"; by the last ones, {expected_us / 1e6:.2g} s would do here" if expected_us else ""
            self._took_too_long(now)
        return [CancelRedo(job.id), *self._give_up(now, reason)]

    def _took_too_long(self, now: MonotonicUs) -> None:
        """The next job is waited for longer, in case that it is the machine and not Spark that hangs."""
        if self.job is not None and self.job.peer is None:
            self._job_time.took(self.job.rows, now - self._began)

    def _give_up(self, now: MonotonicUs, reason: str) -> list[Effect]:
        assert self.job is not None
        if self.job.peer is not None:
            self._refused = (self.job.peer, self.job.end)
            self.job = self.deadline = None
            return [EmitEvent("ADOPT_FAILED", reason)]
        self._retry_at = MonotonicUs(now + self._timing.retry_us) if self._local else now
        self.job = self.deadline = None
        self._trust_spark = False
        return [EmitEvent("REDO_FAILED", reason)]

    def ran_inline(self, first: Bucket, end: Bucket, rows: int, now: MonotonicUs) -> None:
        """Remember a slice; slices in a row are reported as one."""
        if self._inline is None:
            self._inline = (first, end, rows, now)
        else:
            self._inline = (self._inline[0], end, self._inline[2] + rows, self._inline[3])

    def note_inline(self, now: MonotonicUs) -> list[Effect]:
        """Report the slices run since the last report as one event."""
        if self._inline is None:
            return []
        first, end, rows, began = self._inline
        self._inline = None
        return [EmitEvent("REDO", "", (first, end, rows, "inline", (now - began) / 1e6))]
