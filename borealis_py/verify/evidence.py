"""The checker's evidence, as values: the content of the topics and the notes of subscribers.

Where it was read from is somebody else's business (`reading`), so a history made by hand is judged like a real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from borealis_py.verify.envelope import Raw, Row
from borealis_py.verify.history import ReplicaHistory
from borealis_py.verify.network import Network
from borealis_py.verify.partitions import Piece
from borealis_py.verify.source_log import SourceHistory
from borealis_py.verify.spans import Spans


@dataclass(frozen=True)
class CommittedRow:
    """A corrected row, at `offset` of `partition`. `id`: (bucket, index). `stime`: microseconds since 1970.
    `row`: its columns; None: it is no JSON object. All three None: headers or JSON could not be read.
    """

    offset: int
    id: tuple[int, int] | None
    stime: int | None
    row: Mapping[str, Any] | None
    partition: int = 0


@dataclass(frozen=True)
class ProgressRecord:
    """A progress record, at `offset`: everything below `bucket` of `partition` of the node is published."""

    offset: int
    bucket: int
    partition: int = 0


@dataclass(frozen=True)
class DeadLetterRecord:
    """A record of the dead-letter topic.

    `source`: or the node whose kernel refused a row, `raw`; then `offset` is -1; -2: its headers cannot be read.
    `reason`: as written, for people. `node` tells it with `bucket`. `seq`: of what a publisher refused; else -1.
    `index`: the how many-th of its node and bucket. `gap`: it names the lost buckets [first, end), and no item.
    """

    source: str
    offset: int
    reason: str
    seq: int = -1
    node: str = ""
    bucket: int = 0
    raw: bytes = b""
    index: int = 0
    gap: tuple[int, int] | None = None


@dataclass(frozen=True)
class Saw:
    """One line of a subscriber's history, of wall time `at_us`, about buckets [bucket, end) of a `partition` of the
    query: `kind` ROW (corrected view), or the kind of a live change.

    `rows` are dicts of columns; for ROW there is one, and `index` is its place in the bucket. `missing_sources`: of a
    tentative change; else empty.
    """

    at_us: int
    kind: str
    bucket: int
    end: int
    rows: tuple[Mapping[str, Any], ...] = ()
    missing_sources: tuple[str, ...] = ()
    index: int = 0
    partition: int = 0


@dataclass(frozen=True)
class SubscriberHistory:
    """What one subscriber saw, from start to end (`seen`, in order). `name`: for messages. `view`: "live" or
    "corrected". `complete`: it stayed until the query's end; else it was killed."""

    name: str
    view: str
    seen: Sequence[Saw]
    complete: bool = True

    def of(self, partition: int) -> list[Saw]:
        """What it saw of one partition of the query, which goes on without the others."""
        return [saw for saw in self.seen if saw.partition == partition]


@dataclass(frozen=True)
class Blackout:
    """Wall times [from_us, until_us] between which nothing could be processed or delivered, and why: the bound says
    nothing there.

    `partition`: of the query, the others go on; None: of all.
    """

    from_us: int
    until_us: int
    why: str
    partition: int | None = None

    def meets(self, partition: int) -> bool:
        """Whether nothing of this partition of the query came through."""
        return self.partition is None or self.partition == partition


