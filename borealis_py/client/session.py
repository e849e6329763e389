"""One publisher session on a log: claim, rows, boundaries, dead letters. Single-threaded; never waits.

`turn(now)` does everything that is due; `next_wakeup()` tells when something will be. `publisher.Publisher` drives it
by a thread, the simulator by its scheduler. It reads no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from borealis_py.client.rows import BadRow, RowSchema, raw_json
from borealis_py.client.sourcelog import SourceLog
from borealis_py.client.stimes import (
    Boundaries,
    LateRows,
    PublishCounts,
    behind,
    check_lateness,
    count_refused,
    leading,
    unfit,
    unsaid,
)
from borealis_py.client.target import PublisherError, Target
from borealis_py.client.writer import SourceWriter
from borealis_py.log.base import Log, Wake
from sunion.model import FOREVER

EARLY = 0.7
"""After this part of a bucket's width a large batch leaves: late enough to be most of the bucket, early enough to be
decoded when the bucket ends."""


class Lingering:
    """The current batch's time.

    Args:
        early: whether large batches leave before a bucket's width has passed.
    """

    def __init__(self, bucket_us: int, early: bool) -> None:
        self.begun = 0
        """Number of batches begun."""
        self._bucket_us = bucket_us
        self._early = early
        self._since_us: int | None = None

    def begin(self, raw_us: int) -> None:
        """Another batch begins."""
        self._since_us = raw_us
        self.begun += 1

    @property
    def end_us(self) -> int | None:
        """When the last batch must leave; None: there was none."""
        return None if self._since_us is None else self._since_us + self._bucket_us

    def over(self, raw_us: int) -> bool:
        """Whether the batch must leave: it has waited long enough, or the clock was set back meanwhile."""
        since = self._since_us
        return since is not None and not since <= raw_us < since + self._bucket_us

    def early(self, raw_us: int) -> bool:
        """Whether a large batch may leave: when its bucket ends, readers then have only the rest to decode."""
        return self._early and self._since_us is not None and raw_us >= self._since_us + EARLY * self._bucket_us


class PublisherSession:
    """Publishes rows to one source.

    Args:
        schema: field -> column type.
        uid: of this process, unique forever.
        wake: called when there is something to do in a turn.
        take_over: replace an active publisher.
        lateness_us: how long after its stime a row may arrive; None: rows get the time at which they are sent (CLOCK),
            or arrive in stime order (DATA).

    Raises:
        LogUnreachable: no broker. PublisherError: an invalid lateness.
    """

    def __init__(
        self,
        log: Log,
        target: Target,
        schema: Mapping[str, str],
        uid: str,
        wake: Wake,
        take_over: bool = False,
        boundaries: Boundaries = Boundaries.CLOCK,
        lateness_us: int | None = None,
    ) -> None:
        check_lateness(target, boundaries, lateness_us)
        self.counts = PublishCounts()
        self.closed = False
        self._target = target
        self._ahead_us = target.ahead_max_us
        self._uid = uid
        self._buckets = target.buckets
        self._schema = RowSchema(schema, target.row_max_bytes)
        self._origin_us = target.buckets.start(target.origin)
        self._clocked = boundaries is Boundaries.CLOCK
        self._by_data = boundaries is Boundaries.DATA
        self._stamps = lateness_us is None and self._clocked
        self._lateness_us = lateness_us or 0
        self.source = SourceLog(log, target, uid, wake, take_over, self._lateness_us)
        self._writer: SourceWriter | None = None
        self._hold: int | None = 0 if boundaries is Boundaries.PACED else None
        self._now_us = 0
        self._tick_us = 0
        """`_tick_us`: time from which on the clock may move the boundary."""
        self._largest = -FOREVER
        self._moves_us = -FOREVER
        """With DATA: a row of this time moves the boundary."""
        self.lingering = Lingering(target.bucket_us, not self._by_data)
        """The last batch is sent by a turn if no row follows."""
        self._late_rows = LateRows(target, self._lateness_us)

    @property
    def ready(self) -> bool:
        """Whether the source is owned: rows may be sent."""
        return self._writer is not None

    @property
    def last_seq(self) -> int:
        """The last row in the log or on its way there; rows up to it are skipped."""
        return self._ready_writer().last_seq

    @property
    def boundary(self) -> int:
        """Rows below this stime are no longer accepted."""
        return self._ready_writer().boundary

    @property
    def full(self) -> bool:
        """Too many records are in flight: wait for the log."""
        return self.source.full

    @property
    def collecting(self) -> bool:
        """Whether rows wait for others of their batch, for a bucket's width at most."""
        return self._writer is not None and self._writer.collecting

    @property
    def settled(self) -> bool:
        """Whether everything appended is in the log."""
        return self.delivered(self.source.appended)

    def delivered(self, mark: int) -> bool:
        """Whether everything sent before `flush` returned this mark is in the log; later records may be in flight."""
        return self.source.delivered(mark)

    def turn(self, now_us: int) -> None:
        """Do what is due: read the log, claim, send boundaries and rows that have waited, process deliveries.

        Raises:
            StreamTaken, StreamEnded, StreamForgotten: the source cannot be owned.
            StreamFenced: a newer publisher owns it. BegunAnew: the app was begun anew.
            PublishFailed: the log refused a record, and the app was not begun anew.
        """
        raw_us, now_us = now_us, self._latest(now_us)
        self.source.turn(now_us)
        claim = self.source.claim
        if claim.ready and self._writer is None:
            fold, of = claim.fold, (self._target.feed, self._target.app_uid)
            self._writer = SourceWriter(*of, claim.epoch, self._uid, self._buckets, fold.boundary, fold.last_seq)
            if fold.boundary > self._origin_us:  # else nothing was sent before
                self._largest = fold.boundary + self._lateness_us
        if self._writer is not None and not self.closed:
            self._writer.read_to = claim.read_to
            self._tick(self._writer)
            if self._writer.collecting and self.lingering.over(raw_us):
                self.flush()

    def next_wakeup(self) -> int | None:
        """When the next turn is due (µs) if nothing arrives before."""
        if self._writer is None:
            return self.source.claim.next_wakeup()
        if self.closed:
            return None
        lingers = self.lingering.end_us if self._writer.collecting else None
        due = [at for at in (self.next_boundary, lingers) if at is not None]
        return min(due, default=None)

    @property
    def next_boundary(self) -> int | None:
        """When the clock moves the boundary next (µs); None: something other than the clock does."""
        if self._by_data:
            return None
        end = self._buckets.end(self._buckets.closed_by(self.boundary))
        return None if self._hold is not None and self._hold < end else end + self._lateness_us

    def hold(self, stime: int | None) -> None:
        """Hold the boundary at `stime`, even if the clock is past it: a row with it will follow. None: follow the
        clock.
        """
        self._hold, self._tick_us = stime, 0

    def send(self, row: Mapping[str, object], stime: int | None, seq: int | None, now_us: int) -> bool:
        """Publish a row; it is sent at the latest a bucket's width later.

        Args:
            stime: µs; None: now (only if the clock moves the boundary).
            seq: the row's position in the input, so that a resume can start from the beginning (B6); None: one more
                than the last.

        Returns:
            False: not sent: it was skipped as a duplicate, or is a dead letter.

        Raises:
            PublisherError: `stime` is given, but the publisher has no lateness.
        """
        writer = self._writer if self._writer is not None and not self.closed else self._ready_writer()
        if stime is not None and self._stamps:
            raise PublisherError(unsaid(self._target))
        if seq is None:
            seq = writer.last_seq + 1
        elif seq <= writer.last_seq:
            self.counts.skipped += 1
            return False
        raw_us = now_us
        if self._now_us <= now_us < self._tick_us:
            self._now_us = now_us
        else:
            now_us = self._begin_at(writer, now_us)
        late_us, low, early = 0, writer.boundary, type(stime) is int and stime < self._origin_us
        if type(stime) is int and not early:
            late_us = (self._largest if self._by_data else now_us if self._hold is None else self._due(now_us)) - stime
            self.counts.lateness.add(late_us)
        elif stime is None and self._clocked:
            stime = now_us if now_us > low else low
        base = now_us if self._by_data else low + self._lateness_us
        if type(stime) is not int or not low <= stime < base + self._ahead_us:
            reason = unfit(stime, low, base, self._ahead_us, early)
            late = reason.startswith("late")
            self.counts.late, self.counts.early = self.counts.late + late, self.counts.early + (late and early)
            self._refuse(writer, raw_json(row), reason, seq, max(0, late_us) if late else 0, raw_us)
            return False
        try:
            encoded = self._schema.encode(row)
        except BadRow as exc:
            self._refuse(writer, raw_json(row), f"malformed: {exc}", seq, 0, raw_us)
            return False
        if self._by_data and stime > self._largest:
            self._largest = stime
            if stime >= self._moves_us:
                self._advance(writer)
        if not writer.collecting:
            self.lingering.begin(raw_us)
        writer.add(encoded, stime, seq)
        self.counts.sent += 1
        if writer.large and self.lingering.early(raw_us):
            writer.flush()
        if writer.out:
            self._ship(writer)
        return True

    def send_many(
        self,
        rows: Sequence[Mapping[str, object]],
        stimes: Sequence[int | None] | None,
        seq: int | None,
        now_us: int,
    ) -> tuple[int, int]:
        """Publish rows: the same records as `send` for one after the other, but faster.

        Args:
            rows: some thousands at most. stimes: one per row; None: as `send` with None for each.
            seq: of the first row; the others follow. None: one more than the last.

        Returns:
            How many rows are done, and how many of them were sent. The rest is still to be sent if the log is too far
            behind (`full`).

        Raises:
            Same as `send`; the rows before have been sent then.
        """
        writer, before = self._ready_writer(), self.counts.sent
        first = writer.last_seq + 1 if seq is None else seq
        at = min(len(rows), max(0, writer.last_seq + 1 - first))
        self.counts.skipped += at
        timed = None if stimes is None else list(stimes)
        together = self._clocked if timed is None else not self._stamps and set(map(type, timed)) <= {int}
        checked: list[Any] = []
        end = at  # of the rows that are checked
        while at < len(rows) and not self.source.full:
            if at == end and together:
                checked = self._schema.checked(rows[at:])
                end += len(checked)
            done = 0
            if at < end:
                times = None if timed is None else timed[at:end]
                done = self._send_alike(writer, checked[at - end :], times, first + at, now_us)  # type: ignore[arg-type]
            if not done:
                self.send(rows[at], None if timed is None else timed[at], first + at, now_us)
                done, end = 1, max(end, at + 1)
            at += done
        return at, self.counts.sent - before

    def _send_alike(
        self, writer: SourceWriter, checked: Sequence[Any], stimes: Sequence[int] | None, seq: int, now_us: int
    ) -> int:
        """Send rows from the first on, as long as they are in the first one's bucket and the boundary stays as it
        leaves it.

        Returns:
            Number of rows; 0: the first one needs individual treatment.
        """
        raw_us, now_us = now_us, self._begin_at(writer, now_us)
        stime = max(now_us, writer.boundary) if stimes is None else stimes[0]
        base = now_us if self._by_data else writer.boundary + self._lateness_us
        if not writer.boundary <= stime < base + self._ahead_us:
            return 0
        times = [stime] * len(checked) if stimes is None else self._alike(writer, stimes, base + self._ahead_us)
        rows = checked[: len(times)]
        joined = self._schema.joined(rows)
        each = self._schema.encoded(rows) if joined is None else []
        count = len(rows) if joined is not None else len(each)
        if not count:
            return 0
        times = times[:count]
        if stimes is not None:
            self._count_late(times, now_us)
        if self._by_data:
            self._largest = max(self._largest, max(times))
            self._advance(writer)
        if not writer.collecting:
            self.lingering.begin(raw_us)
        if joined is None or not writer.add_many(joined, times, seq):
            for n, row in enumerate(each or self._schema.encoded(rows)):
                writer.add(row, times[n], seq + n)
        self.counts.sent += count
        if writer.large and self.lingering.early(raw_us):
            writer.flush()
        self._ship(writer)
        return count

    def reject(self, raw: bytes, reason: str, seq: int | None, now_us: int) -> None:
        """Send a value that cannot be published to the app's dead letters, unless a previous run did."""
        writer = self._ready_writer()
        if seq is not None and seq <= writer.last_seq:
            self.counts.skipped += 1
            return
        self._latest(now_us)
        self._refuse(writer, raw, reason, writer.last_seq + 1 if seq is None else seq, 0, now_us)

    def flush(self) -> int:
        """Send the current bucket's rows without waiting for its end. Returns a mark for `delivered`."""
        writer = self._ready_writer()
        writer.flush()
        self._ship(writer)
        return self.source.appended

    def close(self, end: bool) -> None:
        """Send the remaining rows; with `end`, also END: the source is complete, and nothing can ever follow."""
        if self.closed:
            return
        self.closed = True
        if self._writer is not None:
            if end:
                self._writer.advance(FOREVER)
            self._writer.flush()
            self._ship(self._writer)

    def release(self) -> None:
        """Close the connections."""
        self.source.close()

    def _latest(self, now_us: int) -> int:
        self._now_us = max(self._now_us, now_us)  # a clock that is set back must not break a promise
        return self._now_us

    def _ready_writer(self) -> SourceWriter:
        if self._writer is None or self.closed:
            state = "closed" if self.closed else "not ready yet: the source has still to be claimed"
            raise PublisherError(f"{self._target.name}: this publisher is {state}")
        return self._writer

    def _begin_at(self, writer: SourceWriter, now_us: int) -> int:
        """Do what is due before a row of this time. Returns the time, which never goes back."""
        if now_us < self._now_us:
            now_us = self._now_us  # a clock that is set back must not break a promise
        self._now_us = now_us
        if now_us >= self._tick_us:
            self._tick(writer)
        return now_us

    def _tick(self, writer: SourceWriter) -> None:
        if not self._by_data:
            now_us = self._now_us - self._lateness_us
            passed = now_us if self._hold is None else min(now_us, self._hold)
            writer.advance(self._buckets.start(self._buckets.closed_by(passed)))
            self._ship(writer)
        due = self.next_boundary
        self._tick_us = FOREVER if due is None else due

    def _advance(self, writer: SourceWriter) -> None:
        """With DATA, advance the boundary as a row requires."""
        writer.advance(self._buckets.start(self._buckets.of(self._largest - self._lateness_us)))
        self._moves_us = self._buckets.end(self._buckets.closed_by(writer.boundary)) + self._lateness_us

    def _alike(self, writer: SourceWriter, stimes: Sequence[int], high: int) -> Sequence[int]:
        """The leading stimes that are below `high`, share their bucket, and leave the boundary where the first one
        leaves it.
        """
        of, boundary, bucket = self._buckets, writer.boundary, self._buckets.of(stimes[0])
        high = min(high, of.end(bucket))
        if self._by_data:
            boundary = max(boundary, of.start(of.of(max(self._largest, stimes[0]) - self._lateness_us)))
            high = min(high, of.end(of.closed_by(boundary)) + self._lateness_us)
        return leading(stimes, max(boundary, of.start(bucket)), high)

    def _due(self, now_us: int) -> int:
        """With CLOCK, where the boundary would be with zero lateness. A row before it is late."""
        return now_us if self._hold is None else min(now_us, self._hold)

    def _count_late(self, stimes: Sequence[int], now_us: int) -> None:
        """Count the lateness of rows sent one after the other."""
        due = self._due(now_us)
        self.counts.lateness.add_all(behind(stimes, self._largest) if self._by_data else [due - at for at in stimes])

    def _refuse(self, writer: SourceWriter, raw: bytes, reason: str, seq: int, late_us: int, raw_us: int) -> None:
        count_refused(self.counts, seq, reason)
        if late_us:
            self._late_rows.add(late_us, self._now_us)
        if not writer.collecting:
            self.lingering.begin(raw_us)
        writer.reject(raw, reason, seq, late_us)
        self._ship(writer)

    def _ship(self, writer: SourceWriter) -> None:
        for record in writer.drain():
            self.source.append(record)
