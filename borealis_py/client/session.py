"""One publisher at work on a log: claim, rows, boundaries, dead letters. Single-threaded; never waits.

`turn(now)` does what is due, `next_wakeup()` says when something will be; `publisher.Publisher` puts a thread around
it, the simulator its scheduler. It looks at no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum

import structlog

from borealis_py.client.claim import Claim
from borealis_py.client.rows import BadRow, RowSchema, raw_json
from borealis_py.client.target import BegunAnew, PublisherError, Target
from borealis_py.client.writer import SourceWriter
from borealis_py.log.base import Log, LogError, NewRecord, Record, Wake
from borealis_py.log.description import OtherLife, OtherVersion, check_life
from borealis_py.log.records import LATENESS_MAX_US
from borealis_py.query.units import format_duration
from sunion.lateness import Lateness
from sunion.model import FOREVER

log = structlog.get_logger("borealis.publisher")

OUTSTANDING_MAX = 1_000
"""Records on their way to the log; a sender should wait while there are more."""
WARN_US = 60_000_000
"""How often late rows are warned of."""


class PublishFailed(PublisherError):
    """The log did not take a record."""


class Boundaries(Enum):
    """What moves a publisher's boundary."""

    CLOCK = "the clock less the lateness, at each bucket's end, also when idle"
    PACED = "likewise, but never past the row that comes next (`hold`): what a resume has to catch up is not late"
    DATA = "the largest stime so far less the lateness: it stands while nobody sends, so silence is a missing input"


@dataclass(slots=True)
class Counts:
    """Rows so far. `skipped`: already in the log (a resume that starts from the beginning of its input). `late`: those
    of the rejected that came too late. `lateness`: how late all rows came that were sent with a time of their own.
    """

    sent: int = 0
    rejected: int = 0
    skipped: int = 0
    late: int = 0
    lateness: Lateness = field(default_factory=Lateness)


