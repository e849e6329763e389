"""The interface of a log, as replicas, clients and redos use it. Kafka (`borealis_py.kafka`) and the simulator
implement it.

Nothing here blocks except `Lookup` and `Admin`, which are used at start-up and by commands. Everything asynchronous is
polled, and calls the `wake` function it was opened with when there is something to poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec


class Feed(NamedTuple):
    """One log: a partition of a topic."""

    topic: str
    partition: int = 0


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record as stored in the log: `offset` in `feed`, `timestamp_ms` since 1970 by the writer's or the broker's
    clock. `key` None: it has none. `value` None: a tombstone. `headers`: name and bytes, in the order written."""

    feed: Feed
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to append to `feed`. `key` None: none; `value` None: a tombstone, which deletes the key from a compacted
    topic. `timestamp_ms` since 1970; None: the log's clock. `headers`: name and bytes each. `conflatable`: whoever
    reads a newer record of its key needs this one no more."""

    feed: Feed
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    conflatable: bool = False


class Delivery(msgspec.Struct, frozen=True):
    """The outcome of the append with this `token`: its `offset`, or the `error` with which the log refused it (then it
    is not in the log, and `offset` says nothing). `too_large`: its size in bytes, if that is why, so `error` is a
    `RecordTooLarge`'s; a broker refuses a batch as a whole, and with a large record all others in it."""

    token: object
    offset: int
    error: str | None = None
    too_large: int = 0


class LogError(Exception):
    """A log operation failed. The message names the topic and says what to do."""


class LogUnreachable(LogError):
    """No broker answered in time."""


class OffsetGone(LogError):
    """The requested offset has been deleted by retention; the query stops. `first`: the first offset that the log still
    has; -1: not asked for."""

    def __init__(self, feed: Feed, offset: int, first: int = -1) -> None:
        super().__init__(f"{feed.topic}[{feed.partition}]: offset {offset} is no longer in the log (retention)")
        self.feed = feed
        self.offset = offset
        self.first = first


class OffsetBeyond(LogError):
    """The requested offset lies beyond the log's `end`: its topic was deleted and created again."""

    def __init__(self, feed: Feed, offset: int, end: int) -> None:
        super().__init__(
            f"{feed.topic}[{feed.partition}]: offset {offset} lies beyond the log's end {end}. Was the topic deleted "
            "and created again? Start with `--reset`."
        )
        self.feed = feed
        self.offset = offset
        self.end = end


GATHERED_US = 5_000
"""How long records of gathered feeds wait for others, if nothing else is said."""


NOTHING: Mapping[Feed, int] = {}


class Reader(Protocol):
    """Reads any number of feeds forward, each with its own cursor. Sees committed records only."""

    def open(self, feed: Feed, offset: int) -> None:
        """Start reading at `offset`, or move the cursor there."""

    def stop(self, feed: Feed) -> None:
        """Stop reading this feed. `open` resumes it."""

    def poll(self) -> list[Record]:
        """The records that have arrived, each feed's in order. Never waits.

        Raises:
            OffsetGone: a cursor is below the first offset the log still has.
            OffsetBeyond: a cursor is beyond the end.
        """

    @property
    def more(self) -> bool:
        """Whether the last `poll` left records that had arrived, of any feed."""

    @property
    def ripe(self) -> bool:
        """Whether the caller was woken since the last `poll`, or there was none: what has arrived meanwhile is not all
        hushed or gathered (see `hush`)."""

    def hush(
        self,
        feeds: frozenset[Feed],
        gathered: frozenset[Feed] = frozenset(),
        awaited: Mapping[Feed, int] = NOTHING,
        within_us: int = GATHERED_US,
    ) -> None:
        """From now on, records of these feeds do not wake the caller, which takes them at its next `poll`; those of all
        others do, also if they have arrived already.

        Args:
            gathered: feeds whose records, while they are small, need not wake it at once, but `within_us`.
            awaited: some of these, and offsets: as soon as each of them has records, and has been read up to its
                offset, the caller is woken.
        """

    def rest(self) -> None:
        """From now on, records may arrive half a second late while few come: the log has less to do."""

    def position(self, feed: Feed) -> int:
        """The offset after the last record that `poll` returned (before that: the opened offset).

        Records that no reader sees (transaction markers, aborted records) count as read once everything before them is
        read, so that the position of a fully read feed reaches the end that `EndsQuery` reports.
        """

    def close(self) -> None: ...


