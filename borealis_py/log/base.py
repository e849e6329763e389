"""What the replica, the client and a redo need of a log. Kafka implements it (`borealis_py.kafka`), the simulator too.

Nothing here blocks except `Lookup` and `Admin`, which are used while starting and by commands. Everything asynchronous
is polled, and calls the `wake` function it was opened with when there is something to poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec


class Feed(NamedTuple):
    """One log: a topic's partition."""

    topic: str
    partition: int = 0


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record as it lies in the log."""

    feed: Feed
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to append. `timestamp_ms` None: the log's clock."""

    feed: Feed
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Delivery:
    """The end of one append: `offset`, or `error` when the log did not take it (then it is not in the log)."""

    token: object
    offset: int
    error: str | None = None


class LogError(Exception):
    """The log could not do what was asked. The message says which topic and what to do."""


class LogUnreachable(LogError):
    """No broker answered in time."""


class OffsetGone(LogError):
    """The offset asked for has been deleted by retention: a named error, the query stops."""

    def __init__(self, feed: Feed, offset: int) -> None:
        super().__init__(f"{feed.topic}[{feed.partition}]: offset {offset} is no longer in the log (retention)")
        self.feed = feed
        self.offset = offset


class Reader(Protocol):
    """Reads any number of feeds forward, each with a cursor of its own. Sees committed records only."""

    def open(self, feed: Feed, offset: int) -> None:
        """Start reading at `offset`, or move there."""

    def stop(self, feed: Feed) -> None:
        """Stop reading this feed. `open` starts it again."""

    def poll(self) -> list[Record]:
        """What has arrived, each feed's records in order. Never waits.

        Raises:
            OffsetGone: a cursor is below what the log still has.
        """

    def position(self, feed: Feed) -> int:
        """The offset after the last record that `poll` returned (the opened offset before that).

        What no reader sees (markers of transactions, aborted records) counts as read once all before it is, so that
        the position of a feed read to its end reaches the end that `EndsQuery` tells.
        """

    def close(self) -> None: ...


class Appender(Protocol):
    """Appends in order per feed, idempotently, asynchronously.

    Of the records with a token that go to one feed, those that lie in the log are a prefix: once one was refused, all
    later ones are (B2 rests on it: a stream has no holes).
    """

    def append(self, record: NewRecord, token: object = None) -> None:
        """Queue a record. Its `Delivery` comes out of `deliveries` later, if `token` is not None."""

    def deliveries(self) -> list[Delivery]: ...

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is delivered; False when time ran out."""

    def close(self) -> None: ...


class EndsQuery(Protocol):
    """A question for the end offsets of some feeds (R3: was everything read?)."""

    def poll(self) -> Mapping[Feed, int | None] | None:
        """None: no answer yet. A feed's value is None when its end could not be learnt (unreachable)."""


class Lookup(Protocol):
    """Blocking questions. Every method raises LogUnreachable when nobody answers."""

    def bounds(self, feed: Feed) -> tuple[int, int]:
        """(first offset kept, end offset). End counts committed records only, as `Reader` sees them."""

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        """The first record with a timestamp at or after this one, else the end as it was before asking (B37)."""

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        """The records of [first, end), waiting for nothing beyond `end`. Raises OffsetGone."""

    def ask_ends(self, feeds: Sequence[Feed]) -> EndsQuery:
        """Does not block."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TookOver:
    """The writer is fenced in; `progress` is the first bucket not yet written, None: nothing was ever written."""

    attempt: int
    progress: int | None


@dataclass(frozen=True, slots=True)
class Committed:
    attempt: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """Somebody took over from this attempt."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither success nor failure is known: drop the attempt, fence, read how far it got (B7)."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class AtWork:
    """Another writer was seen to write on into its transaction: it was not fenced, or it would only begin again."""

    attempt: int


TransactorEvent = TookOver | Committed | Fenced | Unknown | AtWork


Resume = Callable[[Lookup], int | None]
"""How far a stream is written: asked in the writer's thread, after fencing. Raises LogError: it cannot be told now."""
Unended = Callable[[Lookup, Lookup], int | None]
"""(what is committed, all that lies in the log) -> up to where a transaction is written that has no end; None: there is
none. Asked in the writer's thread, before fencing. Raises LogError: it cannot be told now."""


@dataclass(frozen=True, slots=True)
class Mend:
    """One transaction of a new writer that mends what those before it left, because a broker lost ends of theirs.

    Attributes:
        commit: False: it is aborted, so that its end ends what hangs in the partitions that it writes to.
        why: for people: what is wrong, in which topic, at which offset.
    """

    records: tuple[NewRecord, ...]
    commit: bool
    why: str


Mending = Callable[[Lookup, Lookup], Mend | None]
"""(what is committed, all that lies in the log, aborted or without an end) -> what to mend first; None: nothing.
Asked in the writer's thread after fencing, again after each step. Raises LogError: it cannot be told now."""
MENDS_MAX = 3
"""Steps of one take-over: ending what hangs, writing what was hidden, and one in reserve."""


class Transactor(Protocol):
    """The one writer of a corrected stream. Works in a thread of its own and talks by events."""

    def take_over(self, attempt: int) -> None:
        """Fence whoever wrote before, mend what it left (`Mending`), *then* read how far it got (`Resume`).

        Not while somebody writes on into a transaction (`Unended`). Answer: TookOver, Fenced, Unknown or AtWork.
        """

    def commit(self, attempt: int, make_records: Callable[[], Iterable[NewRecord]]) -> None:
        """One transaction. `make_records` is called in the writer's thread, so that encoding costs no turn, and what it
        gives is taken one by one: there may be a million.

        Answer: Committed, Fenced or Unknown. One at a time.
        """

    def drop(self) -> None:
        """Forget the present attempt; its outcome no longer matters."""

    def events(self) -> list[TransactorEvent]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to be: settings beside those that every topic of ours has."""

    name: str
    partitions: int = 1
    config: tuple[tuple[str, str], ...] = ()


class Admin(Protocol):
    """Topics. Blocking."""

    def topics(self) -> list[str]: ...

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create those that do not exist yet."""

    def delete(self, names: Sequence[str]) -> None: ...

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fence every writer of these ids: what it has begun is aborted, and it commits nothing more by itself."""

    def close(self) -> None: ...


Wake = Callable[[], None]


class Log(Protocol):
    """A way to open the above. Small and picklable: it travels to Spark's workers."""

    def reader(self, wake: Wake) -> Reader: ...

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
