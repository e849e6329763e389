"""Subscriptions to a query: corrected (stable rows, exactly once), live (tentative now, stable later), raw.

Every subscription is polled and never waits, like a replica; `borealis_py.api` has the blocking iterators.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import structlog

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, Lookup, OffsetGone, Reader, Record, Wake
from borealis_py.log.clock import Clock
from borealis_py.log.codec import RowCodec
from borealis_py.log.corrected import read_gap, read_progress, row_id
from borealis_py.log.description import Life, OtherLife, OtherVersion, check_life
from borealis_py.log.ends import LOOK_US, EndsWatch
from borealis_py.log.messages import Threshold, decode
from borealis_py.log.progress import Published
from borealis_py.log.records import EnvelopeError, EnvelopeVersion, unpack_stream
from borealis_py.log.stream import StreamDecoder, decoded, readable
from borealis_py.log.stream_topics import BucketCoverage, StreamTopics
from borealis_py.log.unreadable import ignored
from borealis_py.protocol.delay import ALWAYS
from borealis_py.protocol.settings import SettingsError
from borealis_py.protocol.stream_view import StreamView
from borealis_py.query.names import base_name
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Kind, StreamRecord
from sunion.units import Bucket, MonotonicUs
from sunion.view import Change

log = structlog.get_logger(__package__)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the corrected stream. `id` is "bucket:index", `stime` microseconds since 1970. `value`: its columns by
    name, as JSON has them: decimals and times are text. `partition`: of the query; ids are unique within each."""

    id: str
    stime: int
    value: dict[str, Any]
    partition: int = 0


@dataclass(frozen=True, slots=True)
class CorrectedGap:
    """Buckets [bucket, end) of the corrected stream are lost: no row of them is or will be in it (R18.7). `partition`:
    of the query. `kind`: tells it from a row. Only where `guarantee="gap"` was asked for."""

    bucket: int
    end: int
    partition: int = 0
    kind: str = "GAP"


@dataclass(frozen=True, slots=True)
class LiveChange:
    """A change of the live view, for buckets [bucket, end).

    `kind`: TENTATIVE, STABLE, UNDO, REC_DONE, GAP (they are lost: what was shown of them before stays the last word),
    or BOUNDARY (stable and empty; `subscribe` leaves it out). `rows`: all that these buckets hold from now on, as dicts
    like `Row.value`; empty if UNDO, REC_DONE or GAP. `partition`: of the query; the other partitions are not affected.
    If TENTATIVE: `missing_sources` are missing anywhere in what it depends on; `missing` in the bucket itself;
    `completeness`, 0 to 1, of what it depends on; `diverged_from`, the first bucket whose missing input affects its
    state (None: not TENTATIVE); `why` it is tentative, for people (A3.6).
    """

    kind: str
    bucket: int
    end: int
    rows: list[dict[str, Any]]
    completeness: float = 1.0
    missing_sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    diverged_from: int | None = None
    why: str = ""
    partition: int = 0


def published(lookup: Lookup, app: str, app_uid: str, query: str, origin: int) -> int:
    """First bucket that is not yet in the corrected stream."""
    upto = Published(app, query, True, Life(app_uid), origin).upto(lookup)
    return origin if upto is None else upto


def polled(reader: Reader, lookup: Lookup, app: str, life: Life) -> list[Record]:
    """Poll new records. Raises OtherLife, OtherVersion (no record of this life will ever follow), LogError."""
    with _if_known():
        life.look(lookup, app)
    try:
        return reader.poll()
    except LogError:  # its topics were deleted or recreated
        check_life(lookup, app, life.app_uid)
        raise


@contextmanager
def _if_known() -> Iterator[None]:
    """Look whether the app has been begun anew. Where the log does not tell now, as without a leader of the settings,
    the caller goes on, and looks again. Raises OtherLife, OtherVersion: it has."""
    try:
        yield
    except (OtherLife, OtherVersion):
        raise
    except LogError as exc:
        log.info("whether the app was begun anew is not known now", why=str(exc))


