"""One simulated world: a query of one or several nodes with its sources, replicas, clients and log, driven through a
scenario.

Everything in it but the faults, the host's loop and the toy query is production code. It is deterministic: the same
scenario gives the same history. What holds in it is watched by `sim.watching` and judged by `sim.verdict`.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING

from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.log.messages import Threshold, encode
from borealis_py.protocol.publishing import Phase
from borealis_py.protocol.states import ReplicaState
from borealis_py.simulation.checkers.checker import judge
from borealis_py.simulation.checkers.client_model import ClientPicture
from borealis_py.simulation.checkers.observer import Onlooker
from borealis_py.simulation.checkers.violation import Violation
from borealis_py.simulation.cluster.builder import APP, Wiring
from borealis_py.simulation.cluster.clock import Scheduler
from borealis_py.simulation.cluster.machines import ReplicaSeat, SourceSeat
from borealis_py.simulation.cluster.neighbour import Neighbour
from borealis_py.simulation.cluster.processes import RESTART_US, Process, Seat
from borealis_py.simulation.cluster.roles import PublisherProcess, ReplicaProcess
from borealis_py.simulation.cluster.toy_query import QUERY
from borealis_py.simulation.faults import arm
from borealis_py.simulation.faults.catalogue import Aim
from borealis_py.simulation.faults.failpoints import Moments
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.log.transactor import Outcome
from borealis_py.simulation.runner.scenario import SECOND, START_US, Fault, Scenario
from borealis_py.simulation.witness.healing import bound_us
from sunion.model import FOREVER

if TYPE_CHECKING:
    from borealis_py.simulation.cluster.resets import Past

SKEW_US = 10_000
"""How far a publisher's clock may be off."""
LOOK_US = 100_000
END_MAX_US = 15 * SECOND
CALM_US = 1_500_000
"""How long a healed world must stay as it should be."""
LAG_US = 800_000
"""Stable results this far behind the clock are current: a bucket, the ways, and progress without rows."""


WRITES_US, STEP_US = 1_000_000, 300
"""Within which time a reset that is to come inside a transaction comes; how often it looks for one."""


def writes(process: ReplicaProcess) -> bool:
    """It has a transaction on its way, or fences to begin one."""
    return process.replica.manager.publishing.phase in (Phase.TAKING, Phase.COMMITTING)


