"""Records of one transaction of a corrected stream: rows as plain JSON, dead letters, progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
import structlog

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.codec import RowCodec
from borealis_py.log.description import Life
from borealis_py.log.messages import decode
from borealis_py.log.numbers import Number
from borealis_py.log.unreadable import ignored
from borealis_py.query.names import base_name
from sunion.bucket import Buckets
from sunion.model import Output, Reject, TupleId

log = structlog.get_logger(__package__)


class Progress(msgspec.Struct, frozen=True):
    """Key = partition. Everything below `bucket` is in the corrected stream of the app's life `app_uid`; `replica` and
    `inc`, who wrote it, are informative."""

    app_uid: str
    bucket: Number
    replica: Number
    inc: Number


class LostRange(msgspec.Struct, frozen=True):
    """Key = `gap/<first>`. Buckets [first, end) are lost in the app's life `app_uid` (R18.7): no row of them is ever
    published."""

    app_uid: str
    first: Number
    end: Number

    def overlaps(self, other: LostRange) -> bool:
        """Whether both name one bucket."""
        return self.first < other.end and other.first < self.end


Said = TypeVar("Said", Progress, LostRange)
GAP_KEY = b"gap/"
"""What the keys of gaps in a progress topic begin with."""


def transaction(
    app: str,
    query: str,
    outputs: Mapping[int, Output],
    progress: Progress,
    buckets: Buckets,
    codec: RowCodec,
    corrected: bool = True,
    lost_from: int | None = None,
) -> Iterator[NewRecord]:
    """All records of one transaction, rows ordered by id.

    Args:
        corrected: False for a node without a corrected stream.
        lost_from: the buckets from this one up to the progress are lost, and nothing is published of them (R18.7).
    """
    if lost_from is not None:
        yield from _gap(app, query, LostRange(progress.app_uid, lost_from, progress.bucket))
    feed = topics.corrected(app, query)
    for bucket in sorted(outputs):
        output = outputs[bucket]
        if output.rows is not None and corrected:
            at = buckets.timestamp_ms(bucket)
            rows = enumerate(codec.published(output.rows))
            yield from (NewRecord(feed, v, None, at, row_headers(bucket, i, s)) for i, (v, s) in rows)
        yield from (dead_letter(app, query, bucket, reject, i) for i, reject in enumerate(output.rejects))
    yield progress_record(app, query, progress)


def _gap(app: str, query: str, lost: LostRange) -> Iterator[NewRecord]:
    """A gap, as progress and dead letters tell it. The letter lies in the last bucket: all up to it is published."""
    last = lost.end - 1
    what = f"bucket {last} is" if lost.first == last else f"buckets {lost.first} to {last} are"
    reason = f"gap: {what} lost: no replica ran, or retention was too short"
    letter = dead_letter(app, query, last, Reject(query, -1, reason))
    yield msgspec.structs.replace(letter, headers=(*letter.headers, gap_header(lost)))
    key = GAP_KEY + str(lost.first).encode()
    yield NewRecord(Feed(topics.progress(app, query)), msgspec.json.encode(lost), key)


def gap_header(lost: LostRange) -> tuple[str, bytes]:
    """Of the dead letter that names it."""
    return "gap", b"%d:%d" % (lost.first, lost.end)


def read_gap(record: Record, life: Life) -> LostRange | None:
    """The gap that a record of a progress topic tells; None: none, or garbage, or another life's."""
    if not is_gap(record):
        return None
    lost = _decoded(record, LostRange)
    return lost if lost is not None and lost.first < lost.end and life.owns(record, lost.app_uid) else None


def is_gap(record: Record) -> bool:
    """Whether a record of a progress topic names lost buckets."""
    return (record.key or b"").startswith(GAP_KEY)


def letter_of_gap(record: Record) -> bool:
    """Whether a dead letter names lost buckets: with `gap_header`."""
    return "gap" in dict(record.headers)


def row_headers(bucket: int, index: int, stime: int) -> tuple[tuple[str, bytes], ...]:
    """Headers of a corrected row: its id (a `TupleId`) and its stime."""
    return (("id", b"%d:%d" % (bucket, index)), ("stime", b"%d" % stime))


def dead_letter(app: str, query: str, bucket: int, reject: Reject, index: int = 0) -> NewRecord:
    """One dead letter: the value is the raw bytes as far as kept; headers hold source, offset, reason and bucket.

    `index`: its position among the dead letters of its bucket; two may be equal in everything else.
    """
    headers: tuple[tuple[str, bytes], ...] = (
        ("query", base_name(query).encode()),
        ("source", reject.source.encode()),
        ("offset", str(reject.offset).encode()),
        ("reason", reject.reason.encode(errors="replace")),
        ("node", query.encode()),
        ("bucket", str(bucket).encode()),
        ("index", str(index).encode()),
    )
    if reject.seq >= 0:
        headers = (*headers, ("seq", str(reject.seq).encode()))
    return NewRecord(Feed(topics.deadletter(app)), reject.raw, None, None, headers)


def progress_record(app: str, query: str, progress: Progress) -> NewRecord:
    return NewRecord(Feed(topics.progress(app, query)), msgspec.json.encode(progress), b"0")


def read_progress(record: Record, life: Life, origin: int) -> int | None:
    """The bucket of a progress record; None if it tells a gap, or, with a log line, if it is to be ignored.

    Ignored are records of another life, garbage, and buckets before the app's first, which no writer ever writes.
    """
    if is_gap(record):
        return None
    progress = _decoded(record, Progress)
    if progress is None or not life.owns(record, progress.app_uid):
        return None
    if progress.bucket < origin:
        _ignored(record, f"bucket {progress.bucket} is before the app's first, {origin}")
        return None
    return progress.bucket


def _decoded(record: Record, kind: type[Said]) -> Said | None:
    """None, with a log line: it is garbage."""
    try:
        return decode(record.value or b"", kind)
    except msgspec.MsgspecError as exc:
        _ignored(record, str(exc))
        return None


def _ignored(record: Record, why: str) -> None:
    ignored(log, "progress record ignored", record, why)


def told_by(record: Record, node: str) -> bool:
    """Whether this node wrote a record of the dead-letter topic."""
    return dict(record.headers).get("node") == node.encode()


def letter_id(record: Record, node: str) -> TupleId | None:
    """Bucket and index of a dead letter that this node published; None: another node's, or garbage."""
    if not told_by(record, node):
        return None
    headers = dict(record.headers)
    try:
        return TupleId(int(headers["bucket"]), int(headers.get("index", b"0")))
    except (KeyError, ValueError):
        return None


def letter_bucket(record: Record, node: str) -> int | None:
    """Bucket of a dead letter that this node published; None: another node's, or garbage."""
    told = letter_id(record, node)
    return None if told is None else told.bucket


def row_id(record: Record) -> TupleId:
    """The id in the headers of a corrected row."""
    bucket, _, index = dict(record.headers)["id"].decode().partition(":")
    return TupleId(int(bucket), int(index))
