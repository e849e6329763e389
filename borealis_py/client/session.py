"""One publisher at work on a log: claim, rows, boundaries, dead letters. Single-threaded; never waits.

`turn(now)` does what is due, `next_wakeup()` says when something will be; `publisher.Publisher` puts a thread around
it, the simulator its scheduler. It looks at no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from borealis_py.client.claim import Claim, PublisherError, Target
from borealis_py.client.rows import BadRow, RowSchema, raw_json
from borealis_py.client.writer import SourceWriter
from borealis_py.log.base import Log, NewRecord, Wake
from sunion.model import FOREVER, RAW_BYTES_MAX

OUTSTANDING_MAX = 1_000
"""Records on their way to the log; a sender should wait while there are more."""


class PublishFailed(PublisherError):
    """The log did not take a record."""


class Boundaries(Enum):
    """What moves a publisher's boundary."""

    CLOCK = "a boundary at each bucket end of the clock, also when idle"
    PACED = "likewise, but never past the row that comes next (`hold`): what a resume has to catch up is not late"
    DATA = "a row closes the buckets before its own (as fast as possible; rows must come in the order of stime)"


@dataclass(slots=True)
class Counts:
    """Rows so far. `skipped`: already in the log (a resume that starts from the beginning of its input)."""

    sent: int = 0
    rejected: int = 0
    skipped: int = 0