class PublisherSession:
    """Publishes rows to one source.

    Args:
        schema: field -> "string" | "int64" | "double" | "bool".
        uid: of this process, unique for ever.
        wake: called when a turn is worth while.
        take_over: replace a publisher that is at work.
        lateness_us: how long after its stime a row may come; None: rows get the time at which they are sent (CLOCK), or
            come in the order of their stimes (DATA).

    Raises:
        LogUnreachable: no broker. PublisherError: a lateness that cannot be.
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
        _check_lateness(target, boundaries, lateness_us)
        self.counts = Counts()
        self.closed = False
        self._target = target
        self._buckets = target.buckets
        self._uid = uid
        self._schema = RowSchema(schema, target.row_max_bytes)
        self._log, self._boundaries = log, boundaries
        self._stamps = lateness_us is None and boundaries is Boundaries.CLOCK
        self._lateness_us = lateness_us or 0
        lookup = log.lookup()
        start, end = lookup.bounds(target.feed)
        lookup.close()
        self._claim = Claim(target, uid, start, end, take_over, self._lateness_us)
        self._begin = self._claim.begin
        self._writer: SourceWriter | None = None
        self._reader = log.reader(wake)
        self._reader.open(target.feed, self._begin)
        self._appender = log.appender(wake)
        self._appended = self._delivered = 0
        self._hold: int | None = 0 if boundaries is Boundaries.PACED else None
        self._now_us = 0
        self._largest: int | None = None
        self._collecting_since_us: int | None = None
        self._warned_us: int | None = None
        self._late_us = self._late_rows = 0

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
        return self._appended - self._delivered >= OUTSTANDING_MAX

    @property
    def collecting(self) -> bool:
        """Something waits for what is to go with it, a bucket's width at most."""
        return self._writer is not None and self._writer.collecting

    @property
    def settled(self) -> bool:
        """All that was appended lies in the log."""
        return self.delivered(self._appended)

    def delivered(self, mark: int) -> bool:
        """All that had been sent when `flush` gave this mark lies in the log; what came later may be on its way."""
        return self._delivered >= mark

    def turn(self, now_us: int) -> None:
        """Do what is due: read the own log, claim, send boundaries and rows that have waited, look at deliveries.

        Raises:
            StreamTaken, StreamEnded, StreamForgotten: the source cannot be had.
            StreamFenced: a newer publisher has it. BegunAnew: the app was begun anew.
            PublishFailed: the log refused a record, and the app was not begun anew.
        """
        raw_us, now_us = now_us, self._latest(now_us)
        self._deliveries()
        self._read(now_us)
        for record in self._claim.claims(now_us):
            self._append(record)
        if self._claim.ready and self._writer is None:
            fold, of = self._claim.fold, (self._target.feed, self._target.app_uid)
            self._writer = SourceWriter(*of, self._claim.epoch, self._uid, self._buckets, fold.boundary, fold.last_seq)
        if self._writer is not None and not self.closed:
            self._writer.read_to = self._claim.read_to
            self._tick(self._writer)
            self._linger(self._writer, raw_us)

    def next_wakeup(self) -> int | None:
        """When the next turn is due (µs), if nothing arrives before."""
        if self._writer is None:
            return self._claim.next_wakeup()
        if self.closed:
            return None
        since = self._collecting_since_us if self._writer.collecting else None
        lingers = None if since is None else since + self._target.bucket_us
        due = [at for at in (self.next_boundary, lingers) if at is not None]
        return min(due, default=None)

    @property
    def next_boundary(self) -> int | None:
        """When the clock next moves the boundary (µs); None: something else does."""
        if self._boundaries is Boundaries.DATA:
            return None
        end = self._buckets.end(self._buckets.closed_by(self.boundary))
        return None if self._hold is not None and self._hold < end else end + self._lateness_us

    def hold(self, stime: int | None) -> None:
        """Let no boundary pass `stime`, although the clock may be past it: a row with it will come. None: the clock."""
        self._hold = stime

    def send(self, row: Mapping[str, object], stime: int | None, seq: int | None, now_us: int) -> bool:
        """Publish a row; it leaves at the latest a bucket's width later.

        Args:
            stime: µs; None: now (only where the clock moves the boundary).
            seq: the row's position in the input, so that a resume can begin at the beginning again (protocol B6); None:
                one more than the last.

        Returns:
            False: not sent; it was skipped as a duplicate, or is a dead letter.

        Raises:
            PublisherError: a time of its own, and nothing said about how late rows may come.
        """
        writer = self._ready_writer()
        if stime is not None and self._stamps:
            raise PublisherError(_unsaid(self._target))
        if seq is not None and seq <= writer.last_seq:
            self.counts.skipped += 1
            return False
        raw_us, now_us = now_us, self._latest(now_us)
        self._tick(writer)
        late_us = 0
        if stime is None and self._boundaries is Boundaries.CLOCK:
            stime = max(now_us, writer.boundary)
        elif type(stime) is int:
            late_us = self._late(stime, now_us)
            self.counts.lateness.add(late_us)
        reason = self._unfit(stime, writer, now_us)
        if reason is not None:
            late = reason.startswith("late")
            self.counts.late += late
            self._refuse(writer, raw_json(row), reason, seq, late_us if late else 0, raw_us)
            return False
        try:
            encoded = self._schema.encode(row)
        except BadRow as exc:
            self._refuse(writer, raw_json(row), f"malformed: {exc}", seq, 0, raw_us)
            return False
        assert stime is not None
        if self._boundaries is Boundaries.DATA:
            self._largest = stime if self._largest is None else max(self._largest, stime)
            writer.advance(self._buckets.start(self._buckets.of(self._largest - self._lateness_us)))
        self._collects(writer, raw_us)
        writer.add(encoded, stime, writer.last_seq + 1 if seq is None else seq)
        self.counts.sent += 1
        self._ship(writer)
        return True

    def reject(self, raw: bytes, reason: str, seq: int | None, now_us: int) -> None:
        """Put something that cannot be published into the app's dead letters, unless a former run did: it travels in
        the source's log, with a position of its own, and the replicas publish it with its bucket."""
        writer = self._ready_writer()
        if seq is not None and seq <= writer.last_seq:
            self.counts.skipped += 1
            return
        self._latest(now_us)
        self._refuse(writer, raw, reason, seq, 0, now_us)

    def flush(self) -> int:
        """Let the rows of the present bucket go without waiting for its end. Returns a mark for `delivered`."""
        writer = self._ready_writer()
        writer.flush()
        self._ship(writer)
        return self._appended

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

    def _read(self, now_us: int) -> None:
        feed = self._target.feed
        records = self._polled()
        self._claim.read(records, self._reader.position(feed), now_us)
        if self._claim.begin != self._begin:
            self._begin = self._claim.begin
            self._reader.open(feed, self._begin)

    def _polled(self) -> list[Record]:
        """What the source holds beyond what was read. Raises BegunAnew, LogError."""
        if self._claim.life.strangers:
            self._look()
        try:
            return self._reader.poll()
        except LogError:  # its topic was deleted, or made again
            self._look()
            raise

    def _look(self) -> None:
        """Look at the description, if it is there: of a life that is over nothing counts. Raises BegunAnew."""
        try:
            with closing(self._log.lookup()) as lookup:
                check_life(lookup, self._target.app, self._target.app_uid)
        except (OtherLife, OtherVersion) as exc:
            raise BegunAnew(f"{self._target.name}: {exc}") from exc
        except LogError:
            return  # nobody describes it now: it is looked at again
        self._claim.life.strangers = False

    def _ready_writer(self) -> SourceWriter:
        if self._writer is None or self.closed:
            state = "closed" if self.closed else "not ready yet: the source has still to be claimed"
            raise PublisherError(f"{self._target.name}: this publisher is {state}")
        return self._writer

    def _tick(self, writer: SourceWriter) -> None:
        if self._boundaries is not Boundaries.DATA:
            now_us = self._now_us - self._lateness_us
            passed = now_us if self._hold is None else min(now_us, self._hold)
            writer.advance(self._buckets.start(self._buckets.closed_by(passed)))
            self._ship(writer)

    def _collects(self, writer: SourceWriter, raw_us: int) -> None:
        if not writer.collecting:
            self._collecting_since_us = raw_us

    def _linger(self, writer: SourceWriter, raw_us: int) -> None:
        """What has waited for a bucket's width goes; at once where the clock was set back meanwhile."""
        since = self._collecting_since_us
        if writer.collecting and since is not None and not since <= raw_us < since + self._target.bucket_us:
            writer.flush()
            self._ship(writer)

    def _late(self, stime: int, now_us: int) -> int:
        """How late a row comes: with this lateness it is in time."""
        if self._boundaries is Boundaries.DATA:
            return 0 if self._largest is None else max(0, self._largest - stime)
        return max(0, (now_us if self._hold is None else min(now_us, self._hold)) - stime)

    def _unfit(self, stime: object, writer: SourceWriter, now_us: int) -> str | None:
        if stime is None:
            return "stime missing"
        if type(stime) is not int:
            return f"stime {stime!r} is not a whole number of microseconds"
        if stime < writer.boundary:
            return f"late: stime {stime} is before the boundary {writer.boundary}"
        # By the clock the boundary is at most a bucket and the lateness behind it; by the data it may be years: there
        # the clock decides.
        base = now_us if self._boundaries is Boundaries.DATA else writer.boundary + self._lateness_us
        if stime >= base + self._target.ahead_max_us:
            return f"future: stime {stime} is more than {self._target.ahead_max_us} us ahead of {base}"
        return None

    def _refuse(
        self, writer: SourceWriter, raw: bytes, reason: str, seq: int | None, late_us: int, raw_us: int
    ) -> None:
        self.counts.rejected += 1
        if late_us:
            self._warn_late(late_us)
        self._collects(writer, raw_us)
        writer.reject(raw, reason, writer.last_seq + 1 if seq is None else seq, late_us)
        self._ship(writer)

    def _warn_late(self, late_us: int) -> None:
        """Once a minute: late rows are lost to every result."""
        self._late_rows, self._late_us = self._late_rows + 1, max(self._late_us, late_us)
        if self._warned_us is not None and self._now_us - self._warned_us < WARN_US:
            return
        log.warning(
            f"{self._target.name}: rows came too late and are dead letters; a lateness of {_duration(self._late_us)} "
            f"would have done, it is {_duration(self._lateness_us)}",
            rows=self._late_rows,
        )
        self._warned_us = self._now_us
        self._late_rows = self._late_us = 0

    def _ship(self, writer: SourceWriter) -> None:
        for record in writer.take():
            self._append(record)

    def _append(self, record: NewRecord) -> None:
        self._appended += 1
        self._appender.append(record, record.feed.topic)

    def _deliveries(self) -> None:
        for delivery in self._appender.deliveries():
            self._delivered += 1
            if delivery.error is not None:
                self._look()  # what it had on its way may have met topics of another life
                raise PublishFailed(
                    f"{delivery.token}: the log did not take a record: {delivery.error}. "
                    f"Start the publisher again: it goes on where source {self._target.source!r} ends"
                )


def _check_lateness(target: Target, boundaries: Boundaries, lateness_us: int | None) -> None:
    if lateness_us is None:
        return
    if boundaries is Boundaries.PACED:
        raise PublisherError(f"{target.name}: a replay knows which row comes next, and has no lateness")
    if not 0 <= lateness_us <= LATENESS_MAX_US:
        raise PublisherError(
            f"{target.name}: a lateness of {_duration(lateness_us)} cannot be; it is between 0s and 1 day"
        )


def _unsaid(target: Target) -> str:
    return (
        f"{target.name}: send(stime=...) gives a row a time of its own, so say how late rows may come: "
        f'lateness="2s" promises it by the clock ("0s": never late), boundary="data" goes by the times of the rows '
        "themselves, so that silence counts as a missing input"
    )


def _duration(us: int) -> str:
    """In whole milliseconds, rounded up: with what it says a row would have been in time."""
    return format_duration(-(-us // 1_000) * 1_000)
