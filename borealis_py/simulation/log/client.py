"""The simulated log as its clients see it: requests take time, links are cut, processes die.

`log.broker` holds the records and applies Kafka's rules; `log.network` holds the links. Deterministic: one random
generator makes all choices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from borealis_py.log.base import (
    Feed,
    LogUnreachable,
    Mending,
    NewRecord,
    Record,
    Replication,
    Resume,
    TopicSpec,
    Unended,
    Wake,
)
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.latency import Latencies
from borealis_py.simulation.log.appender import MemoryAppender
from borealis_py.simulation.log.broker import SEGMENT_BYTES_LEAST, Broker
from borealis_py.simulation.log.connection import Connection, Refusal, SharedLog
from borealis_py.simulation.log.network import Cut, cut_of
from borealis_py.simulation.log.outcomes import CommitOutcomes
from borealis_py.simulation.log.reader import MemoryLookup, MemoryReader
from borealis_py.simulation.log.topic_watch import MemoryTopicWatch
from borealis_py.simulation.log.transactor import MemoryTransactor


class MemoryLog(SharedLog):
    """The world's log. It is not itself a `Log`: `client(name)` is.

    Args:
        seed: of every random choice in here.
        delays: of clients without their own delays (`set_delays`).
        outcomes: of commits; by default all succeed.
        append_timeout_us: an append that waits longer for a cut to heal fails.
        transaction_timeout_us: the broker aborts transactions that are open for longer.
        poll_records_max: of one `poll`, feed by feed; None: unlimited.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        seed: int = 0,
        delays: Latencies | None = None,
        outcomes: CommitOutcomes | None = None,
        append_timeout_us: int = 120_000_000,
        transaction_timeout_us: int = 10_000_000,
        poll_records_max: int | None = None,
    ) -> None:
        super().__init__(scheduler, seed, delays, outcomes, append_timeout_us, transaction_timeout_us, poll_records_max)
        self._clients: dict[str, MemoryClient] = {}
        self._late_us: dict[str, int] = {}

    def client(self, name: str) -> MemoryClient:
        """The log as process `name` sees it; after `kill` a new one."""
        if name not in self._clients:
            self._clients[name] = MemoryClient(self, name)
        return self._clients[name]

    def set_delays(self, name: str, delays: Latencies) -> None:
        """Set the latencies of this client's requests from now on."""
        self.link(name).slow(delays)

    def cut(self, name: str, topics: Collection[str] | None = None) -> Cut:
        """Cut a client off from some topics (None: from all)."""
        cut = cut_of(topics)
        self.add_cut(name, cut)
        return cut

    def add_cut(self, name: str, cut: Cut) -> None:
        """The same with an existing cut, which may be one-way."""
        self.link(name).cuts.append(cut)

    def heal(self, name: str, cut: Cut | None = None) -> None:
        """End the cut (None: all): whatever waited continues, in order."""
        link = self.link(name)
        link.cuts = [] if cut is None else [c for c in link.cuts if c is not cut]
        if name in self._clients:
            self._clients[name].healed()

    def kill(self, name: str) -> None:
        """The process is gone. Of what it had in flight, a prefix of each feed still arrives; nothing reaches it."""
        client = self._clients.pop(name, None)
        if client is not None:
            client.die(self._late_us.get(name, 0))

    # Faults of the log ------------------------------------------------------------------------------------------------

    def late(self, name: str, up_to_us: int) -> None:
        """If this client dies, its records in flight arrive up to this much later (0: as usual)."""
        self._late_us[name] = up_to_us

    def refuse(self, name: str, topic: str, refusal: Refusal) -> None:
        """Answer this client's next append to this topic with a refusal."""
        self._refusals[name, topic] = refusal

    def alter(self, feed: Feed, change: Callable[[NewRecord], NewRecord] | None) -> None:
        """Change what is appended to this feed on its way (None: no longer)."""
        self._altered.pop(feed, None)
        if change is not None:
            self._altered[feed] = change

    def depose(self, topics: Collection[str]) -> None:
        """Take these topics' leaders away: appends wait, reads return nothing, until `elect`."""
        for topic in topics:
            self._leaderless[topic] = self._leaderless.get(topic, 0) + 1

    def elect(self, topics: Collection[str]) -> None:
        for topic in topics:
            self._leaderless[topic] -= 1
            if not self._leaderless[topic]:
                del self._leaderless[topic]
        self.healed()

    def depose_partition(self, feed: Feed) -> None:
        """Take one partition's leader away from its readers, until `elect_partition`."""
        self.unled.add(feed)

    def elect_partition(self, feed: Feed) -> None:
        self.unled.discard(feed)
        self.healed()

    def hold(self, topics: Collection[str]) -> Callable[[bool], None]:
        """The followers of these topics fall behind: what is appended is neither read nor acknowledged, until the
        result is called. With True followers become leaders: of what had not reached them all, living writers send
        theirs again, and the rest is gone. Nobody who wants it kept may have written it in a transaction.
        """
        held = [(p, p.hold()) for topic in topics for p in self.broker.partitions(topic)]

        def release(truncated: bool) -> None:
            for partition, hold in held:
                if truncated and not partition.deleted:
                    gone = {record.offset: record for record in partition.truncate()}
                    for client in self._clients.values():
                        client.send_again(partition.feed, gone)
                partition.release(hold)
            self.healed()

        return release

    def healed(self) -> None:
        """Resume whatever waited for a leader or for a topic."""
        for client in self._clients.values():
            client.healed()

    def delete_before(self, feed: Feed, offset: int) -> None:
        """Retention: `feed` starts at `offset` from now on."""
        self.broker.partition(feed).delete_before(offset)

    def committed(self, feed: Feed) -> list[Record]:
        """Everything ever committed to a feed, for oracles: no delay, no cut, no retention."""
        partition = self.broker.partition(feed)
        return [r for r in partition.records[: partition.stable_end] if r is not None]

    def decided(self, feed: Feed) -> list[Record]:
        """The same including what another transaction, still open, temporarily hides from readers."""
        partition = self.broker.partition(feed)
        undecided = self.broker.undecided(partition)
        below = partition.records[: partition.high_watermark]
        return [r for r in below if r is not None and r.offset not in undecided]