@dataclass
class Evidence:
    """All that is known of one query's run.

    Attributes:
        network: what the app should compute. origin: the app's first bucket.
        sources: what each source's log holds.
        replicas: for each piece of each stage, what each replica said in it.
        corrected: rows that read_committed shows; `written`: all that were ever written, aborted ones included.
        progress: for each stage, its records in order.
        dead_letters: the dead-letter topic's records, in order. subscribers: what each saw.
        published: for each source, the rows that its publishers were given, where that is known: the log must hold
            exactly those.
        acknowledged: for each source, the last sequence number that its publisher was told is in the log.
        poison: for each source, the sequence numbers of unusable items that its publisher was given. True: the item is
            a row, and the kernel of the first stage must refuse it; False: the publisher must refuse it.
        healed: all failures are over and the sources have ended: everything must be there.
        threshold_us: X; None: the bound is not judged. `quiet_us`: wall times between which nothing failed.
        blackouts: when the bound says nothing.
        one_runs: the stages of which one replica runs and the others stand by.
        lost: for each partition of the query, the buckets that its progress names as lost.
    """

    network: Network
    origin: int
    sources: Mapping[str, SourceHistory]
    replicas: Mapping[Piece, Sequence[ReplicaHistory]]
    corrected: Sequence[CommittedRow]
    written: Sequence[CommittedRow]
    progress: Sequence[Sequence[ProgressRecord]]
    dead_letters: Sequence[DeadLetterRecord] = ()
    subscribers: Sequence[SubscriberHistory] = ()
    acknowledged: Mapping[str, int] = field(default_factory=dict)
    poison: Mapping[str, Mapping[int, bool]] = field(default_factory=dict)
    healed: bool = True
    threshold_us: int | None = None
    quiet_us: tuple[int, int] = (0, 0)
    blackouts: Sequence[Blackout] = ()
    published: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    one_runs: frozenset[int] = frozenset()
    lost: Mapping[int, Spans] = field(default_factory=dict)

    @property
    def complete_until(self) -> int:
        """The first bucket that some source has not closed."""
        closed = [log.boundary // self.network.bucket_us if log.boundary else 0 for log in self.sources.values()]
        return min(closed)

    @property
    def aborted(self) -> list[CommittedRow]:
        """Rows that were written in a transaction that never committed."""
        committed = {(row.partition, row.offset) for row in self.corrected}
        return [row for row in self.written if (row.partition, row.offset) not in committed]

    @property
    def result(self) -> list[Piece]:
        """The partitions of the query."""
        return self.network.pieces(len(self.network.stages) - 1)


def corrected_rows(raw: Iterable[Raw], partition: int = 0) -> Iterator[CommittedRow]:
    """Rows of one partition of a corrected topic."""
    for record in raw:
        headers = dict(record.headers)
        try:
            bucket, _, index = headers["id"].decode().partition(":")
            row, stime = json.loads(record.value or b"null"), int(headers["stime"])
            row_id = int(bucket), int(index)
            if min(row_id) < 0:
                raise ValueError(headers["id"])
        except (KeyError, ValueError, RecursionError):
            yield CommittedRow(record.offset, None, None, None, partition)
        else:
            yield CommittedRow(record.offset, row_id, stime, row if isinstance(row, dict) else None, partition)


def progress(raw: Iterable[Raw], app_uid: str = "", partition: int = 0) -> Iterator[ProgressRecord]:
    """Records of a progress topic, which is of one partition of a stage; those of another life than `app_uid` (if one
    is named) say nothing. The bucket of one that cannot be read is -1.
    """
    for record in raw:
        if record.value is None:
            continue
        if gap_of(record, app_uid) is not None:
            continue
        try:
            said = msgspec.json.decode(record.value, type=_Progress)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            yield ProgressRecord(record.offset, -1, partition)
        else:
            if said.app_uid == app_uid or not app_uid:
                yield ProgressRecord(record.offset, said.bucket, partition)


class _Progress(msgspec.Struct):
    bucket: int
    app_uid: str = ""


class _Gap(msgspec.Struct):
    first: int
    end: int
    app_uid: str = ""


def gap_of(record: Raw, app_uid: str = "") -> tuple[int, int] | None:
    """The lost buckets [first, end) that a record of a progress topic names; None: it names none."""
    try:
        said = msgspec.json.decode(record.value or b"", type=_Gap)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    mine = said.app_uid == app_uid or not app_uid
    return (said.first, said.end) if mine and said.first < said.end else None


def lost_buckets(raw: Iterable[Raw], app_uid: str = "") -> Spans:
    """All buckets that a progress topic names as lost."""
    found = Spans()
    for record in raw:
        if (gap := gap_of(record, app_uid)) is not None:
            found.add(*gap)
    return found


def dead_letters(raw: Iterable[Raw]) -> Iterator[DeadLetterRecord]:
    """Records of the dead-letter topic. The offset of one whose headers cannot be read is -2."""
    for record in raw:
        h = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
        source, reason, node = h.get("source", ""), h.get("reason", ""), h.get("node", "")
        try:
            offset, seq = int(h.get("offset", "-1")), int(h.get("seq", "-1"))
            bucket, index = int(h.get("bucket", "0")), int(h.get("index", "0"))
            if min(bucket, index) < 0:
                raise ValueError(bucket, index)
            first, _, end = h.get("gap", "").partition(":")
            gap = (int(first), int(end)) if first else None
        except ValueError:
            offset, seq, bucket, index, gap = -2, -1, 0, 0, None
        yield DeadLetterRecord(source, offset, reason, seq, node, bucket, record.value or b"", index, gap)


def subscriber_history(path: Path, view: str) -> SubscriberHistory:
    """A subscriber's file of JSON lines; a last line that is cut short was being written when it was killed."""
    lines = _lines(path)
    ended = any(line.get("ended") == view for line in lines)
    seen = [Saw(**{**line["saw"], "rows": tuple(line["saw"]["rows"])}) for line in lines if line.get("view") == view]
    return SubscriberHistory(path.name, view, seen, ended)


def _lines(path: Path) -> list[dict[str, Any]]:
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
