"""A user's app on the simulated log: production replicas with the real kernel, publishers, ingresses, live subscribers.

It is passive: `testing.world` lets time pass and makes things fail. Replicas of one node share one kernel, since what
it remembers is in the state that it is given; a redo takes the simulated time of one without Spark.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from borealis_py.engine import compile_query
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.log.kernel import Kernel
from borealis_py.log.messages import EndOfSource, encode
from borealis_py.node.peers import Peers
from borealis_py.node.recovery_setting import increments_of, paced
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.standby import StoodBy
from borealis_py.observe.live_view import open_partition
from borealis_py.protocol.states import ReplicaState
from borealis_py.query.names import base_name
from borealis_py.query.partitions import parts_of
from borealis_py.query.spec import AppSpec
from borealis_py.runtime.specs import replica_spec
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.checkpoints import Disk, MemoryCheckpoints, MemoryPlace
from borealis_py.simulation.cluster.processes import LocalClock, Machine, Process
from borealis_py.simulation.cluster.roles import ClientProcess, ReplicaParts, ReplicaProcess, StandbyProcess
from borealis_py.simulation.cluster.storage import SimRedos, Spark
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.testing.loading import described, target_of
from borealis_py.testing.simulated_topics import IngressProcess, SimulatedTopics
from borealis_py.testing.source_process import SourceInput, SourceProcess
from borealis_py.testing.views import LiveLog
from reconcile.replay_context import ReplayContext
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.view import Change

NOWHERE = Path("/nonexistent")
"""Simulated replicas have no files."""
TURN_US = (200, 1_000)
"""How long a replica's turn takes, apart from its rows, which take no time here."""


