"""The simulated log: `log.base.Log` over `sim.broker`, with delays, cuts, crashes and unknown outcomes.

Each client (one process: a replica, a publisher) has a log of its own, so that a fault can hit one of them:

    log = MemoryLog(scheduler, seed=7)
    reader = log.client("r0").reader(wake)
    log.cut("r0")            # r0 reaches nothing; its appends wait, its readers see nothing new
    log.heal("r0")
    log.kill("r0")           # what r0 had in flight may land or not; `client("r0")` is a new process from now on

Same scheduler start, seed and calls: the same run. It knows nothing of what the records mean.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from borealis_py.log.base import (
    Delivery,
    Feed,
    LogError,
    LogUnreachable,
    NewRecord,
    OffsetGone,
    Record,
    TopicSpec,
    Wake,
)
from borealis_py.sim.broker import Broker, Partition
from borealis_py.sim.clock import Scheduler
from borealis_py.sim.delays import Delay, Delays
from borealis_py.sim.transactor import MemoryTransactor, Outcome, Outcomes


class MemoryLog:
    """The world's log. Not itself a `Log`: `client(name)` is.

    Args:
        seed: of every random choice in here.
        delays: of clients without delays of their own (`set_delays`).
        outcomes: of commits; by default all succeed.
        append_timeout_us: an append that waits longer for a cut to heal fails.
        transaction_timeout_us: the broker aborts transactions that are open for longer.
        poll_records_max: of one `poll`, feed by feed; None: all there is.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        seed: int = 0,
        delays: Delays | None = None,
        outcomes: Outcomes | None = None,
        append_timeout_us: int = 120_000_000,
        transaction_timeout_us: int = 10_000_000,
        poll_records_max: int | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.rng = random.Random(seed)
        self.broker = Broker(lambda: scheduler.now_us // 1000)
        self.outcomes = outcomes or (lambda _rng, _name: Outcome.COMMITTED)
        self.append_timeout_us = append_timeout_us
        self.transaction_timeout_us = transaction_timeout_us
        self.poll_records_max = poll_records_max
        self._delays = delays or Delays()
        self._own_delays: dict[str, Delays] = {}
        self._cuts: dict[str, Collection[str] | None] = {}
        self._clients: dict[str, MemoryClient] = {}

    def client(self, name: str) -> MemoryClient:
        """The log as process `name` sees it; after `kill` a new one."""
        if name not in self._clients:
            self._clients[name] = MemoryClient(self, name)
        return self._clients[name]

    def delays(self, name: str) -> Delays:
        return self._own_delays.get(name, self._delays)

    def set_delays(self, name: str, delays: Delays) -> None:
        """From now on this client's requests take this long."""
        self._own_delays[name] = delays

    def cut(self, name: str, topics: Collection[str] | None = None) -> None:
        """Cut a client off from some topics (None: from all), also one that starts later under this name."""
        self._cuts[name] = topics

    def heal(self, name: str) -> None:
        """End the cut: what waited goes on, in order."""
        if name in self._cuts:
            del self._cuts[name]
            if name in self._clients:
                self._clients[name].healed()

    def reaches(self, name: str, topic: str | None) -> bool:
        """Whether requests of this client about `topic` arrive (None: about the log as a whole)."""
        if name not in self._cuts:
            return True
        topics = self._cuts[name]
        return topics is not None and topic not in topics

    def kill(self, name: str) -> None:
        """The process is gone. Of what it had in flight, a prefix of each feed still lands; nothing reaches it."""
        client = self._clients.pop(name, None)
        if client is not None:
            client.die()

    def delete_before(self, feed: Feed, offset: int) -> None:
        """Retention: `feed` starts at `offset` from now on."""
        self.broker.partition(feed).delete_before(offset)

    def committed(self, feed: Feed) -> list[Record]:
        """What lies in a feed, for oracles: no delay, no cut."""
        partition = self.broker.partition(feed)
        return partition.read(partition.start, len(partition.records))


class MemoryClient:
    """One process's log. Implements `log.base.Log`."""

    def __init__(self, log: MemoryLog, name: str) -> None:
        self.log = log
        self.name = name
        self.alive = True
        self._readers: list[MemoryReader] = []
        self._appenders: list[MemoryAppender] = []

    @property
    def delays(self) -> Delays:
        return self.log.delays(self.name)

    def reaches(self, topic: str | None) -> bool:
        return self.alive and self.log.reaches(self.name, topic)

    def after(self, delay: Delay, fn: Callable[[], None]) -> None:
        self.log.scheduler.after(delay(self.log.rng), fn)

    def reader(self, wake: Wake) -> MemoryReader:
        reader = MemoryReader(self, wake)
        self._readers.append(reader)
        return reader

    def appender(self, wake: Wake) -> MemoryAppender:
        appender = MemoryAppender(self, wake)
        self._appenders.append(appender)
        return appender

    def lookup(self) -> MemoryLookup:
        return MemoryLookup(self)

    def transactor(self, transactional_id: str, progress: Feed, wake: Wake) -> MemoryTransactor:
        return MemoryTransactor(self, transactional_id, progress, wake)

    def admin(self) -> MemoryAdmin:
        return MemoryAdmin(self)

    def healed(self) -> None:
        for reader in self._readers:
            reader.healed()
        for appender in self._appenders:
            appender.healed()

    def die(self) -> None:
        for reader in self._readers:
            reader.close()
        for appender in self._appenders:
            appender.die()
        self.alive = False


class _Cursor:
    __slots__ = ("partition", "position", "shown_at_us", "visible")

    def __init__(self, partition: Partition, offset: int) -> None:
        self.partition = partition
        self.position = offset
        self.visible = offset  # what the fetches so far brought; records lie in the partition itself
        self.shown_at_us = 0


class MemoryReader:
    """Implements `log.base.Reader`."""

    def __init__(self, client: MemoryClient, wake: Wake) -> None:
        self._client = client
        self._wake = wake
        self._cursors: dict[Feed, _Cursor] = {}

    def open(self, feed: Feed, offset: int) -> None:
        partition = self._client.log.broker.partition(feed)
        self._cursors[feed] = _Cursor(partition, offset)
        partition.watchers[self._advanced] = None
        self._advanced(feed)

    def stop(self, feed: Feed) -> None:
        cursor = self._cursors.pop(feed, None)
        if cursor is not None:
            cursor.partition.watchers.pop(self._advanced, None)

    def poll(self) -> list[Record]:
        cursors = self._cursors
        for feed, cursor in cursors.items():
            if cursor.position < cursor.partition.start and self._client.reaches(feed.topic):
                raise OffsetGone(feed, cursor.position)
        records: list[Record] = []
        left = self._client.log.poll_records_max
        for cursor in cursors.values():
            if cursor.visible > cursor.position:
                end = cursor.visible if left is None else min(cursor.visible, cursor.position + left)
                records += [r for r in cursor.partition.records[cursor.position : end] if r is not None]
                if left is not None:
                    left -= end - cursor.position
                    if end < cursor.visible:
                        self._client.log.scheduler.after(0, self._wake)
                cursor.position = end
        if left == 0:  # the next poll begins with another feed, so that none starves
            self._cursors = dict([*list(cursors.items())[1:], *list(cursors.items())[:1]])
        return records

    def position(self, feed: Feed) -> int:
        return self._cursors[feed].position

    def close(self) -> None:
        for feed in tuple(self._cursors):
            self.stop(feed)

    def healed(self) -> None:
        for feed in self._cursors:
            self._advanced(feed)

    def _advanced(self, feed: Feed) -> None:
        cursor, client = self._cursors[feed], self._client
        end = cursor.partition.stable_end
        scheduler = client.log.scheduler
        at = max(scheduler.now_us + client.delays.fetch(client.log.rng), cursor.shown_at_us)
        cursor.shown_at_us = at
        scheduler.at(at, lambda: self._show(feed, cursor, end))

    def _show(self, feed: Feed, cursor: _Cursor, end: int) -> None:
        current = self._cursors.get(feed) is cursor
        gone = cursor.position < cursor.partition.start
        if current and (end > cursor.visible or gone) and self._client.reaches(feed.topic):
            cursor.visible = max(cursor.visible, end)
            self._wake()


class _Lane:
    """A feed's appends in flight, in order."""

    __slots__ = ("acked_at_us", "acks", "landing_at_us", "queue", "topic", "waiting")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.queue: deque[tuple[NewRecord, object, int]] = deque()
        self.waiting = 0  # how many of them stand before a cut
        self.acks: deque[Delivery] = deque()
        self.landing_at_us = self.acked_at_us = 0


class MemoryAppender:
    """Implements `log.base.Appender`."""

    def __init__(self, client: MemoryClient, wake: Wake) -> None:
        self._client = client
        self._wake = wake
        self._lanes: dict[Feed, _Lane] = {}
        self._delivered: list[Delivery] = []
        self._outstanding = 0
        self._open = True

    def append(self, record: NewRecord, token: object = None) -> None:
        if not self._open:
            raise LogError(f"{record.feed.topic}: append after close")
        lane = self._lanes.get(record.feed)
        if lane is None:
            lane = self._lanes[record.feed] = _Lane(record.feed.topic)
        lane.queue.append((record, token, self._client.log.scheduler.now_us))
        self._outstanding += 1
        self._send(lane)

    def deliveries(self) -> list[Delivery]:
        delivered, self._delivered = self._delivered, []
        return delivered

    def flush(self, timeout_s: float) -> bool:
        """Whether all is delivered: simulated time does not pass in here."""
        return self._outstanding == 0

    def close(self) -> None:
        self._open = False

    def die(self) -> None:
        rng = self._client.log.rng
        for lane in self._lanes.values():
            for _ in range(len(lane.queue) - rng.randint(0, len(lane.queue))):
                lane.queue.pop()
        self._open = False

    def healed(self) -> None:
        for lane in self._lanes.values():
            again, lane.waiting = lane.waiting, 0
            for _ in range(again):
                self._send(lane)
            while lane.acks:
                self._ack(lane, lane.acks.popleft())

    def _send(self, lane: _Lane) -> None:
        client = self._client
        scheduler = client.log.scheduler
        at = max(scheduler.now_us + client.delays.append(client.log.rng), lane.landing_at_us)
        lane.landing_at_us = at
        scheduler.at(at, lambda: self._land(lane))

    def _land(self, lane: _Lane) -> None:
        if not lane.queue:
            return
        record, token, asked_us = lane.queue[0]
        log = self._client.log
        if not log.reaches(self._client.name, record.feed.topic):
            lane.waiting += 1
            log.scheduler.at(asked_us + log.append_timeout_us, lambda: self._expire(lane, asked_us))
            return
        lane.queue.popleft()
        try:
            delivery = Delivery(token, log.broker.append(record))
        except LogError as exc:
            delivery = Delivery(token, -1, str(exc))
        self._ack(lane, delivery)

    def _expire(self, lane: _Lane, asked_us: int) -> None:
        while lane.waiting and lane.queue and lane.queue[0][2] <= asked_us:
            record, token, _ = lane.queue.popleft()
            lane.waiting -= 1
            self._deliver(Delivery(token, -1, f"{record.feed.topic}: the log was unreachable for too long"))

    def _ack(self, lane: _Lane, delivery: Delivery) -> None:
        client = self._client
        scheduler = client.log.scheduler
        lane.acked_at_us = max(scheduler.now_us + client.delays.ack(client.log.rng), lane.acked_at_us)
        scheduler.at(lane.acked_at_us, lambda: self._acked(lane, delivery))

    def _acked(self, lane: _Lane, delivery: Delivery) -> None:
        if not self._client.alive:
            return
        if self._client.reaches(lane.topic):
            self._deliver(delivery)
        else:
            lane.acks.append(delivery)

    def _deliver(self, delivery: Delivery) -> None:
        self._outstanding -= 1
        if self._client.alive and delivery.token is not None:
            self._delivered.append(delivery)
            self._wake()


class MemoryEnds:
    """Implements `log.base.EndsQuery`."""

    def __init__(self) -> None:
        self.answer: dict[Feed, int | None] | None = None

    def poll(self) -> Mapping[Feed, int | None] | None:
        return self.answer


class MemoryLookup:
    """Implements `log.base.Lookup`. Blocking calls answer at once: time does not pass in them."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def bounds(self, feed: Feed) -> tuple[int, int]:
        partition = self._partition(feed)
        return partition.start, partition.stable_end

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        return self._partition(feed).find(timestamp_ms)

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        return iter(self._partition(feed).read(first, end))

    def ask_ends(self, feeds: Sequence[Feed]) -> MemoryEnds:
        query, client = MemoryEnds(), self._client
        asked = tuple(feeds)

        def answer() -> None:
            broker = client.log.broker
            query.answer = {f: broker.partition(f).stable_end if client.reaches(f.topic) else None for f in asked}

        delays = client.delays
        reachable = all(client.reaches(f.topic) for f in asked)
        client.after(delays.ends if reachable else delays.unreachable, answer)
        return query

    def close(self) -> None:
        pass

    def _partition(self, feed: Feed) -> Partition:
        if not self._client.reaches(feed.topic):
            raise LogUnreachable(f"{feed.topic}: no broker answered {self._client.name}")
        return self._client.log.broker.partition(feed)


class MemoryAdmin:
    """Implements `log.base.Admin`."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def topics(self) -> list[str]:
        return self._broker().topics()

    def create(self, specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            self._broker().create(spec)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._broker().delete(name)

    def close(self) -> None:
        pass

    def _broker(self) -> Broker:
        if not self._client.reaches(None):
            raise LogUnreachable(f"no broker answered {self._client.name}")
        return self._client.log.broker
