"""Records what one replica process reads, writes and requests, turn by turn, between it and its log.

Nothing here judges. The product's objects are wrapped, not changed: they cannot know that they are recorded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from borealis_py.log.base import (
    GATHERED_US,
    NOTHING,
    Admin,
    Appender,
    Deleter,
    Delivery,
    Feed,
    Lookup,
    Mending,
    NewRecord,
    OffsetGone,
    Reader,
    Record,
    Resume,
    Transactor,
    Unended,
    Wake,
)
from borealis_py.protocol.redo import RedoJob, RedoPlace, RedoResult
from borealis_py.protocol.turn import SaveCheckpoint
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.storage import SimRedos, Spark
from borealis_py.simulation.log.broker import Broker
from borealis_py.simulation.log.client import MemoryClient
from reconcile.replay_context import OpenReplayContext


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A redo job that was started."""

    job: RedoJob
    place: RedoPlace


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """A redo job that was cancelled."""

    job_id: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that was handed to the store."""

    bucket: int


Done = NewRecord | JobStarted | JobCancelled | Saved


@dataclass(slots=True)
class RecordedTurn:
    """One turn, in the order of its parts.

    Attributes:
        read: records returned by the reader. acked: feeds whose appends were acknowledged, one entry each.
        done: its appends and requests. moved: cursors opened (offset) and stopped (None).
        answers: of redo jobs. gone: the feed whose next record was deleted. ended: whether the turn completed.
    """

    now_us: int
    read: list[Record] = field(default_factory=list)
    acked: list[Feed] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    moved: dict[Feed, int | None] = field(default_factory=dict)
    answers: list[RedoResult] = field(default_factory=list)
    gone: Feed | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Before:
    """Where a process began to read a log. For control and settings also the records before, since these are compacted
    later, expire, or are recreated.
    """

    offset: int
    records: tuple[Record, ...]


@dataclass(slots=True)
class Recording:
    """One process from its start to its end. The first turn is its start. `bucket`: where it began to run.

    `says_from`: what lies below was said before its start. `opened`: where each feed was opened first.
    `computes_unheard`: it may stand by while it computes, so what it says does not show what it does. `stood_by`: it
    goes on with the number of the standby that it was. `arrives`: it begins where its inputs stand, once it has read
    them and its first bucket was opened; `placed`, `arrived`: in which turns; None: not yet (R18.3). `all_run`: by
    the way in which its node recovers, all replicas do.
    """

    node: str
    replica: int
    name: str
    bucket: int = 0
    says_from: int = 0
    turns: list[RecordedTurn] = field(default_factory=list)
    opened: dict[Feed, Before] = field(default_factory=dict)
    computes_unheard: bool = False
    stood_by: bool = False
    arrives: bool = False
    placed: int | None = None
    arrived: int | None = None
    all_run: bool = True


class Recorder:
    """Records one process.

    Args:
        known: feeds that it reads to their end when it starts, before it follows them.
    """

    def __init__(self, scheduler: Scheduler, node: str, replica: int, name: str, known: Collection[Feed]) -> None:
        self._scheduler = scheduler
        self.known = known
        self.heard = Recording(node, replica, name, turns=[RecordedTurn(scheduler.now_us)])

    @property
    def turn(self) -> RecordedTurn:
        return self.heard.turns[-1]

    def begin(self, read: list[Record]) -> None:
        """A turn begins by polling."""
        self.heard.turns.append(RecordedTurn(self._scheduler.now_us, read))

    def end(self) -> None:
        self.turn.ended = True

    def saves(self, checkpoint: SaveCheckpoint) -> None:
        """A checkpoint is to be saved."""
        self.turn.done.append(Saved(checkpoint.frontier))

    def read(self, feed: Feed, offset: int) -> Before:
        """What it has read of a feed, up to `offset`. A topic that was deleted and recreated holds something else."""
        found = [record for turn in self.heard.turns for record in turn.read if record.feed == feed]
        return Before(offset, (*self.heard.opened[feed].records, *found))


Aside = Callable[[NewRecord], None]
"""Takes the records of a topic that go to the log on a way of their own."""
_NOTHING: Mapping[str, Aside] = MappingProxyType({})


class RecordingReader:
    """Implements `log.base.Reader`."""

    def __init__(self, reader: Reader, ear: Recorder, broker: Broker) -> None:
        self._reader = reader
        self._ear = ear
        self._broker = broker
        self._moved: dict[Feed, int | None] = {}

    def open(self, feed: Feed, offset: int) -> None:
        self._moved[feed] = offset
        if feed not in self._ear.heard.opened:
            partition, known = self._broker.partition(feed), feed in self._ear.known
            lay = partition.records[partition.start : offset] if known else ()
            self._ear.heard.opened[feed] = Before(offset, tuple(r for r in lay if r is not None))
        self._reader.open(feed, offset)

    def stop(self, feed: Feed) -> None:
        self._moved[feed] = None
        self._reader.stop(feed)

    def poll(self) -> list[Record]:
        records: list[Record] = []
        gone = None
        try:
            records = self._reader.poll()
        except OffsetGone as exc:
            gone = exc.feed
            raise
        finally:
            self._ear.begin(records)
            self._ear.turn.gone = gone
            self._ear.turn.moved, self._moved = self._moved, {}
        return records

    @property
    def more(self) -> bool:
        return self._reader.more

    @property
    def ripe(self) -> bool:
        return self._reader.ripe

    def hush(
        self,
        feeds: frozenset[Feed],
        gathered: frozenset[Feed] = frozenset(),
        awaited: Mapping[Feed, int] = NOTHING,
        within_us: int = GATHERED_US,
    ) -> None:
        self._reader.hush(feeds, gathered, awaited, within_us)

    def rest(self) -> None:
        self._reader.rest()

    def position(self, feed: Feed) -> int:
        return self._reader.position(feed)

    def close(self) -> None:
        self._reader.close()


class RecordingAppender:
    """Implements `log.base.Appender`."""

    def __init__(self, appender: Appender, ear: Recorder, aside: Mapping[str, Aside]) -> None:
        self._appender = appender
        self._ear = ear
        self._aside = aside

    def append(self, record: NewRecord, token: object = None) -> None:
        aside = self._aside.get(record.feed.topic)
        if aside is not None:
            aside(record)
            return
        self._ear.turn.done.append(record)
        self._appender.append(record, None if token is None else (record.feed, token))

    def deliveries(self) -> list[Delivery]:
        found = []
        for delivery in self._appender.deliveries():
            assert isinstance(delivery.token, tuple)
            feed, token = delivery.token
            if delivery.error is None:
                self._ear.turn.acked.append(feed)
            found.append(Delivery(token, delivery.offset, delivery.error, delivery.too_large))
        return found

    @property
    def clock_ahead_us(self) -> int | None:
        return self._appender.clock_ahead_us

    @property
    def log_us(self) -> int | None:
        return self._appender.log_us

    def flush(self, timeout_s: float) -> bool:
        return self._appender.flush(timeout_s)

    def close(self) -> None:
        self._appender.close()


class RecordingLog:
    """Implements `log.base.Log`."""

    def __init__(self, client: MemoryClient, ear: Recorder, aside: Mapping[str, Aside] = _NOTHING) -> None:
        self._client = client
        self._ear = ear
        self._aside = aside

    def reader(self, wake: Wake, seldom: bool = False) -> Reader:
        return RecordingReader(self._client.reader(wake, seldom), self._ear, self._client.log.broker)

    def appender(self, wake: Wake) -> Appender:
        return RecordingAppender(self._client.appender(wake), self._ear, self._aside)

    def lookup(self) -> Lookup:
        return self._client.lookup()

    def transactor(
        self,
        transactional_id: str,
        progress: Feed,
        wake: Wake,
        resume: Resume,
        mending: Mending | None = None,
        unended: Unended | None = None,
    ) -> Transactor:
        return self._client.transactor(transactional_id, progress, wake, resume, mending, unended)

    def admin(self) -> Admin:
        return self._client.admin()

    def deleter(self) -> Deleter:
        return self._client.deleter()


class HeardRedos(SimRedos):
    """Records the jobs that it is given."""

    def __init__(
        self,
        opened: OpenReplayContext,
        client: MemoryClient,
        spark: Spark,
        rng: random.Random,
        ear: Recorder,
        on_spark: bool,
    ) -> None:
        super().__init__(opened, client, spark, rng, on_spark)
        self._ear = ear

    def submit_job(self, job: RedoJob, place: RedoPlace) -> None:
        self._ear.turn.done.append(JobStarted(job, place))
        super().submit_job(job, place)

    def poll_results(self) -> list[RedoResult]:
        found = super().poll_results()
        self._ear.turn.answers += found
        return found

    def cancel_job(self, job_id: int) -> None:
        self._ear.turn.done.append(JobCancelled(job_id))
        super().cancel_job(job_id)
