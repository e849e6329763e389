"""The foreign topics of a user's world: their producers, and the ingresses that copy them, as in production."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from borealis_py.app.source_copying import plan_of
from borealis_py.app.state import AppState
from borealis_py.client.target import PublisherError, StreamEnded
from borealis_py.ingress.catch_up import BacklogFronts
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.plan import IngressPlan
from borealis_py.ingress.session import IngressSession
from borealis_py.log.base import Feed, Log, LogError, NewRecord, Record, TopicSpec
from borealis_py.query.ingress_spec import INGRESSES, IngressSpec
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.processes import Machine, Process
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.testing.loading import decoder_of
from borealis_py.testing.timed_queue import TimedQueue
from borealis_py.testing.topic_records import GivenRecord

AHEAD_MAX_US = 86_400_000_000
"""A record whose row is further ahead than this is written at once: its time is a mistake, and nobody waits for it."""
PRODUCER_TURN_US = (200, 500)
INGRESS_TURN_US = (200, 1_000)
"""How long a turn takes, apart from its rows, which take no time here."""


class TopicInput(TimedQueue[GivenRecord]):
    """What the producers of a topic are to write, and when. What has been written is in the topic, whoever fails."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False
        """No record follows."""


class ProducerProcess(Process):
    """The programs that write one topic: each record when its time has come.

    Args:
        written: called once everything has been written, and nothing follows.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        cluster: MemoryLog,
        topic: str,
        input_: TopicInput,
        written: Callable[[], None],
        rng: random.Random,
    ) -> None:
        super().__init__(scheduler, name, rng, PRODUCER_TURN_US)
        self._cluster = cluster
        self._topic = topic
        self._input = input_
        self._written = written

    def turn(self) -> int | None:
        broker = self._cluster.broker
        for at_us, record in self._input.take(self.scheduler.now_us):
            if record.partition >= broker.partition_count(self._topic):
                broker.grow(self._topic, record.partition + 1)
            stamp = at_us if record.time_us is None else record.time_us
            feed = Feed(self._topic, record.partition)
            broker.append(NewRecord(feed, record.value, record.key, stamp // 1_000, record.headers))
        if self._input.ended and self._input.next_us is None:
            self._written()
            return None
        return self._input.next_us


class IngressProcess(Process):
    """One ingress of an app, with a session for each of its foreign topics.

    Args:
        log: the app's. clusters: by name; None: the app's own.
        ended: called when a session fails. over: called when END is in the logs of all its sources.

    Raises:
        LogError: the log cannot be reached.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        index: int,
        log: Log,
        clusters: Mapping[str | None, MemoryLog],
        copied: Mapping[str, tuple[IngressPlan, TopicDecoder]],
        ended: Callable[[Process], None],
        over: Callable[[], None],
        rng: random.Random,
    ) -> None:
        super().__init__(scheduler, name, rng, INGRESS_TURN_US)
        self._clusters = clusters
        self._ended = ended
        self._over = over
        catch_up = BacklogFronts()
        self.sessions = {
            source: IngressSession(
                log, clusters[plan.spec.cluster].client(name), plan, decoder, name, index, self.wake, catch_up
            )
            for source, (plan, decoder) in copied.items()
        }

    @property
    def ready(self) -> bool:
        """Whether each topic is copied by this process, or could be."""
        return all(one.copied or (one.following and not one.owner) for one in self.sessions.values())

    def turn(self) -> int | None:
        for source, session in list(self.sessions.items()):
            try:
                session.turn(self.scheduler.now_us)
            except StreamEnded:
                session.close()
                del self.sessions[source]
            except (PublisherError, LogError):
                self._ended(self)
                return None
        if not self.sessions:
            self._over()
            return None
        return min(session.next_wakeup() for session in self.sessions.values())

    def die(self) -> None:
        for cluster in self._clusters.values():
            cluster.kill(self.name)