class World:
    """One world. `run` raises `Violation` when an oracle fails.

    Args:
        past: the life of the app before, on the same log.
    """

    def __init__(self, scenario: Scenario, keep_trace: bool = False, past: Past | None = None) -> None:
        self.scenario, self.past = scenario, past
        self.over = False
        """The app has been begun anew: what goes on of this life is nobody's but the next one's affair."""
        if past is None:
            self.scheduler = Scheduler(START_US)
            self.log = MemoryLog(
                self.scheduler,
                seed=scenario.seed,
                delays=scenario.latencies,
                poll_records_max=scenario.poll_records_max,
            )
        else:
            self.scheduler, self.log = past.world.scheduler, past.world.log
        self.start_us = self.scheduler.now_us
        self.rng = random.Random(f"world {scenario.seed}")
        self.log.outcomes, self.log.on_transaction = self._outcome, self._transaction
        self.wiring = Wiring(scenario, self.scheduler, self.log, life=0 if past is None else past.lives)
        self.buckets, self.origin = self.wiring.buckets, self.wiring.origin
        self.wiring.make_topics()
        self.commits_unknown = 0
        self.struck: list[Fault] = []
        """What has gone wrong so far, as it happened: an aimed fault with the times at which it struck."""
        self.healed_us: int | None = None
        self.lines: list[str] | None = [] if keep_trace else None
        self.moments = Moments(self)
        self.watching = Onlooker(self)
        skews = [self.rng.randrange(-SKEW_US, SKEW_US) for _ in range(scenario.sources)]
        look = self.watching.look
        self.sources = [SourceSeat(self.wiring, i, skew, look) for i, skew in enumerate(skews)]
        self.replicas = [
            ReplicaSeat(
                self.wiring, plan.name, k, look, self.watching.after_turn, partial(self.moments.come, Aim.CHECKPOINT)
            )
            for plan in scenario.nodes
            for k in range(plan.replicas)
        ]
        self.clients = Seat(f"{self.wiring.prefix}client", self.log, self._start_client, look)
        self.picture = ClientPicture(self.origin)
        self.latecomer: ClientPicture | None = None
        self.asked = self.worst_us = 0
        self.neighbour = self._neighbour()

    def _neighbour(self) -> Neighbour | None:
        """There from the first life on."""
        if self.past is not None:
            return self.past.world.neighbour
        return Neighbour(self.scenario, self.scheduler, self.log) if self.scenario.neighbour else None

    def of_node(self, node: str) -> list[ReplicaSeat]:
        """The seats of one node."""
        return [seat for seat in self.replicas if seat.node == node]

    def put_setting(self, key: str, value: bytes) -> None:
        """A record in the settings topic, as a command would write it."""
        self.log.broker.append(NewRecord(Feed(topics.settings(APP)), value, key.encode()))

    def trace(self, what: str, detail: str) -> None:
        if self.lines is not None:
            self.lines.append(f"{(self.scheduler.now_us - self.start_us) / 1e6:9.4f}  {what:10} {detail}")

    def _outcome(self, rng: random.Random, writer: str) -> Outcome:
        if self.neighbour is not None and self.neighbour.owns(writer):
            return Outcome.COMMITTED
        if self.commits_unknown and rng.random() < 0.4:
            return rng.choice((Outcome.UNTOLD, Outcome.LATER, Outcome.LOST))
        return Outcome.COMMITTED

    def _transaction(self, name: str) -> None:
        for seat in self.replicas:
            if any(process.name == name for process in seat.processes):
                self.moments.come(Aim.TRANSACTION, seat)

    # Running it -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live through the scenario, heal and converge, unless there is a reset then, and be judged."""
        for seat in (*self.sources, *self.replicas, self.clients):
            seat.start()
        if self.neighbour is not None and self.past is None:
            self.neighbour.start()
        if self.scenario.latecomer:
            self.scheduler.at(self.start_us + self.scenario.heal_us // 2, self._start_latecomer)
        for fault in self.scenario.faults:
            arm(self, fault)
        self.scheduler.run_until(self.start_us + self.scenario.heal_us - SECOND // 2)
        for index in self.scenario.lost:
            self.replicas[index].crash()
        self.scheduler.run_until(self.start_us + self.scenario.heal_us + 1)
        if self.scenario.reset == "writer":
            self._until_somebody_writes()
        threshold_us = self.scenario.healed_threshold_us
        if threshold_us is not None:
            self.put_setting(f"threshold/{QUERY}", encode(Threshold(threshold_us)))
        if not self.scenario.reset and self._converge() and self.scenario.ends:
            self._end()
        judge(self)
        if self.neighbour is not None and not self.scenario.reset:
            self.neighbour.judge()

    def _until_somebody_writes(self) -> None:
        """Or takes over to write: but not for long."""
        limit = self.scheduler.now_us + WRITES_US
        while self.scheduler.now_us < limit and not any(writes(p) for seat in self.replicas for p in seat.replicas):
            self.scheduler.run_until(self.scheduler.now_us + STEP_US)

    def _start_client(self, name: str) -> Process:
        changed = partial(self.watching.client_changed, "client", self.picture)
        process = self.wiring.client(name, self.origin, changed, self.picture.end)
        process.wake()
        return process

    def _start_latecomer(self) -> None:
        """A second client, which wants to see the stream from a bucket in the middle on (B38)."""
        if self.over:
            return
        start = max(self.origin, self.picture.stable - 30)
        picture = ClientPicture(start)
        changed = partial(self.watching.client_changed, "latecomer", picture)
        try:
            self.wiring.client(f"{self.wiring.prefix}latecomer", start, changed, picture.end).wake()
        except LogError:  # it may not reach the log now
            self.scheduler.after(RESTART_US, self._start_latecomer)
            return
        self.latecomer = picture

    def _converge(self) -> bool:
        """Within `healing.bound_us` all is well, and still is `CALM_US` later: a zombie may have been the publisher.

        Returns False when retention has ended a node, by name: there is nothing to wait for then.
        """
        healed, well = self.scheduler.now_us, False
        within_us = bound_us(self.scenario, self.wiring.depth)
        while True:
            self._nobody_gave_up_in_vain()
            if self.ended_by_retention is not None:
                self.trace("ended", self.ended_by_retention)
                return False
            why = self._not_healed()
            if why is None and well:
                return True
            if self.scheduler.now_us > healed + within_us:
                raise Violation("convergence", f"{within_us / 1e6:g} s after healing {why}")
            if why is None:
                self.healed_us = self.scheduler.now_us - healed
                self.trace("healed", f"after {self.healed_us / 1e6:.3f} s")
            well = why is None
            self.scheduler.run_until(self.scheduler.now_us + (CALM_US if well else LOOK_US))

    @property
    def ended_by_retention(self) -> str | None:
        """The named error of a source, or of a node whose replicas have all ended: retention ate what was needed."""
        for source in self.sources:
            if source.given_up is not None and source.name in self.scenario.eaten:
                return source.given_up
        for plan in self.scenario.nodes:
            errors = [s.given_up for s in self.of_node(plan.name) if s.given_up is not None]
            alive = [s for s in self.of_node(plan.name) if s.given_up is None and not s.down]
            if errors and not alive:
                return errors[0]
        return None

    def _nobody_gave_up_in_vain(self) -> None:
        """Only who reads a source of which retention took something may end, by name."""
        for seat in self.replicas:
            if seat.given_up is not None and self.scenario.eaten.isdisjoint(of.name for of in seat.spec.inputs):
                raise Violation("convergence", f"{seat.label} has given up: {seat.given_up}")

    def _not_healed(self) -> str | None:
        current = self.buckets.of(self.scheduler.now_us - LAG_US * self.wiring.depth - self.scenario.lag_us)
        for i, seat in enumerate(self.replicas):
            if seat.given_up is not None or i in self.scenario.lost:
                continue
            if len(seat.replicas) != 1:
                return f"{seat.label} has {len(seat.replicas)} processes"
            manager = seat.replicas[0].replica.manager
            if manager.state is not ReplicaState.STABLE:
                return f"{seat.label} is {manager.state.value} at F_s {manager.f_s}, F_l {manager.f_l}"
            if manager.f_s < current:
                return f"{seat.label} is stable only up to {manager.f_s}, it is {current}"
        for source in self.sources:
            if not source.at_work:
                return f"{source.name} has no publisher at work"
        for name, picture in (("client", self.picture), ("late client", self.latecomer)):
            if picture is not None and picture.lost is not None:
                raise Violation("retention", f"the {name} was told that its stream is gone: {picture.lost}")
            if picture is not None and picture.stable < current:
                return f"the {name} is stable only up to {picture.stable}, it is {current}"
        for plan in self.scenario.nodes:
            if self.progress(plan.name) < current:
                return f"what is published of {plan.name} is at {self.progress(plan.name)}, it is {current}"
        return None if self.past is None else self.past.unaware()

    def progress(self, node: str) -> int:
        """How far a node is published."""
        return self.watching.progress.get(node, self.origin)

    def _end(self) -> None:
        """All sources end; so does everything else."""
        for seat in self.sources:
            if isinstance(seat.current, PublisherProcess):
                seat.current.end()
        last = FOREVER // self.scenario.width_us
        deadline = self.scheduler.now_us + END_MAX_US
        while self.progress(QUERY) < last or self.picture.stable < last:
            if self.scheduler.now_us > deadline:
                stable = {p.name: p.replica.manager.f_s for seat in self.replicas for p in seat.replicas}
                detail = f"progress {self.progress(QUERY)}, client {self.picture.stable}, {stable}"
                raise Violation("end", f"after END: {detail}")
            self.scheduler.run_until(self.scheduler.now_us + LOOK_US)
