"""The simulated log as its clients see it: everything takes time, links are cut, processes die.

What lies in the log and what Kafka's rules make of it is `sim.broker`; ways are `sim.links`. Deterministic: all choices
come from one random generator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from borealis_py.log.base import (
    Feed,
    LogError,
    LogUnreachable,
    Mending,
    NewRecord,
    Record,
    Resume,
    TopicSpec,
    Unended,
    Wake,
)
from borealis_py.simulation.cluster.clock import Scheduler
from borealis_py.simulation.log.appender import MemoryAppender
from borealis_py.simulation.log.broker import Broker
from borealis_py.simulation.log.latency import Delay, Delays
from borealis_py.simulation.log.network import Cut, Link, cut_of
from borealis_py.simulation.log.reader import MemoryLookup, MemoryReader
from borealis_py.simulation.log.transactor import MemoryTransactor, Outcome, Outcomes


@dataclass(frozen=True, slots=True)
class Refusal:
    """What becomes of an append that is told to have failed; it may have `landed` all the same (F11)."""

    reason: str
    landed: bool = False


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
        self.broker = Broker(lambda: scheduler.now_us)
        self.outcomes = outcomes or (lambda _rng, _name: Outcome.COMMITTED)
        self.too_large: Callable[[Sequence[NewRecord]], bool] = lambda _records: False
        """Whether a transaction takes longer to commit than it has."""
        self.append_timeout_us = append_timeout_us
        self.transaction_timeout_us = transaction_timeout_us
        self.poll_records_max = poll_records_max
        self.on_transaction: Callable[[str], object] | None = None
        """Called with a client's name when its transaction has begun."""
        self._delays = delays or Delays()
        self._links: dict[str, Link] = {}
        self._clients: dict[str, MemoryClient] = {}
        self._late_us: dict[str, int] = {}
        self._refusals: dict[tuple[str, str], Refusal] = {}
        self._leaderless: dict[str, int] = {}
        self._altered: dict[Feed, Callable[[NewRecord], NewRecord]] = {}

    def client(self, name: str) -> MemoryClient:
        """The log as process `name` sees it; after `kill` a new one."""
        if name not in self._clients:
            self._clients[name] = MemoryClient(self, name)
        return self._clients[name]

    def link(self, name: str) -> Link:
        """The way of this client, and of those that start later under its name."""
        if name not in self._links:
            self._links[name] = Link(self._delays)
        return self._links[name]

    def set_delays(self, name: str, delays: Delays) -> None:
        """From now on this client's requests take this long."""
        self.link(name).slow(delays)

    def cut(self, name: str, topics: Collection[str] | None = None) -> Cut:
        """Cut a client off from some topics (None: from all)."""
        cut = cut_of(topics)
        self.add_cut(name, cut)
        return cut

    def add_cut(self, name: str, cut: Cut) -> None:
        """Likewise, in one direction perhaps."""
        self.link(name).cuts.append(cut)

    def heal(self, name: str, cut: Cut | None = None) -> None:
        """End the cut (None: all): what waited goes on, in order."""
        link = self.link(name)
        link.cuts = [] if cut is None else [c for c in link.cuts if c is not cut]
        if name in self._clients:
            self._clients[name].healed()

    def kill(self, name: str) -> None:
        """The process is gone. Of what it had in flight, a prefix of each feed still lands; nothing reaches it."""
        client = self._clients.pop(name, None)
        if client is not None:
            client.die(self._late_us.get(name, 0))

    # Faults of the log ------------------------------------------------------------------------------------------------

    def late(self, name: str, up_to_us: int) -> None:
        """What this client has in flight when it dies lands up to so much later (0: as ever)."""
        self._late_us[name] = up_to_us

    def land_late(self, records: Sequence[NewRecord]) -> None:
        """Old requests arrive."""
        for record in records:
            with suppress(LogError):  # the topic has been deleted
                self.broker.append(record)

    def refuse(self, name: str, topic: str, refusal: Refusal) -> None:
        """The next append of this client to this topic is answered so."""
        self._refusals[name, topic] = refusal

    def refusal(self, name: str, record: NewRecord) -> Refusal | None:
        return self._refusals.pop((name, record.feed.topic), None) if self._refusals else None

    def alter(self, feed: Feed, change: Callable[[NewRecord], NewRecord] | None) -> None:
        """What is appended to this feed is changed on its way (None: not any more)."""
        self._altered.pop(feed, None)
        if change is not None:
            self._altered[feed] = change

    def altered(self, record: NewRecord) -> NewRecord:
        change = self._altered.get(record.feed) if self._altered else None
        return record if change is None else change(record)

    def depose(self, topics: Collection[str]) -> None:
        """These topics have no leader: appends wait, reads bring nothing, until `elect`."""
        for topic in topics:
            self._leaderless[topic] = self._leaderless.get(topic, 0) + 1

    def elect(self, topics: Collection[str]) -> None:
        for topic in topics:
            self._leaderless[topic] -= 1
            if not self._leaderless[topic]:
                del self._leaderless[topic]
        self.healed()

    def healed(self) -> None:
        """What waited for a leader or for a topic goes on."""
        for client in self._clients.values():
            client.healed()

    def leaderless(self, topic: str | None) -> bool:
        return bool(self._leaderless) and topic in self._leaderless

    def delete_before(self, feed: Feed, offset: int) -> None:
        """Retention: `feed` starts at `offset` from now on."""
        self.broker.partition(feed).delete_before(offset)

    def committed(self, feed: Feed) -> list[Record]:
        """What ever lay in a feed, for oracles: no delay, no cut, no retention."""
        partition = self.broker.partition(feed)
        return [r for r in partition.records[: partition.stable_end] if r is not None]

    def decided(self, feed: Feed) -> list[Record]:
        """Likewise, with what another one's open transaction hides from readers for a while."""
        partition = self.broker.partition(feed)
        undecided = self.broker.undecided(partition)
        return [r for r in partition.records if r is not None and r.offset not in undecided]