LIFE_US = 1_000_000
"""How often a live view in which a cursor waits looks whether the app has been begun anew: nobody may ever write then
what it waits for."""


class LiveSubscription:
    """Reads all replicas of a query's stream and maintains the consumer's view.

    Args:
        query: its name; of a partitioned query, one of its partitions.
        start: first bucket to show; where it is no longer kept, the first that is (R16.12). wait_us: D = X - slack
            (R5.3).
        wait_of: computes D of a threshold X. With it, wait_us applies only until a setting changes it, and changes take
            effect when read, as at replicas (B19). A setting for which it raises SettingsError is ignored.
    """

    def __init__(
        self,
        *,
        log: Log,
        clock: Clock,
        app: str,
        app_uid: str,
        query: str,
        replicas: int,
        buckets: Buckets,
        start: int,
        wait_us: int,
        schema: str | None,
        wake: Wake,
        wait_of: Callable[[int], int] | None = None,
    ) -> None:
        self._clock = clock
        self._feeds = {Feed(topics.replica(app, query, k)): k for k in range(replicas)}
        self._app = app
        self._life = Life(app_uid)
        self._decoder = partial(StreamDecoder, self._life, schema)
        self._view = partial(StreamView, query, replicas)
        self._shown = False
        self._life_us = 0
        self._settings = Feed(topics.settings(app))
        self._key = f"threshold/{base_name(query)}".encode()
        self._wait_of = wait_of
        with ExitStack() as opened:  # one that fails to begin must leave nothing open
            self._lookup = opened.enter_context(closing(log.lookup()))
            self._reader = opened.enter_context(closing(log.reader(wake)))
            self._topics = StreamTopics(self._lookup, tuple(self._feeds), buckets, self._decoder)
            self._ends = EndsWatch(self._lookup, self._reader)
            self._begin(start, wait_us)
            if wait_of is not None:
                self._follow_settings()
            self._opened = opened.pop_all()

    def _begin(self, start: int, wait_us: int) -> None:
        """Show what is kept from this bucket on."""
        first, offsets = self._topics.places_from(start)
        self.stream = self._view(Bucket(first), self._topics.buckets, wait_us)
        self._decoders = [self._decoder() for _ in self._feeds]
        self._stopped: dict[Feed, int] = {}
        for feed, offset in offsets.items():
            self._reader.open(feed, offset)
        self._read_to = ALWAYS
        self._ends.ask(self._clock.now_us(), list(self._feeds))  # anew: what was asked before knows other positions

    def _follow_settings(self) -> None:
        first, end = self._lookup.bounds(self._settings)
        for record in self._lookup.read(self._settings, first, end):
            self._obey(record)
        self._reader.open(self._settings, end)

    def _obey(self, record: Record) -> None:
        """Apply a setting if it is this query's threshold."""
        if record.key != self._key or self._wait_of is None:
            return
        try:
            setting = decode(record.value or b"", Threshold)
            if not setting.app_uid or self._life.owns(record, setting.app_uid):
                self.stream.wait_us = self._wait_of(setting.threshold_us)
        except (msgspec.MsgspecError, SettingsError) as exc:
            ignored(log, "setting ignored", record, exc, key=self._key.decode())

    def poll(self) -> list[Change]:
        """The changes since the last call, with rows still encoded.

        Raises:
            OtherLife, OtherVersion: the app was begun anew, or another version writes it.
            RetentionLost: no replica has the next bucket any more.
        """
        now = self._clock.now_us()
        records: list[tuple[int, StreamRecord]] = []
        for record in self._polled():
            if record.feed == self._settings:
                self._obey(record)
                continue
            k = self._feeds[record.feed]
            said = readable(record, self._decoders[k])
            if said is not None:
                records.append((k, said))
        changes = self.stream.read(now, records)
        self._hold()
        self._look_at_life(now)
        read_to = self._ends.read_to(now, self._stopped.keys())
        if read_to is not None:
            self._read_to = max(self._read_to, read_to)
        changes += self.stream.show(min(now, self._read_to))
        at = self.stream.ready_at()
        if at is not None and self._read_to < at <= now and not self._ends.asking:
            self._ends.ask(now, [feed for feed in self._feeds if feed not in self._stopped])
        self._shown = self._shown or bool(changes)
        return changes

    def _polled(self) -> list[Record]:
        """New records. A cursor that is read slower than the others may go on behind records that are deleted (R16.12).
        If the next bucket was among these, and no other replica has it, a view that has shown nothing begins later.

        Raises:
            RetentionLost: the same, and something was shown.
        """
        try:
            return polled(self._reader, self._lookup, self._app, self._life)
        except OffsetGone as gone:
            log.warning("deleted records skipped", topic=gone.feed.topic, offset=gone.offset)
            if gone.feed in self._feeds:
                if self._next_is_lost(gone.feed):
                    self._begin_later(gone.feed)
                    return []
                self._decoders[self._feeds[gone.feed]] = self._decoder()
            self._reader.open(gone.feed, self._lookup.bounds(gone.feed)[0])
            return []

    def _next_is_lost(self, feed: Feed) -> bool:
        next_ = self.stream.next
        while True:
            with suppress(OffsetGone):  # deleted between two looks
                return self._topics.coverage(feed, next_) is BucketCoverage.BEYOND and not self._topics.holds(next_)

    def _begin_later(self, feed: Feed) -> None:
        next_ = self.stream.next
        if self._shown:
            raise RetentionLost(
                f"{feed.topic}: bucket {next_} is to be shown next and is no longer kept (retention). Subscribe again: "
                "it begins at what is kept"
            )
        self._begin(next_, self.stream.wait_us)

    def _hold(self) -> None:
        """Stop reading waiting cursors: what follows them would fill memory and could not be used (R6.4)."""
        for feed, k in self._feeds.items():
            waits = self.stream.waits(k)
            if waits and feed not in self._stopped:
                self._stopped[feed] = self._reader.position(feed)
                self._reader.stop(feed)
            elif not waits and feed in self._stopped:
                self._reader.open(feed, self._stopped.pop(feed))

    def _look_at_life(self, now: int) -> None:
        """Raises OtherLife, OtherVersion."""
        if not self._stopped:
            self._life_us = now + LIFE_US
        elif now >= self._life_us:
            self._life_us = now + LIFE_US
            with _if_known():
                check_life(self._lookup, self._app, self._life.app_uid)

    def next_wakeup(self) -> int | None:
        """When to poll again if nothing arrives before; None: only when something does."""
        at = self.stream.ready_at()
        now = self._clock.now_us()
        if self._stopped:
            at = MonotonicUs(self._life_us if at is None else min(at, self._life_us))
        if self._ends.unanswered:
            return now + LOOK_US
        if at is None or (self._ends.asking and at <= now):
            return None
        return max(at, now)

    def close(self) -> None:
        self._opened.close()