class SimulatedApp:
    """One app with all its processes, not started yet.

    Args:
        seed: of every choice of the world: how long messages and turns take.
        lateness_us: of every publisher.

    Raises:
        QueryError: a query that does not compile.
    """

    def __init__(self, spec: AppSpec, seed: int, start_us: int, lateness_us: int) -> None:
        self.scheduler = Scheduler(start_us)
        self.log = MemoryLog(self.scheduler, seed)
        self.buckets = Buckets(spec.bucket_us)
        self._seed = seed
        self._lateness_us = lateness_us
        self.kernels: dict[str, Kernel] = {}
        waits_us = max((one.lateness_us for one in spec.ingresses.values()), default=0)
        self.state = described(spec, self.log, self.buckets.of(start_us - waits_us))  # as `up` begins (`app.origin`)
        self._compile()
        runs = self.state.runs
        published = [source for source in runs.sources if base_name(source) not in spec.ingresses]
        self.inputs = {source: SourceInput() for source in published}
        self.sources = {source: self._machine(source, partial(self._source, source)) for source in published}
        self.topics = SimulatedTopics(self.state, self.log, seed, self._machine, self._rng, self._end_source)
        self._disks = {node: {k: Disk() for k in range(of.replicas)} for node, of in runs.all_nodes.items()}
        self.replicas = {
            f"{node}.r{k}": self._machine(f"{node}.r{k}", partial(self._replica, node, k))
            for node, k in self.state.replicas()
        }
        self.live = {query: LiveLog(spec, query, self._codec(query), self._end_us) for query in spec.queries}

    def _compile(self) -> None:
        runs, row_max = self.state.runs, self.state.timing.row_max_bytes
        try:
            for node in runs.all_nodes:
                self.kernels[node] = compile_query(runs, node, row_max, code=CodeInPlace())
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start every process."""
        for machine in (*self.sources.values(), *self.topics.machines.values(), *self.replicas.values()):
            machine.start_process()
        for query in self.state.spec.queries:
            for number, part in enumerate(parts_of(self.state.spec, query)):
                self._subscriber(query, part, number).wake()

    @property
    def unready(self) -> list[str]:
        """Names of processes that do not work yet."""
        waiting = [name for name, machine in self.replicas.items() if not _at_work(machine.current)]
        writers = {**self.sources, **self.topics.ingresses}
        return waiting + [name for name, machine in writers.items() if not _at_work(machine.current)]

    def ended(self, source: str) -> bool:
        """Whether no row of a source follows those that it has got."""
        return self.topics.inputs[source].ended if source in self.topics.inputs else self.inputs[source].ended

    @property
    def last_us(self) -> int:
        """When the last row is sent; 0: none is left."""
        published = [one.last_us for one in self.inputs.values()]
        return max([*published, *(one.last_us for one in self.topics.inputs.values())], default=0)

    def put_setting(self, key: str, value: msgspec.Struct) -> None:
        """Append a record to the settings topic, as a command would."""
        self.log.broker.append(NewRecord(Feed(topics.settings(self.state.name)), encode(value), key.encode()))

    def close(self) -> None:
        """Release the engines' memory."""
        for kernel in self.kernels.values():
            kernel.close()

    def _end_source(self, source: str) -> None:
        self.put_setting(f"end/{source}", EndOfSource(self.state.app_uid))

    def _codec(self, query: str) -> Kernel:
        return self.kernels[parts_of(self.state.spec, query)[0]]

    def _end_us(self, bucket: int) -> int | None:
        return None if bucket >= self.buckets.last - 1 else self.buckets.end(bucket)

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self._seed} {name}")

    # Processes --------------------------------------------------------------------------------------------------------

    def _machine(self, label: str, start: Callable[[Machine, str], Process]) -> Machine:
        """A machine whose process is tried again when it cannot start."""

        def started(name: str) -> Process | None:
            try:
                process = start(machine, name)
            except LogError:
                return None
            except RetentionLost as exc:
                machine.give_up(str(exc))
                return None
            process.wake()
            return process

        machine = Machine(label, self.log, started, _unchanged)
        return machine

    def _source(self, source: str, machine: Machine, name: str) -> Process:
        target, log = target_of(self.state, source), self.log.client(name)
        return SourceProcess(
            self.scheduler,
            name,
            log,
            target,
            self.state.schema(source),
            self.inputs[source],
            self._lateness_us,
            machine.ended,
            partial(machine.give_up, "its source has ended"),
            self._rng(name),
        )

    def _replica(self, node: str, index: int, machine: Machine, name: str) -> Process:
        """A replica, or a standby that does not compute and becomes one (R17.10)."""
        spec = self._spec(node, index, name)
        if not spec.recovery.idles:
            return self._running(spec, machine, name)
        rng = self._rng(name)
        took_over = partial(self._take_over, machine)
        return StandbyProcess(
            self.scheduler, name, spec, self._clock(rng), machine.ended, took_over, lambda: None, rng, TURN_US
        )

    def _take_over(self, machine: Machine, standby: StandbyProcess) -> None:
        """The same process goes on as a replica."""
        spec = self._spec(standby.node, standby.index, standby.name)
        try:
            process = self._running(spec, machine, standby.name, standby.standby.stood_by())
        except LogError:
            machine.ended(standby)
            return
        except RetentionLost as exc:
            machine.give_up(str(exc))
            machine.ended(standby)
            return
        process.wake()
        machine.replace(standby, process)

    def _spec(self, node: str, index: int, name: str) -> ReplicaSpec:
        spec = replica_spec(self.state, node, index, self.log.client(name), NOWHERE)
        return replace(spec, trimming=None, timing=paced(spec.timing, spec.recovery))  # no world is so long as to trim

    def _clock(self, rng: random.Random) -> LocalClock:
        return LocalClock(self.scheduler, rng.randrange(10_000_000_000))

    def _running(self, spec: ReplicaSpec, machine: Machine, name: str, stood_by: StoodBy | None = None) -> Process:
        client, node, index = self.log.client(name), spec.node, spec.replica
        rng, kernel = self._rng(name), self.kernels[node]
        feeds = tuple(spec.feeds(i) for i in range(len(spec.inputs)))
        how = spec.bucket_us, spec.timing.ahead_max_us, spec.app_uid
        worker = self.log.client(f"redo.{node}.r{index}")
        work = ReplayContext(node, lambda: kernel, worker, spec.inputs, feeds, *how)
        redos = SimRedos(work.open(), client, Spark(), rng, on_spark=False)
        place, most = MemoryPlace(self._disks[node], node, index), increments_of(spec.recovery)
        store = MemoryCheckpoints(place, spec.query_hash, kernel, most, self.scheduler, rng, _unchanged)
        redos.peers = Peers(spec, store, kernel)
        parts = ReplicaParts(spec, self._clock(rng), kernel, redos, store)
        return ReplicaProcess(self.scheduler, name, parts, machine.ended, _unchanged, rng, TURN_US, stood_by=stood_by)

    def _subscriber(self, query: str, part: str, number: int) -> Process:
        name = f"subscriber.{part}"
        client, live = self.log.client(name), self.live[query]

        def changed(changes: Sequence[Change]) -> None:
            live.add(self.scheduler.now_us, number, changes)

        return ClientProcess(
            self.scheduler,
            name,
            lambda clock, wake: open_partition(client, self.state, query, part, True, wake, clock),
            changed,
            _ended,
            self._rng(name),
        )


def _at_work(process: Process | None) -> bool:
    if isinstance(process, SourceProcess):
        return process.session.ready
    if isinstance(process, IngressProcess):
        return process.ready
    if isinstance(process, StandbyProcess):
        return process.standby.state.control.roles.runner is not None
    return isinstance(process, ReplicaProcess) and process.replica.manager.state is not ReplicaState.RECOVERING


def _ended(why: str) -> None:
    raise RuntimeError(f"a live subscriber has ended: {why}")


def _unchanged(*_: object) -> None:
    """Nobody watches every step of a machine here."""
