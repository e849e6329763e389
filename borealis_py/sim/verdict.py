"""Judging a world that is over: every oracle of protocol A5, node by node, against the naive recomputation."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.sim import oracles
from borealis_py.sim.kernel import QUERY
from borealis_py.sim.oracles import SETTLE_US
from borealis_py.sim.scenario import SECOND, NodePlan
from borealis_py.sim.truth import SourceTruth, compute_all, read_source
from borealis_py.sim.violation import Violation
from borealis_py.sim.wiring import APP

if TYPE_CHECKING:
    from borealis_py.sim.world import World

SKEW_US = 10_000


def judge(world: World) -> None:
    """Raises Violation."""
    s, watching = world.scenario, world.watching
    watching.close()
    sources = _sources(world)
    truths = compute_all(sources, s.nodes, s.width_us, s.span)
    for redos in world.wiring.redos:
        if redos.disagreements and not s.eaten:
            raise Violation("redo", redos.disagreements[0])
    letters = world.log.committed(Feed(topics.deadletter(APP)))
    for plan in s.nodes:
        truth = truths[plan.name]
        for k in range(plan.replicas):
            log = world.log.committed(Feed(topics.replica(APP, plan.name, k)))
            oracles.stable_records(f"{plan.name}.r{k}", log, truth, world.origin)
        oracles.dead_letters(plan.name, letters, truth, world.progress(plan.name))
    rows = world.log.committed(Feed(topics.stream(APP, QUERY)))
    oracles.corrected(rows, watching.progress_seen, truths[QUERY])
    oracles.client(world.picture, truths[QUERY])
    if world.latecomer is not None:
        oracles.client(world.latecomer, truths[QUERY])
    Delays(world, sources).judge()


def _sources(world: World) -> dict[str, SourceTruth]:
    s = world.scenario
    return {
        seat.name: read_source(
            seat.name, world.log.committed(seat.feed), s.width_us, world.origin, s.timing.ahead_max_us
        )
        for seat in world.sources
    }


class Delays:
    """Everything that was promised about time."""

    def __init__(self, world: World, sources: Mapping[str, SourceTruth]) -> None:
        self.world, self.scenario, self.watching = world, world.scenario, world.watching
        self.closings = {
            seat.name: [
                (closed, world.log.broker.partition(seat.feed).appended_us[offset])
                for closed, offset in sources[seat.name].closings
            ]
            for seat in world.sources
        }

    def judge(self) -> None:
        s = self.scenario
        if self._memory_is_enough:  # a source that is throttled counts as unreachable (R6)
            for plan in s.nodes:
                for k in range(plan.replicas):
                    self._needless(plan, k)
                    self._avoidable(plan, k)
        for (node, k), ran_us in self.watching.watch.ran_us.items():
            oracles.premature(f"{node}.r{k}", ran_us, s.width_us, -2 * SKEW_US - s.ahead_us)
        if not s.suspends and self._memory_is_enough:
            self._availability()

    @property
    def _memory_is_enough(self) -> bool:
        s = self.scenario
        return s.timing.buffer_rows_max > 200_000

    def _needless(self, plan: NodePlan, k: int) -> None:
        s = self.scenario
        if s.ahead_us:
            return  # a clock that is ahead makes buckets before their time, and gives others up so much earlier
        log = self.world.log.committed(Feed(topics.replica(APP, plan.name, k)))
        key = (plan.name, k)
        pairs = {
            name: (self.watching.readable[key][name], self.closings[name])
            for name in plan.inputs
            if name in self.closings
        }
        ran_us = self.watching.watch.ran_us.get(key, {})
        oracles.needless(f"{plan.name}.r{k}", log, ran_us, pairs, s.width_us, s.timing.delta_us)

    def _avoidable(self, plan: NodePlan, k: int) -> None:
        """Nothing tentative while the sources are clean and a replica of each stream is STABLE and readable."""
        s, watching = self.scenario, self.watching
        key = (plan.name, k)
        for at, _, bucket in watching.watch.began.get(key, ()):
            first = bucket * s.width_us - SETTLE_US - s.ahead_us
            if all(self._fine(name, key, first, at) for name in plan.inputs):
                detail = f"{plan.name}.r{k}: bucket {bucket} ran tentatively, and all its inputs were there"
                raise Violation("avoidable", detail, bucket, plan.name)

    def _fine(self, name: str, reader: tuple[str, int], first: int, at: int) -> bool:
        """This input was to be had all the time, stably."""
        watching = self.watching
        if not watching.paths[reader][name].covers(first, at):
            return False
        if name in watching.sources:
            return watching.sources[name].covers(first, at)
        replicas = self.world.wiring.plans[name].replicas
        return any(watching.steady[name, j].covers(first, at) for j in range(replicas))

    def _availability(self) -> None:
        s, world = self.scenario, self.world
        picture = world.picture
        if picture.lost is not None:
            return
        last = min(picture.seen, world.buckets.of(world.start_us + s.heal_us - SECOND))
        world.asked, world.worst_us = oracles.availability(
            picture.arrival,
            range(world.origin + 2, last),
            s.width_us,
            s.threshold_max_us + self._failure_free_us(),
            lambda first, source_until, until: self._way(QUERY, first, source_until, until),
        )

    def _way(self, node: str, first: int, source_until: int, until: int) -> bool:
        """Some source is clean, and from it to this node's output one replica after the other."""
        watching = self.watching
        plan = self.world.wiring.plans[node]
        for name in plan.inputs:
            if not any(watching.paths[node, k][name].covers(first, until) for k in range(plan.replicas)):
                continue
            if name in watching.sources:
                if watching.sources[name].covers(first, source_until):
                    return True
            elif self._way(name, first, source_until, until):
                return True
        return False

    def _failure_free_us(self) -> int:
        """The longest that a bucket takes to the client when all is well: at each node messages, turns; skew."""

        class Longest(random.Random):
            def random(self) -> float:
                return 1.0

        s = self.scenario
        message = s.latencies.append(Longest())
        return self.world.wiring.depth * (4 * message + 2 * s.turn_us[1]) + SKEW_US + 1_000
