"""One simulated world: a query with its sources, replicas, client and log, driven through a scenario.

Everything in it but the faults, the host's loop and the toy query is production code. It is deterministic: the same
scenario gives the same history (`digest`).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from borealis_py.client.claim import Target
from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.log.corrected import read_progress
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.publishing import Phase
from borealis_py.protocol.states import ReplicaState
from borealis_py.sim import faults, oracles
from borealis_py.sim.actors import Process, Seat
from borealis_py.sim.clock import Scheduler
from borealis_py.sim.kernel import QUERY, ToyKernel
from borealis_py.sim.log import MemoryLog
from borealis_py.sim.oracles import Clean, ClientPicture, Violation, Watch
from borealis_py.sim.people import NOWHERE, ClientProcess, Input, PublisherProcess, ReplicaProcess
from borealis_py.sim.scenario import SECOND, START_US, Scenario
from borealis_py.sim.stores import Disk, MemoryCheckpoints, SimRedos
from borealis_py.sim.transactor import Outcome
from borealis_py.sim.truth import SourceTruth, compute, read_source
from reconcile.work import Work
from sunion.bucket import Buckets
from sunion.model import FOREVER
from sunion.view import Change

APP = "sim"
LOOK_US = 50_000
SKEW_US = 10_000
"""How far a publisher's clock may be off."""
HEAL_MAX_US = 15 * SECOND
CALM_US = 1_500_000
"""How long a healed world must stay as it should be."""
LAG_US = 700_000
"""Stable results this far behind the clock are current: a bucket, the ways, and progress without rows."""


