"""The simulated broker: partitions, transactions, and retention with Kafka's semantics.

All operations are instantaneous. `log.client` decides who sees them when, and what is lost on the way. Compaction
happens when `Partition.compact` is called.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, NewRecord, OffsetGone, Record, TopicSpec
from borealis_py.log.foreign import TopicFound
from borealis_py.log.record_size import too_large

SEGMENT_BYTES, SEGMENT_BYTES_LEAST = 1 << 30, 1 << 20
"""Of a topic that says nothing of it, and what any topic may say, as in Kafka."""


CLUSTER = {
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
}
"""What Kafka 4 sets for topics that set nothing themselves."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A client's record is not taken, for this `reason`; `too_large`: its size, if that is why."""

    reason: str
    too_large: int = 0


class ProducerFenced(Exception):
    """A newer producer of the same transactional id was initialised before this request."""


Watchers = dict[Callable[[Feed], None], None]
"""Callbacks for new records of a feed."""


class Partition:
    """One feed. Offsets are positions in `records`; None is a record that no reader sees (marker, aborted, compacted
    away).

    Once `deleted`, it never changes: a recreated topic has other partitions, with the same `watchers`.
    """

    __slots__ = (
        "_aborted",
        "_ended",
        "_holds",
        "_peaks",
        "appended_us",
        "deleted",
        "feed",
        "records",
        "start",
        "undecided",
        "watchers",
    )

    def __init__(self, feed: Feed, watchers: Watchers) -> None:
        self.feed = feed
        self.records: list[Record | None] = []
        self.appended_us: list[int] = []  # when each was appended, for observers
        self.start = 0
        self.deleted = False
        self.watchers = watchers
        self._peaks: list[int] = []  # highest timestamp so far: lets `find` use bisection
        self.undecided: dict[str, list[int]] = {}
        self._aborted: dict[int, Record] = {}
        self._holds: dict[object, int] = {}
        self._ended: list[tuple[int, int]] = []  # meanwhile: a transaction's marker, and its first record

    @property
    def high_watermark(self) -> int:
        """What lies behind it has not reached all followers: nobody reads it, and its writers get no answer."""
        return min(self._holds.values()) if self._holds else len(self.records)

    @property
    def stable_end(self) -> int:
        """Where a read_committed reader must stop: the first record of the oldest transaction that is open or whose end
        has not reached the followers, else the high watermark.
        """
        high = self.high_watermark
        if not self.undecided and not self._holds:
            return high
        unended = (first for marker, first in self._ended if marker >= high)
        return min((high, *(offsets[0] for offsets in self.undecided.values()), *unended))

    def hold(self) -> object:
        """The followers fall behind: the high watermark stays, until `release` of the result."""
        self._holds[hold := object()] = self.high_watermark
        return hold

    def release(self, hold: object) -> None:
        """The followers have caught up."""
        del self._holds[hold]
        self._ended = self._ended if self._holds else []
        self._advanced()

    def truncate(self) -> list[Record]:
        """A follower becomes the leader: what lies behind the high watermark is gone; returns it."""
        first = self.high_watermark
        gone = [record for record in self.records[first:] if record is not None]
        for kept in (self.records, self.appended_us, self._peaks):
            del kept[first:]
        left = {of: [at for at in offsets if at < first] for of, offsets in self.undecided.items()}
        self.undecided = {of: offsets for of, offsets in left.items() if offsets}
        self._aborted = {at: record for at, record in self._aborted.items() if at < first}
        self._ended = [(marker, began) for marker, began in self._ended if marker < first]
        return gone

    def append(self, record: NewRecord, now_us: int, transaction: str | None = None) -> int:
        """Append one record; with `transaction`, invisible until that is committed."""
        offset = len(self.records)
        stamp = now_us // 1000 if record.timestamp_ms is None else record.timestamp_ms
        self._put(Record(self.feed, offset, stamp, record.key, record.value, record.headers), stamp, now_us)
        if transaction is None:
            self._advanced()
        else:
            self.undecided.setdefault(transaction, []).append(offset)
        return offset

    def finish(self, transaction: str, commit: bool, now_us: int) -> None:
        """Write the marker. It ends everything open here under this id, as in Kafka, including what a lost earlier
        marker would have ended. Aborted records keep their offsets and are never seen.
        """
        offsets = self.undecided.pop(transaction, ())
        if self._holds and offsets:
            self._ended.append((len(self.records), offsets[0]))
        for offset in offsets:
            record = self.records[offset]
            if not commit and record is not None:
                self._aborted[offset] = record
                self.records[offset] = None
        self._put(None, now_us // 1000, now_us)
        self._advanced()

    def find(self, timestamp_ms: int) -> int:
        """First offset with a timestamp at or after this one, markers included as in Kafka; else the stable end."""
        end = self.stable_end
        offset = bisect_left(self._peaks, timestamp_ms)
        if offset < self.start:  # the peak was deleted: search the rest
            at = (i for i in range(self.start, end) if (r := self.records[i]) and r.timestamp_ms >= timestamp_ms)
            return next(at, end)
        return min(offset, end)

    def has(self, offset: int) -> bool:
        """Whether a reader can continue from here: neither deleted by retention nor beyond the end."""
        return self.start <= offset <= len(self.records)

    def read(self, first: int, end: int) -> list[Record]:
        """The visible records of [first, end). Raises OffsetGone."""
        if first < end and not self.has(first):
            raise OffsetGone(self.feed, first)
        return [r for r in self.records[first : min(end, self.stable_end)] if r is not None]

    def read_raw(self, first: int, end: int) -> list[Record]:
        """The same including records that are aborted, or whose transaction has not ended."""
        if first < end and not self.has(first):
            raise OffsetGone(self.feed, first)
        found = (self.records[i] or self._aborted.get(i) for i in range(first, min(end, self.high_watermark)))
        return [r for r in found if r is not None]

    def delete_before(self, offset: int) -> None:
        """Retention: the log starts at `offset` from now on."""
        self.start = max(self.start, min(offset, self.stable_end))

    def compact(self, below: int) -> None:
        """Run the log cleaner: of the records before offset `below`, keep only the last of each key. Readers meet holes
        in the offsets, and no error.
        """
        end, newer = self.stable_end, set[bytes | None]()
        for offset in range(end - 1, self.start - 1, -1):
            record = self.records[offset]
            if record is None:
                continue
            if record.key in newer and offset < below:
                self.records[offset] = None
            newer.add(record.key)

    def _put(self, record: Record | None, stamp: int, now_us: int) -> None:
        self.records.append(record)
        self.appended_us.append(now_us)
        self._peaks.append(max(stamp, self._peaks[-1]) if self._peaks else stamp)

    def _advanced(self) -> None:
        for watcher in tuple(self.watchers):
            watcher(self.feed)


@dataclass(slots=True)
class _Producer:
    """`written`: where its open transaction has records. `ended`: where the markers lie of those before it, and at
    which offsets. `known`: the broker has not forgotten it since it was initialised."""

    epoch: int = 0
    written: dict[Partition, None] = field(default_factory=dict)
    ended: dict[Partition, int] = field(default_factory=dict)
    opened: int = 0
    known: bool = True


class Broker:
    """Topics and transactional ids.

    Args:
        now_us: the broker's clock, for records without a timestamp and for markers.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._partitions: dict[Feed, Partition] = {}
        self._topics: dict[str, int] = {}
        self._ids: dict[str, str] = {}
        self._made = 0
        self.segment_bytes: dict[str, int] = {}
        """How large a segment of each topic may grow. Here that is only a number: nothing is stored in segments."""
        self.settings: dict[str, dict[str, str]] = {}
        """Of each topic, its own before the cluster's."""
        self.cluster: dict[str, str] = dict(CLUSTER)
        """The settings of topics that have none of their own."""
        self._watchers: dict[Feed, Watchers] = {}
        self._producers: dict[str, _Producer] = {}
        self.losing: list[Callable[[Sequence[Partition]], Collection[Partition]]] = []
        """Chooses the partitions of an ending transaction whose markers are lost, although it counts as ended."""

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def create(self, spec: TopicSpec) -> None:
        if spec.name not in self._topics:
            self._topics[spec.name] = spec.partitions
            self._made += 1
            self._ids[spec.name] = f"topic-{self._made}"
            self.settings[spec.name] = {**self.cluster, **dict(spec.config)}
            self.segment_bytes[spec.name] = int(dict(spec.config).get(topics.SEGMENT_BYTES, SEGMENT_BYTES))
            for feed in (Feed(spec.name, i) for i in range(spec.partitions)):
                self._partitions[feed] = Partition(feed, self.watchers(feed))

    def delete(self, name: str) -> None:
        for i in range(self._topics.pop(name, 0)):
            self._partitions.pop(Feed(name, i)).deleted = True

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        for feed in (Feed(name, i) for i in range(self._topics[name], partitions)):
            self._partitions[feed] = Partition(feed, self.watchers(feed))
        self._topics[name] = max(partitions, self._topics[name])

    def exists(self, name: str) -> bool:
        return name in self._topics

    def partition_count(self, name: str) -> int:
        """Number of partitions; 0: there is no such topic."""
        return self._topics.get(name, 0)

    def found(self, name: str) -> TopicFound:
        """A topic's number of partitions, and the id that it got when it was made."""
        there = self.partition_count(name)
        return TopicFound(there, self._ids[name] if there else "")

    def watchers(self, feed: Feed) -> Watchers:
        """The watchers of a feed, whether it exists or not, and however often it is recreated."""
        return self._watchers.setdefault(feed, {})

    def existing(self, feed: Feed) -> Partition | None:
        """The partition; None: there is no such topic or partition."""
        return self._partitions.get(feed)

    def partition(self, feed: Feed) -> Partition:
        """The partition. Raises LogError if there is no such topic or partition."""
        try:
            return self._partitions[feed]
        except KeyError:
            raise LogError(f"{feed.topic}[{feed.partition}]: no such topic; `borealis up` creates topics") from None

    def partitions(self, name: str) -> list[Partition]:
        """The partitions of one topic."""
        return [self._partitions[Feed(name, i)] for i in range(self._topics[name])]

    def refusal(self, record: NewRecord, writer_us: int) -> NotTaken | None:
        """Why a topic refuses a client's record, for its size or its time, as Kafka does; None: it takes it. There must
        be such a topic.

        Args:
            writer_us: the client's wall clock: a record's time, if it has none of its own.
        """
        feed, settings = record.feed, self.settings[record.feed.topic]
        size = len(record.value or b"") + len(record.key or b"") + sum(len(k) + len(v) for k, v in record.headers)
        if size > int(settings["max.message.bytes"]):
            return NotTaken(too_large(feed, record.timestamp_ms, size), size)
        if settings["message.timestamp.type"] == "LogAppendTime":
            return None
        stamp_ms = writer_us // 1_000 if record.timestamp_ms is None else record.timestamp_ms
        ahead_ms = stamp_ms - self._now_us() // 1_000
        after, before = (int(settings[f"message.timestamp.{side}.max.ms"]) for side in ("after", "before"))
        if -before <= ahead_ms <= after:
            return None
        return NotTaken(f"{feed.topic}: a record's time is {ahead_ms} ms ahead of the broker's (INVALID_TIMESTAMP)")

    def append(self, record: NewRecord) -> int:
        """Append a record, whatever its size and time. Raises LogError."""
        return self.partition(record.feed).append(record, self._now_us())

    def init_producer(self, transactional_id: str) -> int:
        """Fence older producers of this id, abort what they left open, and return the new producer's epoch."""
        producer = self._producers.setdefault(transactional_id, _Producer())
        self._finish(transactional_id, producer, commit=False)
        producer.epoch += 1
        producer.known = True
        return producer.epoch

    def fence_only(self, transactional_id: str) -> None:
        """Fence older producers of this id; what they left open stays so until the next fence or its timeout."""
        self._producers.setdefault(transactional_id, _Producer()).epoch += 1

    def settled(self, transactional_id: str) -> bool:
        """Whether all markers of the last transaction under this id have reached the followers: a new producer is not
        initialised before, and no transaction begins."""
        producer = self._producers.get(transactional_id)
        return producer is None or all(p.deleted or p.high_watermark > at for p, at in producer.ended.items())

    def replicated(self, transactional_id: str) -> bool:
        """Whether all records of its open transaction have reached the followers: it cannot be committed before."""
        return all(p.high_watermark == len(p.records) for p in self._producers[transactional_id].written)

    def forget(self, transactional_id: str) -> None:
        """transactional.id.expiration.ms has passed since its last transaction, if none is open."""
        producer = self._producers.get(transactional_id)
        if producer is not None and not producer.written:
            producer.known = False

    def write(self, transactional_id: str, epoch: int, records: Sequence[NewRecord]) -> int:
        """Add records to the producer's transaction, which starts with them; returns the transaction's number.

        Raises:
            ProducerFenced: a newer producer was initialised.
            LogError: no such topic, or the id has expired (nothing was written).
        """
        producer = self._current(transactional_id, epoch)
        if not producer.known:
            raise LogError(f"{transactional_id}: INVALID_PRODUCER_ID_MAPPING: its transactional id has expired")
        targets = [self.partition(record.feed) for record in records]
        if not producer.written:
            producer.opened += 1
        for record, partition in zip(records, targets, strict=True):
            partition.append(record, self._now_us(), transaction=transactional_id)
            producer.written[partition] = None
        return producer.opened

    def commit(self, transactional_id: str, epoch: int) -> bool:
        """Returns whether all its markers are in the log, which the client does not learn. Raises ProducerFenced."""
        return self._finish(transactional_id, self._current(transactional_id, epoch), commit=True)

    def abort(self, transactional_id: str, epoch: int) -> None:
        """Abort the transaction. Raises ProducerFenced."""
        self._finish(transactional_id, self._current(transactional_id, epoch), commit=False)

    def undecided(self, partition: Partition) -> set[int]:
        """Offsets of records whose transaction is open."""
        return {offset for offsets in partition.undecided.values() for offset in offsets}

    def expire(self, transactional_id: str, opened: int) -> None:
        """transaction.timeout.ms has passed for transaction number `opened`: abort it if it is still open."""
        producer = self._producers[transactional_id]
        if producer.written and producer.opened == opened:
            self._finish(transactional_id, producer, commit=False)
            producer.epoch += 1

    def _current(self, transactional_id: str, epoch: int) -> _Producer:
        producer = self._producers[transactional_id]
        if producer.epoch != epoch:
            raise ProducerFenced(transactional_id)
        return producer

    def _finish(self, transactional_id: str, producer: _Producer, commit: bool) -> bool:
        written, producer.written = [p for p in producer.written if not p.deleted], {}
        lost = {partition for losing in self.losing for partition in losing(written)}
        producer.ended = {}
        for partition in written:
            if partition not in lost:
                producer.ended[partition] = len(partition.records)
                partition.finish(transactional_id, commit, self._now_us())
        return not lost
