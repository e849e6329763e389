"""One simulated world: a query of one or several nodes with its sources, replicas, clients and log.

Everything in it is production code except the faults, the host's loop and the toy query. It is deterministic: the same
scenario gives the same history. It is passive: `runner.simulation` drives it, and `checkers` observe it through its
hooks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.log.messages import RecoverySetting, encode
from borealis_py.protocol.publishing import Phase
from borealis_py.query.recovery import RecoveryPlan
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.audits import Auditor
from borealis_py.simulation.cluster.builder import APP, Builder
from borealis_py.simulation.cluster.client_model import ClientPicture
from borealis_py.simulation.cluster.machines import ReplicaMachine, SourceMachine
from borealis_py.simulation.cluster.neighbour import Neighbour
from borealis_py.simulation.cluster.processes import RESTART_US, Machine, Process
from borealis_py.simulation.cluster.roles import ReplicaProcess
from borealis_py.simulation.fault_kinds import Failpoint
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.log.network import Cut
from borealis_py.simulation.log.outcomes import CommitOutcome
from borealis_py.simulation.scenario import START_US, Fault, Scenario
from borealis_py.simulation.toy_query import QUERY
from sunion.view import Change

SKEW_US = 10_000
"""Maximum error of a publisher's clock."""


def _nothing(*_: object) -> None:
    pass


def writes(process: ReplicaProcess) -> bool:
    """Whether it has a transaction in flight, or fences to begin one."""
    return process.replica.manager.publishing.phase in (Phase.TAKING, Phase.COMMITTING)


@dataclass
class Hooks:
    """The events of a world, and who is called. By default no one is.

    Attributes:
        look: after each fault, its end, and each state change.
        turned: after every turn of every replica.
        moment: a replica is at a failpoint.
        client_changed: changes are delivered to a client (its name, its picture).
        view_begins: a late client has subscribed (the bucket that it asked for, the first that it will show).
    """

    look: Callable[[], object] = _nothing
    turned: Callable[[ReplicaMachine, ReplicaProcess], object] = _nothing
    moment: Callable[[Failpoint, ReplicaMachine], object] = _nothing
    client_changed: Callable[[str, ClientPicture, Sequence[Change]], object] = _nothing
    view_begins: Callable[[int, int], object] = _nothing