class PublisherSession:
    """Publishes rows to one source.

    Args:
        schema: field -> "string" | "int64" | "double" | "bool".
        uid: of this process, unique for ever.
        wake: called when a turn is worth while.
        take_over: replace a publisher that is at work.

    Raises:
        LogUnreachable: no broker.
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
    ) -> None:
        self.counts = Counts()
        self.closed = False
        self._target = target
        self._buckets = target.buckets
        self._uid = uid
        self._schema = RowSchema(schema)
        self._boundaries = boundaries
        lookup = log.lookup()
        start, end = lookup.bounds(target.feed)
        lookup.close()
        self._claim = Claim(target, uid, start, end, take_over)
        self._writer: SourceWriter | None = None
        self._reader = log.reader(wake)
        self._reader.open(target.feed, start)
        self._appender = log.appender(wake)
        self._appended: Counter[str] = Counter()
        self._delivered: Counter[str] = Counter()
        self._hold: int | None = 0 if boundaries is Boundaries.PACED else None
        self._now_us = 0

    @property
    def ready(self) -> bool:
        """The source is ours: rows may be sent."""
        return self._writer is not None

    @property
    def last_seq(self) -> int:
        """The last row in the log or on its way there; rows up to it are skipped."""
        return self._ready_writer().last_seq

    @property
    def boundary(self) -> int:
        """No row below this stime is taken any more."""
        return self._ready_writer().boundary

    @property
    def full(self) -> bool:
        """Too much is on its way: wait for the log."""
        return self._appended.total() - self._delivered.total() >= OUTSTANDING_MAX

    @property
    def settled(self) -> bool:
        """All that was appended lies in the log."""
        return self.delivered(self._appended)

    def delivered(self, mark: Mapping[str, int]) -> bool:
        """All that had been sent when `flush` gave this mark lies in the log; what came later may be on its way."""
        return all(self._delivered[topic] >= count for topic, count in mark.items())  # a topic's come in order

    def turn(self, now_us: int) -> None:
        """Do what is due: read the own log, claim, send boundaries, look at deliveries.

        Raises:
            StreamTaken, StreamEnded, StreamForgotten: the source cannot be had.
            StreamFenced: a newer publisher has it.
            PublishFailed: the log refused a record.
        """
        now_us = self._latest(now_us)
        self._deliveries()
        records = self._reader.poll()
        self._claim.read(records, self._reader.position(self._target.feed), now_us)
        for record in self._claim.claims(now_us):
            self._append(record)
        if self._claim.ready and self._writer is None:
            fold, of = self._claim.fold, (self._target.feed, self._target.app_uid)
            self._writer = SourceWriter(*of, self._claim.epoch, self._uid, self._buckets, fold.boundary, fold.last_seq)
        if self._writer is not None and not self.closed:
            self._tick(self._writer)

    def next_wakeup(self) -> int | None:
        """When the next turn is due (µs), if nothing arrives before."""
        if self._writer is None:
            return self._claim.next_wakeup()
        if self.closed or self._boundaries is Boundaries.DATA:
            return None
        end = self._buckets.end(self._buckets.closed_by(self._writer.boundary))
        return None if self._hold is not None and self._hold < end else end

    def hold(self, stime: int | None) -> None:
        """Let no boundary pass `stime`, although the clock may be past it: a row with it will come. None: the clock."""
        self._hold = stime

    def send(self, row: Mapping[str, object], stime: int | None, seq: int | None, now_us: int) -> bool:
        """Publish a row; it leaves at the latest with the end of its bucket.

        Args:
            stime: µs; None: now (only where the clock moves the boundary).
            seq: the row's position in the input, so that a resume can begin at the beginning again (protocol B6); None:
                one more than the last.

        Returns:
            False: not sent; it was skipped as a duplicate, or is a dead letter.
        """
        writer = self._ready_writer()
        if seq is not None and seq <= writer.last_seq:
            self.counts.skipped += 1
            return False
        now_us = self._latest(now_us)
        self._tick(writer)
        if stime is None and self._boundaries is Boundaries.CLOCK:
            stime = max(now_us, writer.boundary)
        reason = self._unfit(stime, writer, now_us)
        if reason is not None:
            self.reject(raw_json(row), reason, seq)
            return False
        try:
            encoded = self._schema.encode(row)
        except BadRow as exc:
            self.reject(raw_json(row), f"malformed: {exc}", seq)
            return False
        assert stime is not None
        if self._boundaries is Boundaries.DATA:
            writer.advance(self._buckets.start(self._buckets.of(stime)))
        writer.add(encoded, stime, writer.last_seq + 1 if seq is None else seq)
        self.counts.sent += 1
        self._ship(writer)
        return True

    def reject(self, raw: bytes, reason: str, seq: int | None = None) -> None:
        """Put something that cannot be published into the app's dead-letter topic, unless a former run did."""
        if seq is not None and self._writer is not None and seq <= self._writer.last_seq:
            self.counts.skipped += 1
            return
        self.counts.rejected += 1
        headers = [("source", self._target.source.encode()), ("reason", reason.encode(errors="replace"))]
        if seq is not None:
            headers.append(("seq", str(seq).encode()))
        self._append(NewRecord(self._target.deadletter, raw[:RAW_BYTES_MAX], headers=tuple(headers)))

    def flush(self) -> Mapping[str, int]:
        """Let the rows of the present bucket go without waiting for its end. Returns a mark for `delivered`."""
        writer = self._ready_writer()
        writer.flush()
        self._ship(writer)
        return self._appended.copy()

    def close(self, end: bool) -> None:
        """Send what is left; with `end`, END: the source is complete, nothing will ever follow."""
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
        self._reader.close()
        self._appender.close()

    def _latest(self, now_us: int) -> int:
        self._now_us = max(self._now_us, now_us)  # a clock that is set back must not break a promise
        return self._now_us

    def _ready_writer(self) -> SourceWriter:
        if self._writer is None or self.closed:
            state = "closed" if self.closed else "not ready yet: the source has still to be claimed"
            raise PublisherError(
                f"source {self._target.source!r} of app {self._target.app!r}: this publisher is {state}"
            )
        return self._writer

    def _tick(self, writer: SourceWriter) -> None:
        if self._boundaries is not Boundaries.DATA:
            passed = self._now_us if self._hold is None else min(self._now_us, self._hold)
            writer.advance(self._buckets.start(self._buckets.closed_by(passed)))
            self._ship(writer)

    def _unfit(self, stime: object, writer: SourceWriter, now_us: int) -> str | None:
        if stime is None:
            return "stime missing"
        if type(stime) is not int:
            return f"stime {stime!r} is not a whole number of microseconds"
        if stime < writer.boundary:
            return f"late: stime {stime} is before the boundary {writer.boundary}"
        # By the clock the boundary is at most a bucket behind it; by the data it may be years: there the clock decides.
        base = now_us if self._boundaries is Boundaries.DATA else writer.boundary
        if stime >= base + self._target.ahead_max_us:
            return f"future: stime {stime} is more than {self._target.ahead_max_us} us ahead of {base}"
        return None

    def _ship(self, writer: SourceWriter) -> None:
        for record in writer.take():
            self._append(record)

    def _append(self, record: NewRecord) -> None:
        self._appended[record.feed.topic] += 1
        self._appender.append(record, record.feed.topic)

    def _deliveries(self) -> None:
        for delivery in self._appender.deliveries():
            self._delivered[str(delivery.token)] += 1
            if delivery.error is not None:
                raise PublishFailed(
                    f"{delivery.token}: the log did not take a record: {delivery.error}. "
                    f"Start the publisher again: it goes on where source {self._target.source!r} ends"
                )