class World:
    """One world. `run` raises `Violation` when an oracle fails."""

    def __init__(self, scenario: Scenario, keep_trace: bool = False) -> None:
        self.scenario = scenario
        self.start_us = START_US
        self.scheduler = Scheduler(START_US)
        self.buckets = Buckets(scenario.width_us)
        self.origin = self.buckets.of(START_US)
        self.rng = random.Random(f"world {scenario.seed}")
        self.log = MemoryLog(
            self.scheduler,
            seed=scenario.seed,
            delays=scenario.latencies,
            outcomes=lambda rng, _: self._outcome(rng),
            poll_records_max=scenario.poll_records_max,
        )
        self.commits_unknown = 0
        self.failed = [0] * scenario.sources
        self.take_over: set[int] = set()
        self.redo_modes: list[list[str]] = [[] for _ in range(scenario.replicas)]
        self.disks = [Disk() for _ in range(scenario.replicas)]
        self.lines: list[str] | None = [] if keep_trace else None
        self.healed_us: int | None = None
        self.asked = self.worst_us = 0
        self.watch = Watch(scenario.timing.buffer_rows_max + scenario.rate * scenario.sources * 16 + 100, 800)
        self.picture = ClientPicture(self.origin)
        self.progress_seen: list[tuple[int, int]] = []
        self._troubled_until = START_US
        self._names = tuple(f"s{i}" for i in range(scenario.sources))
        self._inputs = [Input(scenario.seed, i, START_US, scenario.rate) for i in range(scenario.sources)]
        self._skews = [self.rng.randrange(-SKEW_US, SKEW_US) for _ in range(scenario.sources)]
        self._source_clean = [Clean() for _ in range(scenario.sources)]
        self._paths = [[Clean() for _ in range(scenario.sources)] for _ in range(scenario.replicas)]
        self._readable = [[Clean() for _ in range(scenario.sources)] for _ in range(scenario.replicas)]
        self._appended: list[list[int]] = [[] for _ in range(scenario.sources)]
        self._redos: list[SimRedos] = []
        self._last_state: dict[str, tuple[object, ...]] = {}
        self._make_topics()
        self.sources = [
            Seat(f"p{i}", self.log, partial(self._start_publisher, i), self.look) for i in range(scenario.sources)
        ]
        self.replicas = [
            Seat(f"r{k}", self.log, partial(self._start_replica, k), self.look) for k in range(scenario.replicas)
        ]

    # Making it --------------------------------------------------------------------------------------------------------

    def _make_topics(self) -> None:
        specs = topics.of_app(APP, list(self._names), {QUERY: self.scenario.replicas})
        self.log.client("up").admin().create(specs)
        self._progress_feed = Feed(topics.progress(APP, QUERY))
        self._corrected_feed = Feed(topics.stream(APP, QUERY))
        self.log.broker.partition(self._progress_feed).watchers[self._see_progress] = None
        for name, appended in zip(self._names, self._appended, strict=True):
            partition = self.log.broker.partition(Feed(topics.stream(APP, name)))
            partition.watchers[partial(self._see_append, appended)] = None

    def spec(self, replica: int) -> ReplicaSpec:
        s = self.scenario
        log = self.log.client("nobody")
        return ReplicaSpec(
            APP, QUERY, replica, self._names, s.width_us, self.origin, 0, "hash", "{}", s.delays, log, NOWHERE, s.timing
        )

    def _kernel(self) -> ToyKernel:
        return ToyKernel(self.scenario.width_us, self.scenario.span)

    def _start_publisher(self, index: int, name: str) -> Process | None:
        s = self.scenario
        seat = self.sources[index]
        target = Target(APP, self._names[index], s.width_us, self.origin, s.timing.ahead_max_us)
        rng = random.Random(f"{s.seed} {name}")
        take_over = index in self.take_over
        try:
            process = PublisherProcess(
                self.scheduler,
                name,
                self.log.client(name),
                target,
                self._inputs[index],
                seat.ended,
                take_over,
                self._skews[index],
                rng,
            )
        except LogError:
            return None
        process.wake()
        return process

    def _start_replica(self, index: int, name: str) -> Process | None:
        s = self.scenario
        rng = random.Random(f"{s.seed} {name}")
        spec = self.spec(index)
        client = self.log.client(name)
        kernel = self._kernel()
        work = Work(
            QUERY,
            self._kernel,
            self.log.client(f"spark{index}"),
            self._names,
            tuple(spec.source_feed(i) for i in range(s.sources)),
            s.width_us,
            s.timing.ahead_max_us,
        )
        modes = self.redo_modes[index]
        redos = SimRedos(work.open(), self.scheduler, rng, lambda: modes[-1] if modes else "ok", _asleep)
        store = MemoryCheckpoints(self.disks[index], kernel, self.scheduler, rng)
        try:
            process = ReplicaProcess(
                self.scheduler,
                name,
                replace(spec, log=client),
                kernel,
                redos,
                store,
                self.replicas[index].ended,
                self._after_turn,
                rng,
                s.turn_us,
            )
        except LogError:
            return None
        self._redos.append(redos)
        process.wake()
        return process

    def put_setting(self, key: str, value: bytes) -> None:
        """A record in the settings topic, as a command would write it."""
        self.log.broker.append(NewRecord(Feed(topics.settings(APP)), value, key.encode()))

    def _outcome(self, rng: random.Random) -> Outcome:
        if self.commits_unknown and rng.random() < 0.4:
            return rng.choice((Outcome.UNTOLD, Outcome.LATER, Outcome.LOST))
        return Outcome.COMMITTED

    # Running it -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live through the scenario, heal, converge, and be judged."""
        for seat in (*self.sources, *self.replicas):
            seat.start()
        self.client = self._client("client", self.origin, self._client_changed)
        self.client.wake()
        self.scheduler.at(self.start_us + self.scenario.heal_us // 2, self._start_latecomer)
        for fault in self.scenario.faults:
            faults.arm(self, fault)
        self._looking()
        self.scheduler.run_until(self.start_us + self.scenario.heal_us + 1)
        self._converge()
        if self.scenario.ends:
            self._end()
        self._judge()

    def _client(self, name: str, start: int, changed: Callable[[Sequence[Change]], None]) -> ClientProcess:
        rng = random.Random(f"{self.scenario.seed} {name}")
        return ClientProcess(self.scheduler, self.log.client(name), self.scenario, APP, QUERY, start, changed, rng)

    def _start_latecomer(self) -> None:
        """A second client, which wants to see the stream from a bucket in the middle on (B38)."""
        start = max(self.origin, self.picture.stable - 30)
        self.latecomer = ClientPicture(start)
        self._client("latecomer", start, lambda c: self.latecomer.apply(self.scheduler.now_us, c)).wake()

    def _looking(self) -> None:
        self.look()
        self.scheduler.after(LOOK_US, self._looking)

    def _converge(self) -> None:
        """Within `HEAL_MAX_US` all is well, and still is `CALM_US` later: a zombie may have been the publisher."""
        healed, well = self.scheduler.now_us, False
        while True:
            why = self._not_healed()
            if why is None and well:
                break
            if self.scheduler.now_us > healed + HEAL_MAX_US:
                raise Violation("convergence", f"{HEAL_MAX_US / 1e6:g} s after healing {why}")
            if why is None:
                self.healed_us = self.scheduler.now_us - healed
                self.trace("healed", f"after {self.healed_us / 1e6:.3f} s")
            well = why is None
            self.scheduler.run_until(self.scheduler.now_us + (CALM_US if well else LOOK_US))

    def _not_healed(self) -> str | None:
        current = self.buckets.of(self.scheduler.now_us - LAG_US)
        for seat in self.replicas:
            processes = seat.processes
            if len(processes) != 1 or not isinstance(processes[0], ReplicaProcess):
                return f"{seat.label} has {len(processes)} processes"
            manager = processes[0].replica.manager
            if manager.state is not ReplicaState.STABLE:
                return f"{seat.label} is {manager.state.value} at F_s {manager.f_s}, F_l {manager.f_l}"
            if manager.f_s < current:
                return f"{seat.label} is stable only up to {manager.f_s}, it is {current}"
        if self.picture.stable < current:
            return f"the client is stable only up to {self.picture.stable}, it is {current}"
        if self.latecomer.stable < current:
            return f"the late client is stable only up to {self.latecomer.stable}, it is {current}"
        if self._progress < current:
            return f"the corrected stream is at {self._progress}, it is {current}"
        return None

    @property
    def _progress(self) -> int:
        return self.progress_seen[-1][1] if self.progress_seen else self.origin

    def _end(self) -> None:
        """All sources end; so does everything else."""
        for seat in self.sources:
            if isinstance(seat.current, PublisherProcess):
                seat.current.end()
        last = FOREVER // self.scenario.width_us
        deadline = self.scheduler.now_us + HEAL_MAX_US
        while self._progress < last or self.picture.stable < last:
            if self.scheduler.now_us > deadline:
                stable = [p.replica.manager.f_s for p in self._replica_processes()]
                raise Violation("end", f"after END: progress {self._progress}, client {self.picture.stable}, {stable}")
            self.scheduler.run_until(self.scheduler.now_us + LOOK_US)

    # Looking on -------------------------------------------------------------------------------------------------------

    def _replica_processes(self) -> list[ReplicaProcess]:
        return [p for seat in self.replicas for p in seat.processes if isinstance(p, ReplicaProcess)]

    def _after_turn(self, process: ReplicaProcess) -> None:
        manager = process.replica.manager
        self.watch.replica(self.scheduler.now_us, process.name, manager)
        if self.lines is not None:
            self._trace_state(process)

    def _client_changed(self, changes: Sequence[Change]) -> None:
        self.picture.apply(self.scheduler.now_us, changes)
        if self.lines is not None:
            for c in changes:
                self.trace("client", f"{c.kind.value}({c.bucket - self.origin}..{c.end - self.origin}) {c.lacked}")

    def _see_progress(self, feed: Feed) -> None:
        records = self.log.committed(feed)
        bucket = read_progress(records[-1].value) if records else None
        if bucket is not None:
            rows = sum(1 for r in self.log.broker.partition(self._corrected_feed).records if r is not None)
            self.progress_seen.append((rows, bucket))

    def _see_append(self, appended: list[int], feed: Feed) -> None:
        appended.append(self.scheduler.now_us)

    def look(self) -> None:
        """See who is clean now, and who reconciles."""
        if not hasattr(self, "replicas"):
            return
        now = self.scheduler.now_us
        for clean, seat, failed in zip(self._source_clean, self.sources, self.failed, strict=True):
            at_work = isinstance(seat.current, PublisherProcess) and seat.current.session.ready
            clean.update(now, at_work and not seat.troubled and not failed)
        reconciling: list[Manager] = []
        for k, seat in enumerate(self.replicas):
            process = seat.current if not seat.down else None
            manager = process.replica.manager if isinstance(process, ReplicaProcess) else None
            ready = manager is not None and manager.state is not ReplicaState.RECOVERING
            if seat.troubled or seat.zombies or not ready:
                self._troubled_until = now + 4 * SECOND
            for i, name in enumerate(self._names):
                feed = topics.stream(APP, name)
                self._paths[k][i].update(now, ready and seat.reaches_all_but(self._other_sources(i)))
                self._readable[k][i].update(now, not seat.down and seat.reaches(feed) and not self.failed[i])
            if manager is not None and manager.state is ReplicaState.STABILIZATION:
                reconciling.append(manager)
        self.watch.overlap(now, reconciling, now < self._troubled_until)

    def _other_sources(self, index: int) -> set[str]:
        return {topics.stream(APP, name) for i, name in enumerate(self._names) if i != index}

    # The end ----------------------------------------------------------------------------------------------------------

    def sources_truth(self) -> list[SourceTruth]:
        s = self.scenario
        return [
            read_source(
                name,
                i,
                self.log.committed(Feed(topics.stream(APP, name))),
                s.width_us,
                self.origin,
                s.timing.ahead_max_us,
            )
            for i, name in enumerate(self._names)
        ]

    def _judge(self) -> None:
        sources = self.sources_truth()
        truth = compute(sources, self.scenario.width_us, self.scenario.span)
        for redos in self._redos:
            if redos.disagreements:
                raise Violation("redo", redos.disagreements[0])
        for k in range(self.scenario.replicas):
            log = self.log.committed(Feed(topics.replica(APP, QUERY, k)))
            oracles.stable_records(f"r{k}", log, truth, self.origin)
        letters = self.log.committed(Feed(topics.deadletter(APP)))
        oracles.corrected(self.log.committed(self._corrected_feed), letters, self.progress_seen, truth)
        oracles.client(self.picture, truth)
        oracles.client(self.latecomer, truth)
        for clean in (*self._source_clean, *(c for some in (*self._paths, *self._readable) for c in some)):
            clean.close(self.scheduler.now_us)
        self._judge_needless(sources)
        for k, ran_us in self.watch.ran_us.items():
            oracles.premature(f"r{k}", ran_us, self.scenario.width_us, -2 * SKEW_US)
        self._judge_availability()

    def _judge_needless(self, sources: Sequence[SourceTruth]) -> None:
        if not self._memory_is_enough:
            return  # a source that is throttled counts as unreachable (R6)
        closings = [
            [(closed, appended[offset]) for closed, offset in source.closings]
            for source, appended in zip(sources, self._appended, strict=True)
        ]
        s = self.scenario
        for k in range(s.replicas):
            log = self.log.committed(Feed(topics.replica(APP, QUERY, k)))
            pairs = dict(zip(self._names, zip(self._readable[k], closings, strict=True), strict=True))
            oracles.needless(f"r{k}", log, self.watch.ran_us.get(k, {}), pairs, s.width_us, s.timing.delta_us)

    @property
    def _memory_is_enough(self) -> bool:
        s = self.scenario
        return s.timing.buffer_rows_max > s.rate * s.sources * (s.threshold_max_us / SECOND + 8)

    def _judge_availability(self) -> None:
        s = self.scenario
        if s.suspends or not self._memory_is_enough:
            return
        last = min(self.picture.seen, self.buckets.of(self.start_us + s.heal_us))
        self.asked, self.worst_us = oracles.availability(
            self.picture.arrival,
            range(self.origin + 2, last),
            s.width_us,
            s.threshold_max_us + self._failure_free_us(),
            self._source_clean,
            self._paths,
        )

    def _failure_free_us(self) -> int:
        """The longest that a bucket takes to the client when all is well: four messages, two turns, skew."""

        class Longest(random.Random):
            def random(self) -> float:
                return 1.0

        message = self.scenario.latencies.append(Longest())
        return 4 * message + 2 * self.scenario.turn_us[1] + SKEW_US + 1_000

    def trace(self, what: str, detail: str) -> None:
        if self.lines is not None:
            self.lines.append(f"{(self.scheduler.now_us - self.start_us) / 1e6:9.4f}  {what:10} {detail}")

    def _trace_state(self, process: ReplicaProcess) -> None:
        m = process.replica.manager
        publishes = m.publishing.phase in (Phase.READY, Phase.COMMITTING)
        job = m.reconciliation.job
        now = (
            m.state.value,
            m.stagger.asking,
            m.stagger.granted,
            publishes,
            job and (job.first - self.origin, job.end - self.origin),
        )
        if self._last_state.get(process.name) != now:
            self._last_state[process.name] = now
            detail = f"F_s {m.f_s - self.origin} F_l {m.f_l - self.origin} complete {m.complete - self.origin}"
            self.trace(process.name, f"{' '.join(map(str, now))} {detail}")

    def digest(self) -> str:
        """Of all that lies in the log (status apart: it names the machine's process) and of what the client saw."""
        digest = hashlib.sha256()
        for name in self.log.broker.topics():
            if name == topics.status(APP):
                continue
            for record in self.log.broker.partition(Feed(name)).records:
                digest.update(repr(record).encode())
        digest.update(repr(sorted(self.picture.arrival.items())).encode())
        digest.update(str(self.scheduler.now_us).encode())
        return digest.hexdigest()


def _asleep() -> None:
    pass