class MemoryClient(Connection):
    """One process's log. Implements `log.base.Log` and `log.foreign.ForeignLog`."""

    def __init__(self, log: MemoryLog, name: str) -> None:
        super().__init__(log, name)
        self._healed = log.healed
        self._readers: list[MemoryReader] = []
        self._appenders: list[MemoryAppender] = []

    def reader(self, wake: Wake, seldom: bool = False) -> MemoryReader:
        reader = MemoryReader(self, wake)
        self._readers.append(reader)
        return reader

    def appender(self, wake: Wake) -> MemoryAppender:
        appender = MemoryAppender(self, wake)
        self._appenders.append(appender)
        return appender

    def lookup(self) -> MemoryLookup:
        return MemoryLookup(self)

    def topic_watch(self, topic: str, wake: Wake) -> MemoryTopicWatch:
        """See `log.foreign.ForeignLog`."""
        return MemoryTopicWatch(self, topic, wake)

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
        return MemoryAdmin(self, self._healed)

    def deleter(self) -> MemoryDeleter:
        return MemoryDeleter(self)

    def healed(self) -> None:
        for reader in self._readers:
            reader.healed()
        for appender in self._appenders:
            appender.healed()

    def send_again(self, feed: Feed, gone: Mapping[int, Record]) -> None:
        """Send what was not acknowledged of these records, which the log has lost."""
        for appender in self._appenders:
            appender.send_again(feed, gone)

    def die(self, later_us: int = 0) -> None:
        for reader in self._readers:
            reader.close()
        for appender in self._appenders:
            appender.die(later_us)
        self.alive = False


class MemoryDeleter:
    """Implements `log.base.Deleter`."""

    def __init__(self, client: Connection) -> None:
        self._client = client

    def delete_before(self, offsets: Mapping[Feed, int], check: Callable[[], None]) -> Mapping[Feed, str]:
        """See `log.base.Deleter`."""
        if not self._client.reaches(None):
            raise LogUnreachable(f"no broker answered {self._client.name}")
        broker, refused = self._client.log.broker, dict[Feed, str]()
        for feed, offset in offsets.items():
            check()
            partition = broker.existing(feed)
            if not self._client.reaches(feed.topic) or partition is None:
                refused[feed] = "no broker answered" if partition is not None else "there is no such topic"
            elif offset > partition.stable_end:
                refused[feed] = f"offset {offset} lies beyond the end"
            else:
                partition.delete_before(offset)
        return refused

    def close(self) -> None:
        pass


class MemoryAdmin:
    """Implements `log.base.Admin`."""

    def __init__(self, client: Connection, healed: Callable[[], None]) -> None:
        self._client = client
        self._healed = healed

    def topics(self) -> list[str]:
        return self._broker().topics()

    def partitions(self, topic: str) -> int:
        broker = self._broker()
        return len(broker.partitions(topic)) if broker.exists(topic) else 0

    def create(self, specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            self._broker().create(spec)
        self._healed()

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._broker().delete(name)

    def limit_segments(self, most_bytes: Mapping[str, int]) -> Mapping[str, str]:
        """See `log.base.Admin`."""
        broker, refused = self._broker(), dict[str, str]()
        for name, most in most_bytes.items():
            if not broker.exists(name) or broker.segment_bytes[name] <= most:
                continue
            if not self._client.reaches(name):
                refused[name] = "no broker answered"
            elif most < SEGMENT_BYTES_LEAST:
                refused[name] = f"segments of {most} bytes are too small"
            else:
                broker.segment_bytes[name] = most
        return refused

    def settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """See `log.base.Admin`."""
        broker = self._broker()
        return {name: dict(broker.settings[name]) for name in names if broker.exists(name)}

    def replication(self, names: Sequence[str]) -> Replication:
        """See `log.base.Admin`. There is one broker."""
        broker = self._broker()
        return Replication(1, {name: 1 for name in names if broker.exists(name)})

    def set(self, values: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
        """See `log.base.Admin`."""
        broker = self._broker()
        for name, some in values.items():
            if broker.exists(name):
                broker.settings[name] |= some
        return {}

    def fence(self, transactional_ids: Sequence[str]) -> None:
        for transactional_id in transactional_ids:
            self._broker().init_producer(transactional_id)

    def close(self) -> None:
        pass

    def _broker(self) -> Broker:
        if not self._client.reaches(None):
            raise LogUnreachable(f"no broker answered {self._client.name}")
        return self._client.log.broker
