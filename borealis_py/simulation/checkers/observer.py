"""Observes a running world: which replicas are clean, which reconcile, their state transitions, and what became visible
when.

It does not poll: it is notified of every fault and its end, of every turn, and of every record that it needs to see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import Life
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.publishing import Phase
from borealis_py.protocol.settings import DelayPolicy
from borealis_py.protocol.states import ReplicaState
from borealis_py.simulation.checkers.invariants import Invariants, Overlap
from borealis_py.simulation.clean import Clean
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.client_model import ClientPicture
from borealis_py.simulation.cluster.machines import ReplicaMachine
from borealis_py.simulation.cluster.roles import BURST, ReplicaProcess
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.fault_kinds import Failpoint
from borealis_py.simulation.faults.coverage import Coverage
from borealis_py.simulation.log.broker import Partition
from borealis_py.simulation.scenario import SECOND
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.budgets import said_in_a_step
from sunion.model import FOREVER
from sunion.view import Change

BACKLOG_US = 200_000
"""How much complete input of a replica that keeps up may wait for it."""
MARKS = 3
"""Records of a turn that belong to no bucket: UNDO, REC_DONE, END."""
Key = tuple[str, int]


class Observer:
    """Observations of one world. `moment`: called when a replica is at a failpoint."""

    def __init__(self, world: SimulatedWorld, moment: Callable[[Failpoint, ReplicaMachine], object]) -> None:
        self._world = world
        self._moment = moment
        s = world.scenario
        self.coverage = Coverage()
        bursts = BURST if any(f.kind in ("burst", "big") for f in s.faults) else 1
        rows_a_second = s.rate * bursts * s.sources * len(s.nodes)
        most = s.timing.outbox_max + said_in_a_step(s.timing, s.span) + MARKS
        self.watch = Invariants(s.timing.buffer_rows_max + rows_a_second * 16 + 200, most)
        self.overlaps = {plan.name: Overlap() for plan in s.nodes}
        self.progress_seen: list[tuple[int, int]] = []
        self._shown: int | None = None
        self.sources = {name: Clean() for name in s.source_names}
        keys = [(plan, k) for plan in s.nodes for k in range(plan.replicas)]
        self.paths = {(p.name, k): {name: Clean() for name in p.inputs} for p, k in keys}
        self.readable = {(p.name, k): {name: Clean() for name in p.inputs} for p, k in keys}
        self.steady = {(p.name, k): Clean() for p, k in keys}
        self.prompt = {(p.name, k): Clean() for p, k in keys}
        self.client = Clean()
        self._states: dict[str, ReplicaState] = {}
        self._phases: dict[str, Phase] = {}
        self._told: dict[str, tuple[object, ...]] = {}
        self._seen: dict[tuple[str, int], ReplicaProcess | None] = {}
        self._behind: set[Key] = set()
        self._troubled: set[Key] = set()
        self._troubled_until = dict.fromkeys(self.overlaps, 0)
        self._progress_feed = Feed(topics.progress(APP, QUERY))
        self._corrected_feed = Feed(topics.stream(APP, QUERY))
        self._grown: dict[tuple[str, str], int] = {}
        self._progress_of = {Feed(topics.progress(APP, plan.name)): plan.name for plan in s.nodes}
        for feed in self._progress_of:
            world.log.broker.watchers(feed)[self._see_progress] = None
        self._rows = 0
        self._rows_at = 0
        self._progress_at: dict[Feed, tuple[Partition, int]] = {}

    # What it is notified of -------------------------------------------------------------------------------------------

    def client_changed(self, name: str, picture: ClientPicture, changes: Sequence[Change]) -> None:
        world = self._world
        picture.apply(world.scheduler.now_us, changes)
        if world.lines is not None:
            for c in changes:
                about = f"{c.kind.value}({c.bucket - world.origin}..{c.end - world.origin}) {c.missing_sources}"
                world.trace(name, about)

    def _see_progress(self, feed: Feed) -> None:
        bucket = self._newly_said(feed)
        if bucket is None:
            return
        self._check_growth(self._progress_of[feed], bucket)
        self._world.published[self._progress_of[feed]] = bucket
        if feed != self._progress_feed or bucket == self._shown:
            return
        self._shown = bucket
        corrected = self._world.log.broker.partition(self._corrected_feed)
        end = corrected.stable_end
        if end < len(corrected.records):
            return  # their end was lost: the broker itself shows progress without its rows until they are repaired
        self._rows += sum(1 for r in corrected.records[self._rows_at : end] if r is not None)
        self._rows_at = end
        self.progress_seen.append((self._rows, bucket))

    def _newly_said(self, feed: Feed) -> int | None:
        """The last progress that has become visible since it was looked for; garbage may follow it."""
        partition = self._world.log.broker.partition(feed)
        of, at = self._progress_at.get(feed, (partition, 0))
        new = partition.records[at if of is partition else 0 : partition.stable_end]
        self._progress_at[feed] = partition, partition.stable_end
        life, found = Life(self._world.wiring.app_uid), None
        for record in new:
            bucket = None if record is None else read_progress(record, life, self._world.origin)
            if bucket is not None and self._can_be(bucket):
                found = bucket
        return found

    def _check_growth(self, node: str, bucket: int) -> None:
        """Progress never falls within a life of the app, unless garbage may have displaced the records that show it."""
        scribbled = any(f.kind == "bad_progress" for f in self._world.scenario.faults)
        known = self._grown.get((self._world.wiring.app_uid, node), 0)
        if bucket < known and not scribbled:
            raise Violation("corrected", f"progress of {node} fell from {known} to {bucket}", bucket)
        self._grown[self._world.wiring.app_uid, node] = bucket

    def _can_be(self, bucket: int) -> bool:
        """A node publishes only buckets that a source can have closed, or the end of all."""
        far = self._world.buckets.of(self._world.scheduler.now_us + self._world.scenario.timing.ahead_max_us)
        return bucket <= far or bucket == FOREVER // self._world.scenario.width_us

    def after_turn(self, machine: ReplicaMachine, process: ReplicaProcess) -> None:
        """Called after every turn of every replica."""
        if self._world.over:
            return
        manager = process.replica.manager
        self.watch.replica(self._world.scheduler.now_us, machine.node, process.name, manager)
        key, behind = (machine.node, machine.index), self._has_backlog(manager)
        if process is machine.current and behind is not (key in self._behind):
            self._behind ^= {key}
            self.look()
        before, after = self._states.get(process.name, ReplicaState.RECOVERING), manager.state
        if before is not after:
            self._states[process.name] = after
            self._changed_state(machine, before, after)
        phase = manager.publishing.phase
        if self._phases.get(process.name) is not phase:
            if phase in (Phase.READY, Phase.COMMITTING) and self._phases.get(process.name) is Phase.TAKING:
                self._moment(Failpoint.PUBLISHER, machine)
            self._phases[process.name] = phase
        if self._world.lines is not None:
            self._trace_state(process, manager)

    def _has_backlog(self, manager: Manager) -> bool:
        return (manager.complete - manager.f_l) * self._world.scenario.width_us > BACKLOG_US

    def _changed_state(self, machine: ReplicaMachine, before: ReplicaState, after: ReplicaState) -> None:
        self.coverage.step(before, after)
        if after is ReplicaState.STABILIZATION:
            self.watch.reconciliations += 1
            self._moment(Failpoint.GRANTED, machine)
            self._moment(Failpoint.RECONCILING, machine)
        elif before is ReplicaState.STABILIZATION and after is ReplicaState.STABLE:
            self._moment(Failpoint.REC_DONE, machine)
        self.look()

    # Looking ----------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Determine which replicas are clean and which reconcile: after each fault, its end, and each state change."""
        world = self._world
        if world.over:
            return
        now = world.scheduler.now_us
        for source in world.sources:
            self.sources[source.name].update(now, source.at_work and not source.failed)
        self.client.update(now, not world.clients.troubled)
        for machine in world.replicas:
            self._look_at(now, machine)
            self._look_for_trouble(now, machine)
        self._look_for_overlaps(now)

    def _look_at(self, now: int, machine: ReplicaMachine) -> None:
        key = (machine.node, machine.index)
        process = machine.current if isinstance(machine.current, ReplicaProcess) else None
        names = machine.spec.inputs
        by_input = [machine.input_topics(i) for i in range(len(names))]
        own = machine.spec.own_feeds[0].topic
        if self._seen.get(key) is not process:  # a new process, which has to catch up first
            self._seen[key] = process
            for clean in (self.steady[key], self.prompt[key], *self.paths[key].values()):
                clean.update(now, False)
                if process is not None:
                    clean.starts_at(process.replica.manager.f_s * self._world.scenario.width_us)
        manager = None if process is None else process.replica.manager
        state = None if manager is None else manager.state
        silent = (None, ReplicaState.RECOVERING, ReplicaState.STANDBY)
        stable, ready = state is ReplicaState.STABLE, state not in silent
        alone = stable and not machine.shares_number
        self.steady[key].update(now, alone and machine.reaches_all([own, *frozenset().union(*by_input)]))
        corrects = manager if state is ReplicaState.STABILIZATION else None
        waits = corrects is not None and corrects.delays.stabilization is not DelayPolicy.PROCESS
        self.prompt[key].update(now, ready and not waits and key not in self._behind)
        up = not machine.down and not machine.odd
        failed = {source.name for source in self._world.sources if source.failed}
        for i, of in enumerate(names):
            self.paths[key][of.name].update(now, ready and machine.reaches_all([own, *by_input[i]]))
            readable = up and of.name not in failed and all(machine.reaches(t) for t in by_input[i])
            self.readable[key][of.name].update(now, readable)

    def _look_for_trouble(self, now: int, machine: ReplicaMachine) -> None:
        key = (machine.node, machine.index)
        if machine.troubled or key in self._troubled:  # the look at its end is the one that shows how long it lasted
            self._troubled_until[machine.node] = now + 2 * self._world.scenario.timing.suspicion_us
        if machine.troubled is not (key in self._troubled):
            self._troubled ^= {key}

    def _look_for_overlaps(self, now: int) -> None:
        world = self._world
        for node, overlap in self.overlaps.items():
            reconciling = [
                process.replica.manager
                for machine in world.of_node(node)
                for process in machine.replicas
                if process.replica.manager.state is ReplicaState.STABILIZATION
                and process is machine.current  # a zombie may sleep while reconciling
            ]
            at = overlap.look(now, node, reconciling, self._excused_until(now, node))
            if at is not None:
                world.scheduler.at(at, partial(self._check, overlap, at, node))

    def _check(self, overlap: Overlap, at: int, node: str) -> None:
        if not self._world.over:
            overlap.check(at, node)

    def _excused_until(self, now: int, node: str) -> int:
        """Until when a node's replicas may be unaware of each other, as far as can be seen now."""
        machines, suspicion_us = self._world.of_node(node), self._world.scenario.timing.suspicion_us
        if any(machine.troubled for machine in machines):
            return FOREVER
        started = max((process.started_us for machine in machines for process in machine.replicas), default=0)
        return max(self._troubled_until[node], started + SECOND + suspicion_us)

    def close(self) -> None:
        """The world has ended."""
        now = self._world.scheduler.now_us
        found = [self.client, *self.sources.values(), *self.steady.values(), *self.prompt.values()]
        for some in (*self.paths.values(), *self.readable.values()):
            found += some.values()
        for clean in found:
            clean.close(now)

    @property
    def overlap_us(self) -> int:
        return max(overlap.longest_us for overlap in self.overlaps.values())

    # Human-readable ---------------------------------------------------------------------------------------------------

    def _trace_state(self, process: ReplicaProcess, m: Manager) -> None:
        publishes = m.publishing.phase in (Phase.READY, Phase.COMMITTING)
        job = m.reconciliation.job
        origin = self._world.origin
        now = (
            m.state.value,
            "asking" if m.stagger.asking else "",
            "granted" if m.stagger.granted else "",
            "publishes" if publishes else "",
            f"job {job.first - origin}..{job.end - origin}" if job else "",
        )
        if self._told.get(process.name) != now:
            self._told[process.name] = now
            detail = f"F_s {m.f_s - origin} F_l {m.f_l - origin} complete {m.complete - origin}"
            self._world.trace(process.name, f"{' '.join(word for word in now if word)}: {detail}")

    def digest(self) -> str:
        """Hash of everything in the log (except statuses, which name the machine's process) and of
        what the client saw.
        """
        world = self._world
        digest = hashlib.sha256()
        for name in world.log.broker.topics():
            if name.endswith(".status"):
                continue
            for partition in world.log.broker.partitions(name):
                for record in partition.records:
                    digest.update(repr(record).encode())
        digest.update(repr(sorted(world.picture.arrival.items())).encode())
        digest.update(str(world.scheduler.now_us).encode())
        return digest.hexdigest()
