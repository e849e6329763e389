"""Builds a simulated world from product and simulated parts, as a host does in production."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from borealis_py.client.subscriber import LiveSubscription
from borealis_py.client.target import Target
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, TopicSpec, Wake
from borealis_py.log.clock import Clock
from borealis_py.log.description import APP_KEY
from borealis_py.log.messages import Description, encode
from borealis_py.log.record_size import needed_bytes
from borealis_py.node.delays import wait_us
from borealis_py.node.peers import Peers
from borealis_py.node.recovery_setting import in_force, increments_of
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.standby import StoodBy
from borealis_py.protocol.settings import Delays
from borealis_py.query.spec import Partitioning, Serves
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.checkpoints import Disk, MemoryCheckpoints, MemoryPlace
from borealis_py.simulation.cluster.driver import SimDriver, SimExecutor
from borealis_py.simulation.cluster.kept_in_topics import Keeper, TopicPlace
from borealis_py.simulation.cluster.processes import LocalClock
from borealis_py.simulation.cluster.recorder import HeardRedos, Recorder, Recording, RecordingLog
from borealis_py.simulation.cluster.roles import (
    ClientProcess,
    Ended,
    PublisherInput,
    PublisherProcess,
    ReplicaParts,
    ReplicaProcess,
    StandbyProcess,
)
from borealis_py.simulation.cluster.storage import FlakyEngine, SimRedos, Spark
from borealis_py.simulation.cluster.trimming import Deleted, TrimmingHost, trimming_of
from borealis_py.simulation.log.client import MemoryClient, MemoryLog
from borealis_py.simulation.scenario import Scenario, SimulatedNode
from borealis_py.simulation.toy_query import QUERY, ToyKernel
from reconcile.redo_client import RemoteRedo
from reconcile.replay_context import ReplayContext
from sunion import model
from sunion.bucket import Buckets
from sunion.view import Change

APP = "sim"
APP_UIDS = ("first", "second", "third", "fourth")
"""Names of the lives of a world; later ones are numbered."""
OF_A_LIFE = 10**9
"""Distance between the seeds of the inputs of successive lives."""
NOWHERE = Path("/nonexistent")
"""Simulated replicas have no files."""


class Builder:
    """Creates the processes of one scenario. `start_us`: when its time begins. `prefix`: of its processes' names.
    `life`: number of earlier lives of the app. `over`: the app has been begun anew since.
    """

    def __init__(self, scenario: Scenario, scheduler: Scheduler, log: MemoryLog, app: str = APP, life: int = 0) -> None:
        self.app = app
        self.life = life
        self.over = False
        self.prefix = f"{app}:" if app != APP else f"{life + 1}:" if life else ""
        self.scenario = scenario
        self.scheduler = scheduler
        self.log = log
        self.app_uid = APP_UIDS[life] if life < len(APP_UIDS) else f"life {life + 1}"
        self.buckets = Buckets(scenario.width_us)
        self.start_us = scheduler.now_us
        self.origin = self.buckets.of(self.start_us)
        self.plans: Mapping[str, SimulatedNode] = {plan.name: plan for plan in scenario.nodes}
        self.disks = {plan.name: {k: Disk() for k in range(plan.replicas)} for plan in scenario.nodes}
        self.sparks = {plan.name: [Spark() for _ in range(plan.replicas)] for plan in scenario.nodes}
        self.engines = {plan.name: [FlakyEngine() for _ in range(plan.replicas)] for plan in scenario.nodes}
        self.trimming = trimming_of(scenario)
        self.deleted = Deleted()
        self.retention_errors: list[str] = []
        """Which replicas have met a log without what they needed, and what they said of it."""
        self.redos: list[SimRedos] = []
        self.heard: list[Recording] = []
        """For every process that was a replica, what it has read and written."""
        self._drivers: dict[tuple[str, int], SimDriver] = {}
        self.disagreements: list[str] = []
        """Why jobs that were sent to drivers found that the log disagrees with what a replica had read."""
        self._standing: dict[str, Recorder] = {}
        """What standbys have read, by the name of their process."""
        self.overloads: list[tuple[int, int]] = []
        """(when, how long) of the turns that ran a bucket of more rows than the rate explains."""
        self.items = [
            PublisherInput(
                scenario.seed + OF_A_LIFE * life,
                i,
                self.start_us,
                scenario.rate,
                self._bursts(i),
                scenario.bad,
                scenario.lateness_us,
                i in scenario.by_data,
            )
            for i in range(scenario.sources)
        ]

    def _bursts(self, source: int) -> list[tuple[int, int]]:
        found = [f for f in self.scenario.faults if f.kind == "burst" and f.index % self.scenario.sources == source]
        return [(self.start_us + f.at_us, self.start_us + f.until_us) for f in found]

    @property
    def specs(self) -> list[TopicSpec]:
        """All topics."""
        s = self.scenario
        cut = {plan.name: plan.replicas for plan in s.nodes if plan.name != QUERY}
        exchanges = {plan.name: plan.exchange for plan in s.nodes}
        specs = topics.of_app(self.app, list(s.source_names), {QUERY: self.plans[QUERY].replicas}, cut, exchanges)
        if not s.by_topics:
            return specs
        replicas = {plan.name: plan.replicas for plan in s.nodes}
        files = [
            TopicSpec(topics.kept_files(self.app, f"{name}.r{k}"), config=topics.KEPT_FILES)
            for name, count in replicas.items()
            for k in range(count)
        ]
        return [*specs, *topics.of_redos(self.app, replicas), *files]

    def make_topics(self) -> None:
        """Create the topics and the description."""
        self.log.client("up").admin().create(self.specs)
        for spec in self.specs:
            self.log.broker.settings[spec.name]["max.message.bytes"] = str(needed_bytes(0, 1))
        description = Description("{}", "hash", self.origin, "", self.app_uid)
        self.log.broker.append(NewRecord(Feed(topics.settings(self.app)), encode(description), APP_KEY.encode()))

    # Shape ------------------------------------------------------------------------------------------------------------

    @cached_property
    def positions(self) -> dict[str, int]:
        """Position of each node in its longest chain, from 1."""
        return self.scenario.positions

    @cached_property
    def hops(self) -> dict[str, int]:
        """Length of the longest way from each node to the query's result."""
        found = {QUERY: 0}
        for plan in reversed(self.scenario.nodes):
            for name in plan.inputs:
                if name in self.plans:
                    found[name] = max(found.get(name, 0), found[plan.name] + 1)
        return found

    @cached_property
    def origins(self) -> dict[str, tuple[str, ...]]:
        """The sources that each node's rows come from."""
        found: dict[str, tuple[str, ...]] = {name: (name,) for name in self.scenario.source_names}
        for plan in self.scenario.nodes:
            found[plan.name] = tuple(sorted({source for name in plan.inputs for source in found[name]}))
        return found

    @property
    def depth(self) -> int:
        return self.positions[QUERY]

    def serves(self, node: str) -> tuple[Serves, ...]:
        return (Serves(query=QUERY, hops=self.hops[node], depth=self.depth),)

    def inputs(self, node: str) -> tuple[model.Input, ...]:
        return tuple(
            model.Input(
                name, self.plans[name].replicas, self.origins[name], partition=self.scenario.partition(node, name)
            )
            if name in self.plans
            else model.Input(name, 0, (name,), dead_letters=self.teller(name) == node)
            for name in self.plans[node].inputs
        )

    def teller(self, source: str) -> str:
        """The node that publishes a source's dead letters: the first that reads it."""
        return next(plan.name for plan in self.scenario.nodes if source in plan.inputs)

    def spec(self, node: str, replica: int) -> ReplicaSpec:
        s = self.scenario
        partition = [plan.name for plan in s.nodes].index(node)
        exchange = s.nodes[partition].exchange
        delays: Mapping[str, Delays] = {QUERY: s.delays}
        return ReplicaSpec(
            app=self.app,
            app_uid=self.app_uid,
            node=node,
            replica=replica,
            inputs=self.inputs(node),
            bucket_us=s.width_us,
            origin=self.origin,
            partition=partition,
            query_hash=f"hash@{self.app_uid}",
            app_json="{}",
            delays=delays,
            log=self.log.client("nobody"),
            data_dir=NOWHERE,
            timing=s.timing,
            serves=self.serves(node),
            position=self.positions[node],
            corrected=node == QUERY,
            exchange=None if exchange == 1 else Partitioning(by=("value",), count=exchange),
            replicas=self.plans[node].replicas,
            host=APP,
            trimming=self.trimming,
            recovery=self.plans[node].recovery,
            gap=s.may_lose(node),
        )

    def as_set(self, node: str, replica: int, name: str) -> ReplicaSpec:
        """The same with the way of recovery that the process `name` finds set. Raises LogError."""
        spec = self.spec(node, replica)
        if not any(fault.kind == "recovery" for fault in self.scenario.faults):
            return spec
        with closing(self.log.client(name).lookup()) as lookup:
            return replace(spec, recovery=in_force(spec, lookup))

    def source_feed(self, index: int) -> Feed:
        return topics.source(self.app, self.scenario.source_names[index])

    # Processes --------------------------------------------------------------------------------------------------------

    def _kernel(self, node: str, fails: Callable[[], bool] = lambda: False) -> ToyKernel:
        s, plan = self.scenario, self.plans[node]
        return ToyKernel(s.width_us, s.span, node, s.part_rows, fails, s.picks(plan), plan.parts)

    def work(self, node: str, client: MemoryClient) -> ReplayContext:
        """What replays of a node read, by this client."""
        s, inputs = self.scenario, self.inputs(node)
        feeds = tuple(self.spec(node, 0).feeds(i) for i in range(len(inputs)))
        how = s.width_us, s.timing.ahead_max_us, self.app_uid
        return ReplayContext(node, lambda: self._kernel(node), client, inputs, feeds, *how)

    def target(self, index: int) -> Target:
        """What a publisher of this source writes to."""
        s = self.scenario
        how = s.width_us, self.origin
        return Target(self.app, self.app_uid, s.source_names[index], *how, ahead_max_us=s.timing.ahead_max_us)

    def publisher(
        self, index: int, name: str, clock: LocalClock, take_over: bool, ended: Ended, changed: Callable[[], None]
    ) -> PublisherProcess:
        """Raises LogError."""
        s, target = self.scenario, self.target(index)
        rng = random.Random(f"{s.seed} {name}")
        client = self.log.client(name)
        items = self.items[index]
        return PublisherProcess(self.scheduler, name, client, target, items, ended, changed, take_over, clock, rng)

    def replica(
        self,
        spec: ReplicaSpec,
        name: str,
        skew_us: int,
        ended: Ended,
        after: Callable[[ReplicaProcess], None],
        writing: Callable[[], object],
        stood_by: StoodBy | None = None,
        moves: bool = False,
    ) -> ReplicaProcess:
        """Raises LogError, RetentionLost."""
        s, node, index = self.scenario, spec.node, spec.replica
        rng = random.Random(f"{s.seed} {name}")
        client = self.log.client(name)
        ear = Recorder(self.scheduler, node, index, name, (spec.settings_feed, spec.control_feed))
        host = (
            None if self.trimming is None else TrimmingHost(self.scheduler, client, self.trimming, self.deleted, s.seed)
        )
        aside = {} if host is None else {topics.acks(self.app): host.append}
        spec = replace(spec, log=RecordingLog(client, ear, aside))
        if stood_by is not None:
            ear.heard.opened[spec.control_feed] = self._standing[name].read(spec.control_feed, stood_by.control_at)
        kernel = self._kernel(node, partial(self.engines[node][index].fails, rng))
        redos, store = self._redos(spec, client, kernel, ear, rng), self._store(spec, client, kernel, ear, rng, writing)
        redos.peers = Peers(spec, store, kernel)
        clock = LocalClock(self.scheduler, rng.randrange(10_000_000_000), skew_us)
        self.log.client(name).wall_us = clock.wall_us
        if s.by_topics and s.spark:
            address, within_s = self._driver(node, index).address(name), s.timing.redo_deadline_us / 1e6
            redos.remote = RemoteRedo(client, address, kernel, lambda: redos.wake(), clock, within_s)
        parts = ReplicaParts(spec, clock, kernel, redos, store)
        turned, busy_us = partial(_record_turn, ear, after), self._busy(kernel)
        process = ReplicaProcess(self.scheduler, name, parts, ended, turned, rng, s.turn_us, busy_us, stood_by, moves)
        if host is not None:
            host.start(process)
        _describe(ear.heard, process, stood_by is not None, moves)
        self.heard.append(ear.heard)
        self.redos.append(redos)
        return process

    def _redos(
        self, spec: ReplicaSpec, client: MemoryClient, kernel: ToyKernel, ear: Recorder, rng: random.Random
    ) -> HeardRedos:
        node, index = spec.node, spec.replica
        work = self.work(node, self.log.client(f"{self.prefix}spark.{node}.{index}"))
        redos = HeardRedos(work.open(), client, self.sparks[node][index], rng, ear, self.scenario.spark)
        redos.rows_us = self.scenario.rows_us
        return redos

    def _store(
        self,
        spec: ReplicaSpec,
        client: MemoryClient,
        kernel: ToyKernel,
        ear: Recorder,
        rng: random.Random,
        writing: Callable[[], object],
    ) -> MemoryCheckpoints:
        """A replica's checkpoints, in topics or on its disk."""
        disks, most = self.disks[spec.node], increments_of(spec.recovery)
        place = (
            TopicPlace(disks, spec.node, spec.replica, Keeper(self.log, client, self.app))
            if self.scenario.by_topics
            else MemoryPlace(disks, spec.node, spec.replica)
        )
        return MemoryCheckpoints(place, spec.query_hash, kernel, most, self.scheduler, rng, writing, ear.saves)

    def _busy(self, kernel: ToyKernel) -> Callable[[], int]:
        """How long the work of each turn takes, by the rows that the kernel ran in it. Enters overloads."""
        ran, turn_rows = 0, self.scenario.turn_rows

        def busy_us() -> int:
            nonlocal ran
            before, ran = ran, kernel.ran
            us, largest, kernel.largest = self.scenario.rows_us(ran - before), kernel.largest, 0
            if largest > turn_rows:
                self.overloads.append((self.scheduler.now_us, us))
            return us

        return busy_us

    def _driver(self, node: str, index: int) -> SimDriver:
        """The driver of a replica index, which outlives its processes."""
        found = self._drivers.get((node, index))
        if found is None:
            name, rng = (
                f"{self.prefix}driver.{node}.{index}",
                random.Random(f"{self.scenario.seed} driver {node} {index}"),
            )
            executor = SimExecutor(
                self.work(node, self.log.client(f"{self.prefix}spark.{node}.{index}")).open(),
                self.sparks[node][index],
                self.scheduler,
                rng,
                self.scenario.rows_us,
                self.disagreements,
            )
            feeds = topics.redo_feeds(self.app, node, index)
            clock = LocalClock(self.scheduler, rng.randrange(10_000_000_000))
            found = self._drivers[node, index] = SimDriver(self.log.client(name), clock, executor, node, *feeds)
        return found

    def standby(
        self,
        spec: ReplicaSpec,
        name: str,
        skew_us: int,
        ended: Ended,
        took_over: Callable[[StandbyProcess], None],
        begins: Callable[[], object],
    ) -> StandbyProcess:
        """Raises LogError."""
        s, rng = self.scenario, random.Random(f"{self.scenario.seed} {name}")
        clock = LocalClock(self.scheduler, rng.randrange(10_000_000_000), skew_us)
        ear = self._standing[name] = Recorder(self.scheduler, spec.node, spec.replica, name, (spec.control_feed,))
        spec = replace(spec, log=RecordingLog(self.log.client(name), ear, {}))
        return StandbyProcess(self.scheduler, name, spec, clock, ended, took_over, begins, rng, s.turn_us, s.starts_us)

    def client(
        self, name: str, start: int, changed: Callable[[Sequence[Change]], None], lost: Callable[[str], None]
    ) -> ClientProcess:
        s = self.scenario
        client_wait_us = wait_us(s.timing, Serves(query=QUERY, depth=self.depth), s.delays.threshold_us)

        def opened(clock: Clock, wake: Wake) -> LiveSubscription:
            return LiveSubscription(
                log=self.log.client(name),
                clock=clock,
                app=self.app,
                app_uid=self.app_uid,
                query=QUERY,
                replicas=self.plans[QUERY].replicas,
                buckets=self.buckets,
                start=start,
                wait_us=client_wait_us,
                schema=ToyKernel.schema_id,
                wake=wake,
            )

        return ClientProcess(self.scheduler, name, opened, changed, lost, random.Random(f"{s.seed} {name}"))


def _record_turn(ear: Recorder, after: Callable[[ReplicaProcess], None], process: ReplicaProcess) -> None:
    """A replica's turn has run."""
    losing, heard = process.replica.manager.losing, ear.heard
    if heard.placed is None and losing.placed:
        heard.placed = len(heard.turns) - 1
    if heard.arrived is None and not losing.arriving:
        heard.arrived = len(heard.turns) - 1
    ear.end()
    after(process)


def _describe(heard: Recording, process: ReplicaProcess, stood_by: bool, moves: bool) -> None:
    """Enter how a replica begins."""
    manager, way = process.replica.manager, process.way
    heard.bucket, heard.says_from = manager.f_s, manager.output.stable
    heard.computes_unheard = moves or (way.stands_by and not way.idles)
    heard.all_run = not way.stands_by
    heard.stood_by, heard.arrives = stood_by, manager.losing.arriving
