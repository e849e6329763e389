"""Runs a world: arms its faults, observes it, heals it, and judges it at the end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

from borealis_py.log.messages import Threshold, encode
from borealis_py.node.recovery_setting import increments_of
from borealis_py.protocol.states import ReplicaState
from borealis_py.query.recovery import RecoveryWay
from borealis_py.simulation.checkers.checker import judge
from borealis_py.simulation.checkers.neighbour import judge_neighbour
from borealis_py.simulation.checkers.observer import Observer
from borealis_py.simulation.checkers.runners import RunnersOracle
from borealis_py.simulation.checkers.trimming import (
    TrimmingOracle,
    audits_go_on,
    bounded,
    nothing_lacked,
    short_for_good,
    view_begins_at_what_is_kept,
)
from borealis_py.simulation.cluster.resets import end, split
from borealis_py.simulation.cluster.roles import PublisherProcess
from borealis_py.simulation.cluster.world import Past, SimulatedWorld, writes
from borealis_py.simulation.faults.arming import arm
from borealis_py.simulation.faults.failpoints import Failpoints
from borealis_py.simulation.scenario import SECOND, Retention, Scenario
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.healing import bound_us
from sunion.model import FOREVER

LOOK_US = 100_000
END_MAX_US = 15 * SECOND
CALM_US = 1_500_000
"""How long a healed world must stay well."""
LAG_US = 800_000
"""Stable results are current if they lag at most this: a bucket, the transfers, and progress without rows."""

STAYS_SHARE, STAYS_US = 0.1, 6 * SECOND
KEPT, KEPT_OF_PASSIVE = 5, 13
"""After so many checkpoints a start from any that is kept begins later: three bases, and at most three increments
behind each of a passive standby's (`ToyKernel.encode_state`)."""
WRITES_US, STEP_US = 1_000_000, 300
"""Time limit within which a reset that should hit a transaction strikes; polling interval."""


