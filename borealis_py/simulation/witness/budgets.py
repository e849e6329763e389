"""Budgets, counted from outside: records in flight, redo jobs, checkpoints, transactions (B43, R4, R10, R12, R14)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.records import GapHeader, RangeHeader, StableHeader, StreamHeader, TentativeHeader
from borealis_py.protocol.redo import RedoDone, RedoJob, RedoPlace, RedoResult
from borealis_py.protocol.settings import Timing
from borealis_py.simulation.cluster.recorder import JobCancelled, JobStarted
from borealis_py.simulation.log.content import rows_by_bucket
from borealis_py.simulation.violation import Violation


def said_in_a_step(timing: Timing, span: int) -> int:
    """Maximum number of records that a step of complete buckets may emit: half of the outbox's room in buckets with
    rows, windows that end after each, and empty stretches around it.
    """
    return min(timing.slice_buckets, timing.outbox_max // 2 + 1) * (span + 1) + 1


class Acks:
    """What was emitted on the replica's own stream, and what of it the log has acknowledged, in each of its partitions.

    Args:
        span: number of empty buckets after one with rows that may have output. start: the bucket it starts at.
    """

    def __init__(self, feeds: Sequence[Feed], timing: Timing, span: int, start: int) -> None:
        self._feeds = feeds
        self._room = timing.outbox_max
        self._step = said_in_a_step(timing, span)
        self._first = True
        self._pieces = dict.fromkeys(feeds, 0)
        self._acked = dict.fromkeys(feeds, 0)
        self._ends: dict[Feed, list[int]] = {feed: [] for feed in feeds}
        self._stable_at: list[tuple[int, int]] = []  # (number of the record, where it ends)
        self._live_at: list[tuple[int, int]] = []
        self._whole = dict.fromkeys(feeds, 0)
        self.stable = 0
        """Everything below this bucket was emitted as stable and is acknowledged."""
        self.live = start
        """Everything below this bucket was emitted in some form and is acknowledged."""

    def said(self, feed: Feed, header: StreamHeader, last: bool) -> None:
        """Count one record; a bucket counts once, with its last record."""
        self._pieces[feed] += 1
        if not last:
            return
        self._ends[feed].append(self._pieces[feed])
        if feed != self._feeds[0]:
            return
        if isinstance(header, StableHeader | TentativeHeader | RangeHeader | GapHeader):
            end = header.end if isinstance(header, RangeHeader | GapHeader) else header.bucket + 1
            at = len(self._ends[feed]), end
            self._live_at.append(at)
            if not isinstance(header, TentativeHeader):
                self._stable_at.append(at)

    def turn(self, acked: Sequence[Feed]) -> None:
        self._first = True
        for feed in acked:
            self._acked[feed] += 1
        for feed in self._feeds:
            ends = self._ends[feed]
            while self._whole[feed] < len(ends) and ends[self._whole[feed]] <= self._acked[feed]:
                self._whole[feed] += 1
        whole = min(self._whole.values())
        while self._stable_at and self._stable_at[0][0] <= whole:
            self.stable = self._stable_at.pop(0)[1]
        while self._live_at and self._live_at[0][0] <= whole:
            self.live = max(self.live, self._live_at.pop(0)[1])

    @property
    def waiting(self) -> int:
        """Number of records emitted but not acknowledged."""
        return len(self._ends[self._feeds[0]]) - min(self._whole.values())

    def may_run(self, name: str, bucket: int) -> None:
        """A turn's first bucket runs with at most `outbox_max` records in flight, besides its own; the others, which
        may belong to the same step, with those that a step may emit.
        """
        most = self._room + (1 if self._first else self._step)
        self._first = False
        if self.waiting > most:
            detail = f"{name}: bucket {bucket} is run with {self.waiting} records not acknowledged"
            raise Violation("outbox", detail, bucket)


def transactions_fit(written: Iterable[Sequence[NewRecord]], timing: Timing, times: int = 1) -> None:
    """A transaction of more than `times` buckets stays within so many times the limits of rows and buckets.

    Raises Violation.
    """
    for records in written:
        rows = rows_by_bucket(records)
        most = times * timing.publish_buckets, times * timing.publish_rows
        if len(rows) > times and (len(rows) > most[0] or rows.total() > most[1]):
            raise Violation("transaction", f"one of {len(rows)} buckets with {rows.total()} rows", min(rows))


class Jobs:
    """Redo jobs: one at a time, of limited size, and not waited for beyond their deadline.

    Args:
        rows: number of rows of a complete bucket.
        spark: jobs may run on Spark.
    """

    def __init__(self, timing: Timing, rows: Callable[[int], int], spark: bool) -> None:
        self._timing = timing
        self._rows = rows
        self._spark = spark
        self._job: tuple[RedoJob, bool, int] | None = None
        self._rows_max = timing.redo_rows
        self._given = range(0)

    def granted(self) -> None:
        """The first jobs of a reconciliation are short."""
        self._rows_max = self._timing.redo_rows

    def turn(self, answers: Sequence[RedoResult]) -> None:
        """Process the results: one counts for the outstanding job, and for no other (B4)."""
        self._given = range(0)
        for answer in answers:
            if self._job is None or self._job[0].id != answer.id:
                continue
            job, self._job = self._job[0], None
            if isinstance(answer, RedoDone):
                self._given = range(job.first, job.end)
                if job.peer is None:
                    self._rows_max = min(2 * self._rows_max, self._timing.redo_rows_max)

    def asked(self, name: str, now_us: int, asked: JobStarted, stable: int, live: int) -> None:
        job = asked.job
        if self._job is not None:
            raise Violation("job", f"{name}: job {job.id} is given out beside {self._job[0].id}", job.first)
        if (asked.place is RedoPlace.PEER) is not (job.peer is not None):
            raise Violation("job", f"{name}: job {job.id} of peer {job.peer} is for {asked.place}", job.first)
        if asked.place is RedoPlace.SPARK and not self._spark:
            raise Violation("job", f"{name}: job {job.id} is for Spark, and there is none", job.first)
        if job.first != stable or not stable < job.end <= live:
            said = f"{name}: job {job.id} of [{job.first}, {job.end}) at ({stable}, {live})"
            raise Violation("job", said, job.first)
        counts = [n for bucket in range(job.first, job.end) if (n := self._rows(bucket))] if job.peer is None else []
        if sum(counts) > self._rows_max and len(counts) > 1:
            said = f"{name}: job {job.id} has {sum(counts)} rows, {self._rows_max} are the most now"
            raise Violation("job", said, job.first)
        self._job = job, asked.place is RedoPlace.LOG, now_us

    def dropped(self, dropped: JobCancelled) -> None:
        if self._job is not None and self._job[0].id == dropped.job_id:
            self._job = None

    def gives(self, first: int, end: int) -> bool:
        """Whether these buckets are emitted because a job has returned them in this turn."""
        return bool(self._given) and self._given.start <= first < end <= self._given.stop

    def turn_ended(self, name: str, now_us: int) -> None:
        if self._job is None:
            return
        job, local, since = self._job
        limit = (
            None
            if local
            else self._timing.redo_deadline_most_us
            if job.peer is None
            else self._timing.adopt_deadline_us
        )
        if limit is not None and now_us - since >= limit:
            said = f"{name}: job {job.id} is waited for since {(now_us - since) / 1e6:.3f} s"
            raise Violation("job", said, job.first)


class Checkpoints:
    """R14.3: a replica that is STABLE again saves a checkpoint as soon as the log has acknowledged everything below it;
    if another checkpoint was pending until then, one of the next turn's frontier.
    """

    def __init__(self) -> None:
        self._due: int | None = None
        self._second: int | None = None
        self._freed = False

    def soon(self, bucket: int) -> None:
        self._due, self._second, self._freed = bucket, None, False

    def saved(self, bucket: int) -> None:
        if self._due is not None and bucket >= self._due:
            self._due = None

    def turn_ended(self, name: str, acked: int, stable: int) -> None:
        if self._due is None:
            return
        if self._second is not None and acked >= self._second:
            said = f"{name} is STABLE again at {self._due}, which is acknowledged, and no checkpoint was handed out"
            raise Violation("checkpoint", said, self._due)
        if self._freed and self._second is None:
            self._second = stable
        self._freed = acked >= self._due