class Appender(Protocol):
    """Appends in order per feed, idempotently, asynchronously.

    Of the records with a token that go to one feed, those stored form a prefix: once one is refused, all later ones are
    (B2 relies on this: from where a writer begins it leaves no hole).

    Of conflatable records of one key those may be left out that are not sent yet when a newer one is appended.
    """

    def append(self, record: NewRecord, token: object = None) -> None:
        """Queue a record. If `token` is not None, its `Delivery` is returned by `deliveries` later, so it is never left
        out."""

    def deliveries(self) -> list[Delivery]: ...

    @property
    def clock_ahead_us(self) -> int | None:
        """By how much, in microseconds, this machine's clock is ahead of the log's at least, by the last record of a
        topic whose times the log sets; negative: behind; None: not known."""

    @property
    def log_us(self) -> int | None:
        """The log's clock, in microseconds since 1970, at least: by the same record, and by the time since, which this
        machine's wall clock does not measure; None: not known."""

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is delivered; False on timeout."""

    def close(self) -> None: ...


class EndsQuery(Protocol):
    """A pending query for the end offsets of some feeds (R3.2: has everything been read?)."""

    def poll(self) -> Mapping[Feed, int | None] | None:
        """None: no answer yet. A feed's value is None if its end could not be determined (unreachable)."""


class Lookup(Protocol):
    """Blocking queries. Every method raises LogUnreachable when no broker answers."""

    def bounds(self, feed: Feed) -> tuple[int, int]:
        """(first retained offset, end offset). The end counts committed records only, as `Reader` sees them."""

    def written(self, feed: Feed) -> int:
        """The end offset of all that is written, including transactions that have not ended: of one that is committed
        each partition learns for itself, and some later than others."""

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        """Offset of the first record with a timestamp at or after this one; else the end as of
        before the query (B37).
        """

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        """The records of [first, end); does not wait for records beyond `end`. Raises OffsetGone."""

    def ask_ends(self, feeds: Sequence[Feed]) -> EndsQuery:
        """Does not block."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TookOver:
    """The writer begun as `attempt` has fenced earlier ones. `progress`: the first bucket not yet written; None:
    nothing was ever written."""

    attempt: int
    progress: int | None


@dataclass(frozen=True, slots=True)
class Committed:
    """The last transaction of the writer begun as `attempt` is in the log."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another writer has taken over from the one begun as `attempt`."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """What became of `attempt` is unknown, for the `reason` given in words: drop it, fence, and read the progress again
    (B7). `too_large`: the log refused a record for its size, so the reason is a `RecordTooLarge`'s."""

    attempt: int
    reason: str
    too_large: bool = False


@dataclass(frozen=True, slots=True)
class AtWork:
    """Another writer is still writing into its transaction: `attempt` did not fence it, since it would only start
    again."""

    attempt: int


TransactorEvent = TookOver | Committed | Fenced | Unknown | AtWork


Resume = Callable[[Lookup], int | None]
"""Reads how far a stream is written; called in the writer's thread, after fencing. Raises LogError: unknown for now."""
Unended = Callable[[Lookup, Lookup], int | None]
"""(committed records, all records in the log) -> the bucket up to which an unfinished transaction is written; None:
there is none. Called in the writer's thread, before fencing. Raises LogError: unknown for now.
"""


@dataclass(frozen=True, slots=True)
class Mend:
    """One transaction by which a new writer repairs what earlier ones left because a broker lost their end markers.

    Attributes:
        records: what it writes, in order, to any partitions.
        commit: False: it is aborted, so that its end marker ends the hanging records in the partitions it writes to.
        why: human-readable: what is wrong, in which topic, at which offset.
    """

    records: tuple[NewRecord, ...]
    commit: bool
    why: str


Mending = Callable[[Lookup, Lookup], Mend | None]
"""(committed records, all records, aborted or unfinished ones included) -> the next repair; None: none is needed.
Called in the writer's thread after fencing, and again after each step. Raises LogError: unknown for now.
"""
MENDS_MAX = 3
"""Repair steps per take-over: ending what hangs, rewriting what was hidden, and one in reserve."""