class SimulatedWorld:
    """One world.

    Args:
        past: the previous life of the app, on the same log.
    """

    def __init__(self, scenario: Scenario, keep_trace: bool = False, past: Past | None = None) -> None:
        self.scenario = scenario
        self.past = past
        self.over = False
        """The app has been begun anew: what is left of this life concerns only the next one."""
        if past is None:
            self.scheduler = Scheduler(START_US)
            self.log = MemoryLog(
                self.scheduler,
                seed=scenario.seed,
                delays=scenario.latencies,
                poll_records_max=scenario.poll_records_max,
            )
        else:
            self.scheduler = past.world.scheduler
            self.log = past.world.log
        self.start_us = self.scheduler.now_us
        self.rng = random.Random(f"world {scenario.seed}")
        self.log.outcomes = self._outcome
        self.log.on_transaction = self._transaction
        self.wiring = Builder(scenario, self.scheduler, self.log, life=0 if past is None else past.lives)
        self.ways = {plan.name: plan.recovery for plan in scenario.nodes}
        """How each node recovers, as last set."""
        self.buckets = self.wiring.buckets
        self.origin = self.wiring.origin
        self.wiring.make_topics()
        self.commits_unknown = 0
        self.struck: list[Fault] = []
        """The faults so far, as they happened: an aimed fault with the times at which it struck."""
        self.lines: list[str] | None = [] if keep_trace else None
        self.hooks = Hooks()
        self.published: dict[str, int] = {}
        """How far each node is published, by the last credible record."""
        skews = [self.rng.randrange(-SKEW_US, SKEW_US) for _ in range(scenario.sources)]
        self.sources = [SourceMachine(self.wiring, i, skew, self._look) for i, skew in enumerate(skews)]
        self.replicas = [
            ReplicaMachine(self.wiring, plan.name, k, self._look, self._turned, self._moment)
            for plan in scenario.nodes
            for k in range(plan.replicas)
        ]
        self.wiring.deleted.trims = self._trims
        self.clients = Machine(f"{self.wiring.prefix}client", self.log, self._start_client, self._look)
        self.picture = ClientPicture(self.origin)
        self.latecomer: ClientPicture | None = None
        self.asked = 0
        self.worst_us = 0
        self.neighbour = self._neighbour()
        self.auditor = Auditor(self.wiring) if scenario.retain is not None and scenario.retain.audited else None
        """Audits its query; None: nobody does."""

    def _neighbour(self) -> Neighbour | None:
        """Present from the first life on."""
        if self.past is not None:
            return self.past.world.neighbour
        return Neighbour(self.scenario, self.scheduler, self.log) if self.scenario.neighbour else None

    def of_node(self, node: str) -> list[ReplicaMachine]:
        """The machines of one node."""
        return [machine for machine in self.replicas if machine.node == node]

    def put_setting(self, key: str, value: bytes) -> None:
        """Append a record to the settings topic, as a command would."""
        self.log.broker.append(NewRecord(Feed(topics.settings(APP)), value, key.encode()))

    def set_way(self, node: str, way: RecoveryPlan) -> None:
        """Set how a node recovers, as a command would."""
        self.put_setting(f"recovery/{node}", encode(RecoverySetting.of(self.wiring.app_uid, way)))
        self.ways[node] = way

    def trace(self, what: str, detail: str) -> None:
        if self.lines is not None:
            self.lines.append(f"{(self.scheduler.now_us - self.start_us) / 1e6:9.4f}  {what:10} {detail}")

    def _outcome(self, rng: random.Random, writer: str) -> CommitOutcome:
        if self.neighbour is not None and self.neighbour.owns(writer):
            return CommitOutcome.COMMITTED
        if self.commits_unknown and rng.random() < 0.4:
            return rng.choice((CommitOutcome.UNTOLD, CommitOutcome.LATER, CommitOutcome.LOST))
        return CommitOutcome.COMMITTED

    # Listeners may be attached after the machines that call them.

    def _look(self) -> None:
        self.hooks.look()

    def _turned(self, machine: ReplicaMachine, process: ReplicaProcess) -> None:
        self.hooks.turned(machine, process)

    def _moment(self, aim: Failpoint, machine: ReplicaMachine) -> None:
        self.hooks.moment(aim, machine)

    def _trims(self, node: str, index: int) -> None:
        self._moment(Failpoint.TRIMMING, self.of_node(node)[index])

    def _client_changed(self, name: str, picture: ClientPicture, changes: Sequence[Change]) -> None:
        self.hooks.client_changed(name, picture, changes)

    def _transaction(self, name: str) -> None:
        for machine in self.replicas:
            if any(process.name == name for process in machine.processes):
                self._moment(Failpoint.TRANSACTION, machine)

    def _start_client(self, name: str) -> Process | None:
        picture = self.picture
        first = self.progress(QUERY) if self._behind(picture) else self.origin
        changed = partial(self._client_changed, "client", picture)
        try:
            process = self.wiring.client(name, first, changed, self._client_ended)
        except LogError:
            return None
        start = process.subscription.stream.next
        if start > picture.stable:
            picture.begin_anew(self.scheduler.now_us, start)
        process.wake()
        return process

    def _behind(self, picture: ClientPicture) -> bool:
        """Whether what a client needs next was trimmed: it may be told so, and begins at what is kept."""
        return picture.stable < self.wiring.deleted.upto.get(QUERY, 0)

    def _client_ended(self, why: str) -> None:
        current = self.clients.current
        if self._behind(self.picture) and current is not None and not self.over:
            self.clients.ended(current)
        else:
            self.picture.end(why)

    def start_latecomer(self) -> None:
        """Start a second client, which reads the stream from a bucket in the middle on (B38)."""
        if self.over:
            return
        start = max(self.origin, self.picture.stable - self.scenario.late_by)
        picture = ClientPicture(start)
        changed = partial(self._client_changed, "latecomer", picture)
        try:
            ended = partial(self._late_ended, picture)
            process = self.wiring.client(f"{self.wiring.prefix}latecomer", start, changed, ended)
        except LogError:  # it may not reach the log now
            self.scheduler.after(RESTART_US, self.start_latecomer)
            return
        kept = process.subscription.stream.next
        self.hooks.view_begins(start, kept)
        picture.start = picture.stable = picture.seen = kept
        process.wake()
        self.latecomer = picture

    def _late_ended(self, picture: ClientPicture, why: str) -> None:
        if self._behind(picture) and not self.over:
            self.latecomer = None
            self.scheduler.after(RESTART_US, self.start_latecomer)
        else:
            picture.end(why)

    @property
    def ended_by_retention(self) -> str | None:
        """The named error of a source, or of a node whose replicas have all ended: retention
        deleted what was needed.
        """
        for source in self.sources:
            if source.given_up is not None and source.name in self.scenario.eaten:
                return source.given_up
        for plan in self.scenario.nodes:
            errors = [s.given_up for s in self.of_node(plan.name) if s.given_up is not None]
            alive = [s for s in self.of_node(plan.name) if s.given_up is None and not s.down]
            if errors and not alive:
                return errors[0]
        return None

    def progress(self, node: str) -> int:
        """How far a node is published."""
        return self.published.get(node, self.origin)


@dataclass(frozen=True)
class LivesOn:
    """A surviving machine of a past life. `mode`: see `MODES`."""

    machine: Machine
    mode: str
    cut: Cut | None


class Past:
    """What a life leaves to the next one: the log, the time, and its survivors."""

    def __init__(self, world: SimulatedWorld, survivors: list[LivesOn]) -> None:
        self.world = world
        self.survivors = survivors

    @property
    def lives(self) -> int:
        """Number of lives so far."""
        return self.world.wiring.life + 1

    def meet(self) -> None:
        """Survivors that were away meet the topics as they are now."""
        for one in self.survivors:
            if one.cut is not None:
                one.machine.mend(one.cut)
            elif one.mode == "asleep":
                one.machine.resume()

    def unaware(self) -> str | None:
        """A survivor of this life, or of an earlier one, that still does not know that it is over;
        None: there is none.
        """
        world = self.world
        for one in self.survivors:
            learnt = world.picture.lost if one.machine is world.clients else one.machine.given_up
            if learnt is None:
                return f"{one.machine.label} ({one.mode}) lives on, and its life of the app is over"
        if world.latecomer is not None and world.latecomer.lost is None:
            return "a late client lives on, and its life of the app is over"
        before = world.past
        return None if before is None else before.unaware()
