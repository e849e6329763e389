"""What a granted replica runs its redo on: inline slices, a job on Spark, or a local re-read (R4, B4, R6)."""

from __future__ import annotations

from borealis_py.protocol.delay import ALWAYS
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoPlace, RedoResult, SourceRange
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import CancelRedo, Effect, EmitEvent, StartRedo
from sunion.errors import RetentionLost
from sunion.model import State
from sunion.union import SUnion

ADOPT_DOUBLINGS = 5
"""After so many adoptions without an answer the time until the next one grows no more: 48 s."""


class Reconciliation:
    """The current job, if any, and whether Spark is still trusted in this reconciliation.

    Args:
        pace: tells what rows cost inline; forgets it at each grant.
        spark: jobs may run on Spark. Without, buckets run from memory, and what left it is read again by local jobs.
    """

    def __init__(self, timing: Timing, pace: Pace, spark: bool = True) -> None:
        self._timing = timing
        self._pace = pace
        self._spark = spark
        self.job: RedoJob | None = None
        self.deadline: int | None = None
        self._local = False
        self._next_id = 1
        self._trust_spark = spark
        self._took_all: int | None = None  # buckets of the last job, if it went up to the live frontier
        self._jobs_chase = False
        self._jobs_done = 0  # since the grant
        self._in_time: int | None = None  # rows that the last job would have run in `redo_us`
        self._retry_at = 0
        self._inline: tuple[int, int, int, int] | None = None  # first, end, rows, began
        self._refused: tuple[int, int] | None = None  # peer and bucket of a checkpoint that could not be adopted
        self._unanswered = 0  # adoptions in a row
        self._adopt_at = ALWAYS  # none is tried before

    def begin(self) -> None:
        """A grant begins: Spark gets a fresh chance."""
        self.end()
        self._pace.forget()
        self._trust_spark = self._spark
        self._jobs_done = 0

    def end(self) -> None:
        """A grant ends: what its jobs were like says nothing of later ones."""
        self._took_all, self._jobs_chase, self._in_time = None, False, None

    @property
    def _rows_max(self) -> int:
        """Rows of the next job: each may be twice as long as the one before, so that the first corrections flow soon
        and a job's fixed cost does not let life get away; but not longer than `redo_us`, by what the last one took."""
        least = self._timing.redo_rows
        most = min(least << min(self._jobs_done, 30), self._timing.redo_rows_max)
        return most if self._in_time is None else min(most, max(least, self._in_time))

    def wakeup(self) -> int | None:
        """When a deadline passes or a failed local job may be tried again."""
        if self.job is not None:
            return self.deadline
        return self._retry_at if self._local and not self._trust_spark and self._retry_at else None

    def resting(self, now: int) -> bool:
        """A local job has failed and is not to be tried again yet."""
        return self._local and not self._trust_spark and now < self._retry_at

    def inline(self, union: SUnion, first: int, target: int) -> bool:
        """Run from memory: little work, or no Spark, or it has failed. Not if the rows were evicted."""
        if self._took_all is not None and 2 * (target - first) > self._took_all:
            self._jobs_chase = True  # during a job life adds what it takes off: they would never end
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

    def keep_from(self, stable: int, live: int) -> int:
        """First bucket whose rows must stay in memory, be it over the budget (R6).

        That is the live frontier, unless jobs chase it: then the rest can only run from memory, so what comes during
        the next job stays.
        """
        if not self._jobs_chase:
            return live
        return stable if self.job is None else self.job.end

    def start(
        self,
        now: int,
        union: SUnion,
        first: int,
        target: int,
        state: State,
        effects: list[Effect],
        to_live: bool = False,
    ) -> None:
        """Begin a job on the buckets from `first`, as many as hold `_rows_max` rows.

        `to_live`: `target` is the live frontier. When a job up to there is followed by one that is hardly smaller, jobs
        would chase the live frontier for ever; what is left runs inline then.
        """
        local = not self._trust_spark
        if local and self.resting(now):
            return
        end, rows = target, 0
        for n, bucket in enumerate(union.busy(first, target)):
            if n and rows + union.count(bucket) > self._rows_max:
                end = bucket
                break
            rows += union.count(bucket)
        ranges = tuple(
            SourceRange(i, mark.offset, source.offset, mark.fold)
            for (i, source), mark in zip(union.sources.items(), union.marks(first), strict=True)
        )
        self.job = RedoJob(self._next_id, first, end, state, ranges, rows)
        self._next_id += 1
        self._took_all = end - first if to_live and end == target else None
        self._local = local
        self.deadline = None if local else now + self._timing.redo_deadline_us
        effects.append(StartRedo(self.job, RedoPlace.LOG if local else RedoPlace.SPARK))

    def may_adopt(self, now: int, peer: int, bucket: int) -> bool:
        """This checkpoint has not been refused, and none was without an answer lately.

        What keeps one from being adopted in time (a peer's stable words lie behind all the tentative ones of a long
        failure) keeps its next one too, and nothing is redone meanwhile.
        """
        return self._refused != (peer, bucket) and now >= self._adopt_at

    def adopt(self, now: int, peer: int, first: int, end: int, state: State, effects: list[Effect]) -> None:
        """Begin to take over a peer's checkpoint at `end`, with what it said of [first, end) (B44, B2)."""
        self.job = RedoJob(self._next_id, first, end, state, (), 0, peer)
        self._next_id += 1
        self._took_all = None
        self.deadline = now + self._timing.adopt_deadline_us
        effects.append(StartRedo(self.job, RedoPlace.PEER))

    def answered(
        self, now: int, result: RedoResult, stable: int, effects: list[Effect]
    ) -> tuple[RedoJob, RedoDone] | None:
        """Take a result. It counts only for the current job and an unmoved frontier (B4).

        Raises:
            RetentionLost: rows that left memory are gone from the log.
        """
        job = self.job
        if job is None or result.id != job.id or stable != job.first:
            return None
        if isinstance(result, RedoFailed):
            if result.lost and self._local and job.peer is None:
                raise RetentionLost(result.reason)  # neither memory nor the log has it
            self._give_up(now, result.reason, effects)
            return None
        self.job = self.deadline = None
        if job.peer is not None:
            self._unanswered = 0
        else:
            self._jobs_done += 1
            self._in_time = round(job.rows * self._timing.redo_us / max(1.0, result.seconds * 1e6))
        effects.append(EmitEvent("REDO", "", (job.first, job.end, job.rows, result.engine, result.seconds)))
        return job, result

    def check_deadline(self, now: int, effects: list[Effect]) -> None:
        """A job past its deadline is forgotten, then cancelled (B4)."""
        if self.job is not None and self.deadline is not None and now >= self.deadline:
            effects.append(CancelRedo(self.job.id))
            within_us = self._timing.redo_deadline_us
            if self.job.peer is not None:
                within_us = self._timing.adopt_deadline_us
                self._unanswered += 1
                self._adopt_at = now + (within_us << min(self._unanswered, ADOPT_DOUBLINGS))
            self._give_up(now, f"no answer within {within_us / 1e6:g} s", effects)

    def _give_up(self, now: int, reason: str, effects: list[Effect]) -> None:
        assert self.job is not None
        if self.job.peer is not None:
            self._refused = (self.job.peer, self.job.end)
            self.job = self.deadline = None
            effects.append(EmitEvent("ADOPT_FAILED", reason))
            return
        self._retry_at = now + self._timing.retry_us if self._local else now
        self.job = self.deadline = None
        self._trust_spark = False
        effects.append(EmitEvent("REDO_FAILED", reason))

    def ran_inline(self, first: int, end: int, rows: int, now: int) -> None:
        """Remember a slice; slices in a row are told as one."""
        if self._inline is None:
            self._inline = (first, end, rows, now)
        else:
            self._inline = (self._inline[0], end, self._inline[2] + rows, self._inline[3])

    def note_inline(self, now: int, effects: list[Effect]) -> None:
        """Tell of the slices run since the last note."""
        if self._inline is not None:
            first, end, rows, began = self._inline
            self._inline = None
            effects.append(EmitEvent("REDO", "", (first, end, rows, "inline", (now - began) / 1e6)))