class Transactor(Protocol):
    """The only writer of a corrected stream. Works in its own thread and reports by events."""

    def take_over(self, attempt: int) -> None:
        """Fence earlier writers, repair what they left (`Mending`), *then* read how far they got (`Resume`).

        Does nothing while another writer is writing into a transaction (`Unended`). Event: TookOver, Fenced, Unknown or
        AtWork.
        """

    def commit(self, attempt: int, make_records: Callable[[], Iterable[NewRecord]]) -> None:
        """Commit one transaction. One at a time.

        `make_records` is called in the writer's thread, so that encoding does not delay a turn; its records are taken
        one by one, since there may be a million.

        Event: Committed, Fenced or Unknown.
        """

    def drop(self) -> None:
        """Drop the current attempt; its outcome no longer matters."""

    def events(self) -> list[TransactorEvent]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create: its full `name`, its number of `partitions`, and its settings (`config`: Kafka's names and
    values) in addition to those that all our topics have."""

    name: str
    partitions: int = 1
    config: tuple[tuple[str, str], ...] = ()


class Replication(NamedTuple):
    """How many `brokers` a cluster has now, and how many `copies` each of some topics has, of its partitions the one
    with the fewest."""

    brokers: int
    copies: Mapping[str, int]


class Admin(Protocol):
    """Topic administration. Blocking."""

    def topics(self) -> list[str]: ...

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0: there is no such topic. Raises LogError: it may not be seen."""

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create the topics that do not exist yet."""

    def delete(self, names: Sequence[str]) -> None: ...

    def limit_segments(self, most_bytes: Mapping[str, int]) -> Mapping[str, str]:
        """Let no segment of these topics grow larger than this, by topic, from the next one on. Topics whose segments
        are that small already stay as they are, and so does what is not there.

        Returns:
            The topics whose segments may still grow larger, and why, in words: the log refuses it, or did not answer.

        Raises:
            LogUnreachable: no broker answers.
        """

    def settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """The settings in force of these topics, their own or the cluster's, by Kafka's names, as far as they are there
        and may be read.

        Raises:
            LogUnreachable: no broker answers.
        """

    def replication(self, names: Sequence[str]) -> Replication:
        """Of these topics, as far as they are there.

        Raises:
            LogUnreachable: no broker answers.
        """

    def set(self, values: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
        """Set these settings of topics that are there, by topic; their other settings stay.

        Returns:
            The topics that keep their settings, and why, in words: the log refuses it, or did not answer.

        Raises:
            LogUnreachable: no broker answers.
        """

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fence every writer of these ids: open transactions are aborted, and these writers can commit nothing more."""

    def close(self) -> None: ...


class Deleter(Protocol):
    """Deletes the beginnings of feeds. Blocking: one thread opens, uses and closes it."""

    def delete_before(self, offsets: Mapping[Feed, int], check: Callable[[], None]) -> Mapping[Feed, str]:
        """Delete all records below these offsets.

        Args:
            check: called just before each feed's records are deleted. What it raises goes to the caller, and nothing
                more is deleted.

        Returns:
            The feeds of which nothing was deleted, and why, in words: the log refuses it, or did not answer.

        Raises:
            LogError: no broker answers, or this client cannot be opened.
        """

    def close(self) -> None: ...


Wake = Callable[[], None]


class Log(Protocol):
    """Opens the above. Small and picklable, since it is sent to Spark workers."""

    def reader(self, wake: Wake, seldom: bool = False) -> Reader:
        """`seldom`: little is read, and feeds are seldom opened beside others; records come as soon as ever, but `open`
        and the end of a feed may take half a second longer."""

    def appender(self, wake: Wake) -> Appender: ...

    def lookup(self) -> Lookup: ...

    def transactor(
        self,
        transactional_id: str,
        progress: Feed,
        wake: Wake,
        resume: Resume,
        mending: Mending | None = None,
        unended: Unended | None = None,
    ) -> Transactor: ...

    def admin(self) -> Admin: ...

    def deleter(self) -> Deleter: ...