class MemoryClient:
    """One process's log. Implements `log.base.Log`."""

    def __init__(self, log: MemoryLog, name: str) -> None:
        self.log = log
        self.name = name
        self.alive = True
        self.link = log.link(name)
        self._readers: list[MemoryReader] = []
        self._appenders: list[MemoryAppender] = []

    def reaches(self, topic: str | None) -> bool:
        return self.alive and self.link.reaches(topic) and not self.log.leaderless(topic)

    def sends(self, topic: str | None) -> bool:
        """What it sends about this topic arrives."""
        return self.link.sends(topic) and not self.log.leaderless(topic)

    def hears(self, topic: str | None) -> bool:
        """What the log answers or sends arrives."""
        return self.alive and self.link.hears(topic) and not self.log.leaderless(topic)

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

    def transactor(
        self,
        transactional_id: str,
        progress: Feed,
        wake: Wake,
        resume: Resume,
        mending: Mending | None = None,
        unended: Unended | None = None,
    ) -> MemoryTransactor:
        return MemoryTransactor(self, transactional_id, progress, wake, resume, mending, unended)

    def admin(self) -> MemoryAdmin:
        return MemoryAdmin(self)

    def healed(self) -> None:
        for reader in self._readers:
            reader.healed()
        for appender in self._appenders:
            appender.healed()

    def die(self, later_us: int = 0) -> None:
        for reader in self._readers:
            reader.close()
        for appender in self._appenders:
            appender.die(later_us)
        self.alive = False


class MemoryAdmin:
    """Implements `log.base.Admin`."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def topics(self) -> list[str]:
        return self._broker().topics()

    def create(self, specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            self._broker().create(spec)
        self._client.log.healed()

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._broker().delete(name)

    def fence(self, transactional_ids: Sequence[str]) -> None:
        for transactional_id in transactional_ids:
            self._broker().init_producer(transactional_id)

    def close(self) -> None:
        pass

    def _broker(self) -> Broker:
        if not self._client.reaches(None):
            raise LogUnreachable(f"no broker answered {self._client.name}")
        return self._client.log.broker
