"""Records of `<app>.acks`: what each replica, and each query's next audit, may still read (R16). JSON, so that any
Kafka tool can display them.

The topic is compacted: the last record under a key counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import structlog

from borealis_py.log import topics
from borealis_py.log.base import Feed, Lookup, NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.log.messages import beat_key, decode, encode
from borealis_py.log.numbers import Number
from borealis_py.log.unreadable import ignored, small_number
from borealis_py.protocol.trimming import Need, ReplicaName
from sunion.units import Bucket, Offset

log = structlog.get_logger(__package__)

VERSION = 1
AUDIT = "audit"
"""The last part of an audit's key, in the place of a replica's number."""


class Acknowledgement(msgspec.Struct, frozen=True):
    """What a start from the oldest checkpoint that a replica keeps would read.

    `version`: of this record. `app_uid`: the app's life. `inc`, `uid`: the incarnation that says it. `number`: counts
    its acknowledgements, from 1. `bucket`: from which it reads streams and writes its own topic. `offsets`: from which
    it reads each source, by name. `published`: the first bucket that is not published, by the progress that it has
    read; null: it has read none. `place`: where its checkpoints lie; empty: no other replica can read them."""

    app_uid: str
    inc: Number
    uid: str
    number: Number
    bucket: Number
    offsets: dict[str, Number]
    published: Number | None = None
    place: str = ""
    version: int = VERSION


class Forgotten(msgspec.Struct, frozen=True):
    """Under a replica's key: a user has given it up in the life `app_uid`, until it acknowledges again. `forgotten`:
    always true. `version`: of this record."""

    app_uid: str
    forgotten: bool = True
    version: int = VERSION


class AuditEnd(msgspec.Struct, frozen=True):
    """Under the key `<query>/audit`: an audit with `--advance` has verified everything below `bucket`, in the life
    `app_uid`, and the next one reads each source from these `offsets` on, by name as it runs. `version`: of this
    record."""

    app_uid: str
    bucket: Number
    offsets: dict[str, Number]
    version: int = VERSION


Word = Need | Forgotten | str
"""What a record says of a replica: what it needs, that it was given up, or in words why it is in doubt."""


class _Head(msgspec.Struct, frozen=True):
    version: int
    app_uid: str
    forgotten: bool = False


def ack_record(app: str, app_uid: str, name: ReplicaName, need: Need) -> NewRecord:
    """The record by which a replica says what it needs."""
    offsets: dict[str, int] = dict(need.offsets)
    said = Acknowledgement(app_uid, need.inc, need.uid, need.number, need.bucket, offsets, need.published, need.place)
    return NewRecord(Feed(topics.acks(app)), encode(said), beat_key(name.node, name.index))


def forget_record(app: str, app_uid: str, name: ReplicaName) -> NewRecord:
    """The record by which a user gives a replica up."""
    return NewRecord(Feed(topics.acks(app)), encode(Forgotten(app_uid)), beat_key(name.node, name.index))


def audit_record(app: str, app_uid: str, query: str, bucket: Bucket, offsets: Mapping[str, Offset]) -> NewRecord:
    """The record by which an audit says what the next one reads."""
    said = AuditEnd(app_uid, bucket, dict(offsets))
    return NewRecord(Feed(topics.acks(app)), encode(said), f"{query}/{AUDIT}".encode())


def read_audit(record: Record, life: Life) -> tuple[str, Mapping[str, Offset] | None] | None:
    """The query that a record says this of, and the first offset in each source that its next audit reads; None instead
    of them: the record cannot be used. None: it is no audit's, or of another life."""
    query, _, what = (record.key or b"").decode(errors="replace").rpartition("/")
    if not query or what != AUDIT:
        return None
    try:
        said = decode(record.value or b"", AuditEnd)
    except msgspec.MsgspecError as exc:
        ignored(log, "end of an audit is garbage", record, exc)
        return query, None
    if not life.owns(record, said.app_uid):
        return None
    if said.version != VERSION:
        return query, None
    return query, {source: Offset(at) for source, at in said.offsets.items()}


def read_ack(record: Record, life: Life) -> tuple[ReplicaName, Word] | None:
    """The replica of a record, and what it says of it. None: the record has no effect, since it belongs to another life
    or to no replica."""
    node, _, index = (record.key or b"").decode(errors="replace").rpartition("/")
    if node and index == AUDIT:
        return None
    number = small_number(index)
    if not node or number is None:
        ignored(log, "acknowledgement ignored", record, "no replica's key")
        return None
    name = ReplicaName(node, number)
    try:
        head = decode(record.value or b"", _Head)
        if not life.owns(record, head.app_uid):
            return None
        if head.version != VERSION:
            return name, f"acknowledgement of version {head.version}"
        if head.forgotten:
            return name, Forgotten(head.app_uid)
        said = decode(record.value or b"", Acknowledgement)
    except msgspec.MsgspecError as exc:
        ignored(log, "acknowledgement is garbage", record, exc)
        return name, "acknowledgement is garbage"
    return name, Need(
        inc=said.inc,
        uid=said.uid,
        number=said.number,
        bucket=Bucket(said.bucket),
        offsets={source: Offset(at) for source, at in said.offsets.items()},
        published=None if said.published is None else Bucket(said.published),
        place=said.place,
    )


def read_acks(lookup: Lookup, app: str, life: Life) -> Iterator[tuple[ReplicaName, Word]]:
    """What `read_ack` returns for all acknowledgements in the log, in order. Raises LogError."""
    feed = Feed(topics.acks(app))
    for record in lookup.read(feed, *lookup.bounds(feed)):
        said = read_ack(record, life)
        if said is not None:
            yield said


class LastNeeds:
    """What each replica's incarnation that counts (B30) has acknowledged last. What was read once is not read again."""

    def __init__(self, app: str, life: Life) -> None:
        self._feed = Feed(topics.acks(app))
        self._life = life
        self._found: dict[ReplicaName, Need] = {}
        self._read_to = 0

    def read(self, lookup: Lookup) -> Mapping[ReplicaName, Need]:
        """As the log has it now. Raises LogError."""
        first, end = lookup.bounds(self._feed)
        if end < self._read_to:  # the topic was made again
            self._found, self._read_to = {}, 0
        for record in lookup.read(self._feed, max(first, self._read_to), end):
            match read_ack(record, self._life):
                case (name, Need() as need) if need.counts_after(self._found.get(name)):
                    self._found[name] = need
        self._read_to = end
        return self._found


def published_by(lookup: Lookup, app: str, life: Life, node: str) -> Bucket | None:
    """The first bucket of `node` that is not published, as any of its replicas has acknowledged (R10.7); None: none
    has. No replica has deleted more of its topic. Raises LogError."""
    said = [need for name, need in read_acks(lookup, app, life) if name.node == node and isinstance(need, Need)]
    return max((need.published for need in said if need.published is not None), default=None)