class SimulatedTopics:
    """All foreign topics of an app, not started yet.

    Args:
        log: the app's.
        machine: makes a machine of this name, whose processes this starts.
        rng: of a process of this name.
        end_source: lets a source end, as `borealis source end` does.
    """

    def __init__(
        self,
        state: AppState,
        log: MemoryLog,
        seed: int,
        machine: Callable[[str, Callable[[Machine, str], Process]], Machine],
        rng: Callable[[str], random.Random],
        end_source: Callable[[str], None],
    ) -> None:
        self._state = state
        self._log = log
        self._rng = rng
        self._end_source = end_source
        ingresses = state.spec.ingresses
        self._clusters: dict[str | None, MemoryLog] = {None: log}
        for one in ingresses.values():
            if one.cluster not in self._clusters:
                self._clusters[one.cluster] = MemoryLog(log.scheduler, seed)
        self._copied = {source: (plan_of(state, source), decoder_of(state.spec, source)) for source in ingresses}
        places = {source: (one.cluster, one.topic) for source, one in ingresses.items()}
        self._readers = {place: [s for s, other in places.items() if other == place] for place in places.values()}
        """The sources that have the topic."""
        by_place = {place: TopicInput() for place in self._readers}
        self.inputs = {source: by_place[place] for source, place in places.items()}
        """By source; two of one topic have one."""
        machines = {}
        for place, sources in self._readers.items():
            first = ingresses[sources[0]]
            count_ = max(1 if ingresses[s].by is not None else ingresses[s].inputs for s in sources)
            self._clusters[first.cluster].client("admin").admin().create([TopicSpec(first.topic, count_)])
            machines[place] = machine(f"{sources[0]} producers", partial(self._producer, first, sources))
        self.producers = {source: machines[place] for source, place in places.items()}
        numbers = range(INGRESSES if ingresses else 0)
        self.ingresses = {f"ingress-{k}": machine(f"ingress-{k}", partial(self._ingress, k)) for k in numbers}

    def send(self, source: str, records: Sequence[GivenRecord], now_us: int) -> None:
        """Let producers write records, each at its own time, or now if that has passed or it has none."""
        input_ = self.inputs[source]
        for record, own_us in zip(records, self._own_times(source, records), strict=True):
            at_us = own_us if record.time_us is None else record.time_us
            input_.add(record, max(now_us, at_us if at_us < now_us + AHEAD_MAX_US else now_us))
        self._wake(source)

    def end(self) -> None:
        """Let all sources end after their last record."""
        for source, input_ in self.inputs.items():
            input_.ended = True
            self._wake(source)

    def lose(self, source: str) -> None:
        """Nobody can read the topic, until `find`."""
        cluster, feeds = self._feeds(source)
        for feed in feeds:
            cluster.depose_partition(feed)

    def find(self, source: str) -> None:
        """The topic can be read again."""
        cluster, feeds = self._feeds(source)
        for feed in feeds:
            cluster.elect_partition(feed)

    @property
    def machines(self) -> dict[str, Machine]:
        """All of them, by the names of their processes."""
        return {**self.producers, **self.ingresses}

    def _feeds(self, source: str) -> tuple[MemoryLog, list[Feed]]:
        spec = self._state.spec.ingresses[source]
        cluster = self._clusters[spec.cluster]
        return cluster, [Feed(spec.topic, p) for p in range(cluster.broker.partition_count(spec.topic))]

    def _wake(self, source: str) -> None:
        for process in self.producers[source].processes:
            process.wake()

    def _own_times(self, source: str, records: Sequence[GivenRecord]) -> list[int]:
        """The stime of each row or heartbeat by a column of its own; 0: it has none."""
        times = [0] * len(records)
        topic = self._state.spec.ingresses[source]
        if topic.stime is None:
            return times
        given = [Record(Feed(topic.topic), n, 0, None, record.value) for n, record in enumerate(records)]
        decoded = decoder_of(self._state.spec, source, heartbeats=False).decode(given)
        for at, stime in zip(decoded.at.tolist(), decoded.stimes.tolist(), strict=True):
            times[at] = stime
        return times

    def _producer(self, topic: IngressSpec, sources: Sequence[str], machine: Machine, name: str) -> Process:
        def written() -> None:
            for source in sources:
                self._end_source(source)
            machine.give_up("everything has been written")

        input_, cluster = self.inputs[sources[0]], self._clusters[topic.cluster]
        return ProducerProcess(self._log.scheduler, name, cluster, topic.topic, input_, written, self._rng(name))

    def _ingress(self, index: int, machine: Machine, name: str) -> Process:
        over = partial(machine.give_up, "its sources have ended")
        client, rng = self._log.client(name), self._rng(name)
        return IngressProcess(
            self._log.scheduler, name, index, client, self._clusters, self._copied, machine.ended, over, rng
        )