def live_change(change: Change, codec: RowCodec, certain: bool, partition: int = 0) -> LiveChange:
    """The change with its rows decoded. `certain`: see `why_tentative`."""
    output = decoded(change.output, codec)
    return LiveChange(
        change.kind.value,
        change.bucket,
        change.end,
        [] if output.rows is None else codec.to_dicts(output.rows),
        change.completeness,
        change.missing_sources,
        change.missing,
        change.diverged_from,
        why_tentative(change, certain),
        partition,
    )


def why_tentative(change: Change, certain: bool) -> str:
    """Why a change is tentative, human-readable; empty: it is not.

    Args:
        certain: all nodes on the way are repeatable or convergent-capable, so that a result without missing sources
            equals that on corrected state.
    """
    if change.kind is not Kind.TENTATIVE:
        return ""
    if change.completeness < 1:
        return f"lacks {', '.join(change.missing_sources)}"
    what = "it will be confirmed" if certain else "it may change"
    return f"lacks nothing, but what came before has not been corrected since bucket {change.diverged_from}: {what}"


class CorrectedSubscription:
    """Reads the corrected stream: stable rows in order, each once; detects the end of the stream.

    `query`: its name; of a partitioned query, one of its partitions.
    """

    def __init__(
        self, log: Log, app: str, app_uid: str, query: str, buckets: Buckets, from_beginning: bool, wake: Wake
    ) -> None:
        self._app = app
        self._life = Life(app_uid)
        self._last = buckets.last
        self._rows = topics.corrected(app, query)
        self._progress = Feed(topics.progress(app, query))
        self._end_offset: int | None = None
        self._gaps: list[CorrectedGap] = []
        with ExitStack() as opened:  # one that fails to begin must leave nothing open
            self._lookup = lookup = opened.enter_context(closing(log.lookup()))
            self._reader = opened.enter_context(closing(log.reader(wake)))
            first, end = lookup.bounds(self._rows)
            self._reader.open(self._rows, first if from_beginning else end)
            self._reader.open(self._progress, lookup.bounds(self._progress)[0])
            self._told_from = 0 if from_beginning else lookup.bounds(self._progress)[1]
            """Gaps before this offset of the progress topic lie before what is read."""
            self._opened = opened.pop_all()

    def gaps(self) -> list[CorrectedGap]:
        """The gaps that have become known since the last call."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def poll(self) -> list[Row]:
        """Rows that have arrived. Raises OtherLife, OtherVersion: as `LiveSubscription.poll`."""
        rows: list[Row] = []
        for record in polled(self._reader, self._lookup, self._app, self._life):
            if record.feed == self._rows:
                rows += corrected_rows([record])
            elif (lost := read_gap(record, self._life)) is not None:
                if record.offset >= self._told_from:
                    self._gaps.append(CorrectedGap(lost.first, lost.end, self._rows.partition))
            elif self._end_offset is None and (read_progress(record, self._life, 0) or 0) >= self._last:
                self._end_offset = self._lookup.written(self._rows)  # that rows are committed may be known later here
        return rows

    @property
    def ended(self) -> bool:
        """Whether the query's sources have ended and every row was read."""
        return self._end_offset is not None and self._reader.position(self._rows) >= self._end_offset

    def close(self) -> None:
        self._opened.close()