class Simulation:
    """One life of an app, from its start to the verdict. `run` raises `Violation` if an oracle fails."""

    def __init__(self, scenario: Scenario, keep_trace: bool = False, past: Past | None = None) -> None:
        self.world = SimulatedWorld(scenario, keep_trace, past)
        self._scenario = scenario
        self._scheduler = self.world.scheduler
        self.failpoints = Failpoints(self.world)
        self.observer = Observer(self.world, self.failpoints.come)
        self.healed_us: int | None = None
        trimming = TrimmingOracle(self.world)
        self.world.wiring.deleted.before = trimming.before
        if self.world.auditor is not None:
            self.world.auditor.after = trimming.audited
        hooks = self.world.hooks
        hooks.view_begins = partial(view_begins_at_what_is_kept, self.world)
        hooks.look = self.observer.look
        hooks.turned = self.observer.after_turn
        hooks.moment = self.failpoints.come
        hooks.client_changed = self.observer.client_changed

    def run(self) -> None:
        """Live through the scenario, heal and converge, unless there is a reset then, and be judged."""
        self.start_world()
        self.finish()

    def start_world(self) -> None:
        """Start everybody and arm the faults."""
        RunnersOracle(self.world).start()
        for machine in (*self.world.sources, *self.world.replicas, self.world.clients):
            machine.start_process()
        if self.world.neighbour is not None and self.world.past is None:
            self.world.neighbour.start_machines()
        if self.world.auditor is not None:
            self.world.auditor.start()
        if self._scenario.latecomer:
            self._scheduler.at(self.world.start_us + self._scenario.heal_us // 2, self.world.start_latecomer)
        for fault in self._scenario.faults:
            arm(self.world, fault, self.failpoints, self.observer.coverage)

    def finish(self) -> None:
        """Live on until it heals, converge, unless there is a reset then, and be judged."""
        self._scheduler.run_until(self.world.start_us + self._scenario.heal_us - SECOND // 2)
        for index in self._scenario.lost:
            self.world.replicas[index].crash()
        self._scheduler.run_until(self.world.start_us + self._scenario.heal_us + 1)
        if self._scenario.reset == "writer":
            self._until_somebody_writes()
        threshold_us = self._scenario.healed_threshold_us
        if threshold_us is not None:
            self.world.put_setting(f"threshold/{QUERY}", encode(Threshold(threshold_us)))
        if not self._scenario.reset and self._converge():
            self._stay()
            if self._scenario.ends:
                self._end()
            audits_go_on(self.world)
        nothing_lacked(self.world)
        judge(self.world, self.observer)
        if self.world.neighbour is not None and not self._scenario.reset:
            judge_neighbour(self.world.neighbour)

    def _stay(self) -> None:
        """In some worlds all stays well, and nobody is away, for so long that logs must have become short; no longer,
        once they are."""
        s, since = self._scenario, self._scheduler.now_us
        away = s.lost or any(machine.given_up is not None for machine in self.world.replicas)
        if s.retain is None or away or random.Random(f"stays {s.seed}").random() >= STAYS_SHARE:
            return
        until = since + self._short_within_us(s.retain)
        while self._scheduler.now_us < until and not (self._nothing_held and short_for_good(self.world, since)):
            self._scheduler.run_until(min(until, self._scheduler.now_us + SECOND))
        if self._nothing_held:
            bounded(self.world, since)

    def _short_within_us(self, retain: Retention) -> int:
        """How long after all was well logs have become short at the latest."""
        ways = self.world.ways.values()
        told = 5 if any(way.idles for way in ways) else 3  # a standby says again what was said (R17)
        forgets = any(way.way is RecoveryWay.AMNESIA for way in ways)
        # A replica that has lost buckets takes no checkpoint before its state is whole (R18.4).
        whole_us = self._scenario.span * self._scenario.width_us if forgets else 0
        return self._renewed_us + told * retain.every_us + whole_us + STAYS_US

    @property
    def _nothing_held(self) -> bool:
        """Whether no replica holds what it may still need: what is lost may end a minute ahead, since deleted records
        may have had rows until then (R18.9)."""
        running = [process.replica.manager for machine in self.world.replicas for process in machine.replicas]
        return all(manager.losing.whole <= manager.f_s <= manager.complete for manager in running)

    @property
    def _renewed_us(self) -> int:
        """How long it takes until all that is kept of checkpoints is new."""
        passive = any(increments_of(way) for way in self.world.ways.values())
        return (KEPT_OF_PASSIVE if passive else KEPT) * self._scenario.timing.checkpoint_us

    def _until_somebody_writes(self) -> None:
        """Run until some replica writes, or takes over to write, for a limited time."""
        limit = self._scheduler.now_us + WRITES_US
        while self._scheduler.now_us < limit and not any(
            writes(p) for machine in self.world.replicas for p in machine.replicas
        ):
            self._scheduler.run_until(self._scheduler.now_us + STEP_US)

    def _converge(self) -> bool:
        """Within `healing.bound_us` all is well, and still is `CALM_US` later: a zombie may have been the publisher.

        Returns False if retention has ended a node, by name: there is nothing to wait for then.
        """
        healed, well = self._scheduler.now_us, False
        within_us = bound_us(self._scenario, self.world.wiring.depth)
        while True:
            self._nobody_gave_up_in_vain()
            if self.world.ended_by_retention is not None:
                self.world.trace("ended", self.world.ended_by_retention)
                return False
            why = self._not_healed()
            if why is None and well:
                return True
            if self._scheduler.now_us > healed + within_us:
                raise Violation("convergence", f"{within_us / 1e6:g} s after healing {why}")
            if why is None:
                self.healed_us = self._scheduler.now_us - healed
                self.world.trace("healed", f"after {self.healed_us / 1e6:.3f} s")
            well = why is None
            self._scheduler.run_until(self._scheduler.now_us + (CALM_US if well else LOOK_US))

    def _nobody_gave_up_in_vain(self) -> None:
        """Only a reader of a source that lost records to retention may end, by name."""
        for machine in self.world.replicas:
            if machine.given_up is not None and self._scenario.eaten.isdisjoint(of.name for of in machine.spec.inputs):
                raise Violation("convergence", f"{machine.label} has given up: {machine.given_up}")

    def _not_healed(self) -> str | None:
        current = self.world.buckets.of(
            self._scheduler.now_us - LAG_US * self.world.wiring.depth - self._scenario.lag_us
        )
        for i, machine in enumerate(self.world.replicas):
            if machine.given_up is not None or i in self._scenario.lost:
                continue
            if len(machine.processes) != 1:
                return f"{machine.label} has {len(machine.processes)} processes"
            if (way := machine.way) != self.world.ways[machine.node]:
                return f"{machine.label} recovers by {way}, and {self.world.ways[machine.node]} is set"
            if not machine.replicas:
                continue  # it stands by without computing
            manager = machine.replicas[0].replica.manager
            settled = ReplicaState.STABLE if manager.speaking.runs else ReplicaState.STANDBY
            if manager.state is not settled:
                return f"{machine.label} is {manager.state.value} at F_s {manager.f_s}, F_l {manager.f_l}"
            if manager.f_s < current:
                return f"{machine.label} is stable only up to {manager.f_s}, it is {current}"
        for node, way in self.world.ways.items():
            running = [p for m in self.world.of_node(node) for p in m.replicas if p.replica.manager.speaking.runs]
            if way.stands_by and len(running) != 1 and not self._given_up(node):
                return f"{len(running)} replicas of {node} run"
        for source in self.world.sources:
            if not source.at_work:
                return f"{source.name} has no publisher at work"
        for name, picture in (("client", self.world.picture), ("late client", self.world.latecomer)):
            if picture is not None and picture.lost is not None:
                raise Violation("retention", f"the {name} was told that its stream is gone: {picture.lost}")
            if picture is not None and picture.stable < current:
                return f"the {name} is stable only up to {picture.stable}, it is {current}"
        for plan in self._scenario.nodes:
            if self.world.progress(plan.name) < current:
                return f"what is published of {plan.name} is at {self.world.progress(plan.name)}, it is {current}"
        return None if self.world.past is None else self.world.past.unaware()

    def _given_up(self, node: str) -> bool:
        return all(machine.given_up is not None for machine in self.world.of_node(node))

    def _end(self) -> None:
        """End all sources; everything else then ends, too."""
        for machine in self.world.sources:
            if isinstance(machine.current, PublisherProcess):
                machine.current.end()
        last = FOREVER // self._scenario.width_us
        deadline = self._scheduler.now_us + END_MAX_US
        while self.world.progress(QUERY) < last or self.world.picture.stable < last:
            if self._scheduler.now_us > deadline:
                stable = {p.name: p.replica.manager.f_s for machine in self.world.replicas for p in machine.replicas}
                detail = f"progress {self.world.progress(QUERY)}, client {self.world.picture.stable}, {stable}"
                raise Violation("end", f"after END: {detail}")
            self._scheduler.run_until(self._scheduler.now_us + LOOK_US)


def lives(scenario: Scenario, keep_trace: bool = False) -> Iterator[Simulation]:
    """The lives of an app in a scenario; run each before requesting the next."""
    parts = split(scenario)
    life = Simulation(parts[0], keep_trace)
    yield life
    for part in parts[1:]:
        life = Simulation(part, keep_trace, end(life.world, part.faults[0]))
        yield life