def corrected_row(record: Record) -> Row | None:
    """One record of a corrected stream; None: it counts as nothing, since no replica has written it."""
    try:
        headers = dict(record.headers)
        found = Row(str(row_id(record)), int(headers["stime"]), json.loads(record.value or b""), record.feed.partition)
        if not isinstance(found.value, dict):
            raise ValueError("its value is no JSON object")
    except (KeyError, ValueError, RecursionError) as exc:
        ignored(log, "record of a corrected stream ignored", record, f"{type(exc).__name__}: {exc}")
        return None
    return found


def corrected_rows(records: Iterable[Record]) -> Iterator[Row]:
    """The rows among the records of a corrected stream."""
    return (row for record in records if (row := corrected_row(record)) is not None)


def raw_records(records: Sequence[Record]) -> Iterator[tuple[Feed, dict[str, Any]]]:
    """One replica's records as stored, with their feeds; headers decoded, rows only counted in bytes."""
    for record in records:
        try:
            header, payload = unpack_stream(record.value)
        except EnvelopeVersion as exc:
            raise OtherVersion.of_record(record.feed.topic, record.offset, str(exc)) from exc
        except EnvelopeError as exc:
            ignored(log, "undecodable record of a replica's stream skipped", record, exc)
            continue
        fields = {name: getattr(header, name) for name in header.__struct_fields__ if name != "rejects"}
        kind = header.__struct_config__.tag
        yield record.feed, {"offset": record.offset, "kind": kind, **fields, "payload_bytes": len(payload)}
