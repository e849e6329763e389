"""Judges everything that is promised about time, in a finished world."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.records import RangeHeader, StableHeader, unpack_stream
from borealis_py.simulation.checkers import oracles
from borealis_py.simulation.checkers.observer import Observer
from borealis_py.simulation.checkers.oracles import SETTLE_US
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.fault_kinds import KINDS, FaultTarget
from borealis_py.simulation.reference_model import SourceTruth
from borealis_py.simulation.scenario import SimulatedNode
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from sunion.model import FOREVER

SKEW_US = 10_000
LOOK_US = 200_000
"""Time from a record in a log to a replica's reaction: the transfers, two turns, a query for the ends."""
Sources = Mapping[str, SourceTruth]
READ_US = 500_000
"""Time within which a replica that can reach a log has read it to its end, if that matters."""


class DelayChecks:
    """Checks everything that is promised about time."""

    def __init__(self, world: SimulatedWorld, observer: Observer, sources: Sources) -> None:
        self.world = world
        self.scenario = world.scenario
        self.observer = observer
        self.closings = {
            machine.name: [
                (closed, world.log.broker.partition(machine.feed).appended_us[offset])
                for closed, offset in sources[machine.name].closings
            ]
            for machine in world.sources
        }
        self._app_uid = world.wiring.app_uid
        self._stable: dict[tuple[str, int], dict[int, int]] = {}

    def judge(self) -> None:
        s = self.scenario
        if self._memory_is_enough:  # a throttled source counts as unreachable (R6.2)
            for plan in s.nodes:
                for k in range(plan.replicas):
                    self._needless(plan, k)
                    self._avoidable(plan, k)
        for plan in s.nodes:
            for k in range(plan.replicas):
                self._premature(plan, k)
        if self._memory_is_enough:
            self._availability()
            self._content()

    @property
    def _memory_is_enough(self) -> bool:
        s = self.scenario
        return s.timing.buffer_rows_max > 200_000

    def _ahead_us(self, bucket: int) -> int:
        """A clock that is ahead creates buckets before their time, and gives up on others that much earlier."""
        width_us, start = self.scenario.width_us, self.world.start_us
        return self.scenario.ahead_us(bucket * width_us - SETTLE_US - start, (bucket + 1) * width_us - start)

    def _in_time_us(self, bucket: int) -> int:
        """By when a healthy source closes the bucket."""
        return (bucket + 1) * self.scenario.width_us + self.scenario.timing.delta_us - self._ahead_us(bucket)

    def _closed_us(self, source: str, bucket: int) -> int:
        """When the source closed it."""
        at = bisect_right(self.closings[source], (bucket, FOREVER))
        return self.closings[source][at][1] if at < len(self.closings[source]) else FOREVER

    def closed_by(self, source: str, at_us: int) -> int:
        """The first bucket that the source's log left open at that time."""
        found = [closed for closed, appended_us in self.closings[source] if appended_us <= at_us]
        return max(found, default=self.world.origin)

    def _premature(self, plan: SimulatedNode, k: int) -> None:
        s = self.scenario
        # what upstream nodes have waited need not be waited for again (B12)
        wait_us = s.timing.delta_us if self.closings.keys() >= set(plan.inputs) else 0

        def least_us(bucket: int, lacks: bool) -> int:
            return (bucket + 1) * s.width_us + (wait_us if lacks else 0) - 2 * SKEW_US - self._ahead_us(bucket)

        log = self.world.log.committed(Feed(topics.replica(APP, plan.name, k)))
        ran_us = self.observer.watch.ran_us.get((plan.name, k), {})
        oracles.premature(f"{plan.name}.r{k}", log, ran_us, least_us, self._app_uid)

    def _needless(self, plan: SimulatedNode, k: int) -> None:
        log = self.world.log.committed(Feed(topics.replica(APP, plan.name, k)))
        key = (plan.name, k)
        origins = self.world.wiring.origins
        upstream = {source for name in plan.inputs if name not in self.closings for source in origins[name]}
        pairs = {  # not those that an upstream node reads, too: it may have missed them
            name: (self.observer.readable[key][name], self.closings[name])
            for name in plan.inputs
            if name in self.closings and name not in upstream
        }
        ran_us = self.observer.watch.ran_us.get(key, {})
        oracles.needless(f"{plan.name}.r{k}", log, ran_us, pairs, self._in_time_us, self._app_uid)

    def _avoidable(self, plan: SimulatedNode, k: int) -> None:
        """No bucket is tentative if all its inputs were stable in a log that this replica could read."""
        key = (plan.name, k)
        for at, _, bucket in self.observer.watch.began.get(key, ()):
            if all(self._there(name, key, bucket, at) for name in plan.inputs):
                detail = f"{plan.name}.r{k}: bucket {bucket} ran tentatively, and all its inputs were there"
                raise Violation("avoidable", detail, bucket)
            limit = self._limit(plan.name, bucket, at)
            if at < limit and all(self._comes(name, plan.name, k, bucket, limit) for name in plan.inputs):
                detail = f"{plan.name}.r{k}: bucket {bucket} ran tentatively, and all its inputs came in time"
                raise Violation("avoidable", detail, bucket)

    def _limit(self, node: str, bucket: int, at: int) -> int:
        """Until when this node may wait for the bucket under any threshold in force by `at` (R13.1), minus the time to
        look.
        """
        s, wiring = self.scenario, self.world.wiring
        hops = wiring.hops[node]
        least_us = s.threshold_min_us(at - self.world.start_us)
        wait_us = least_us - s.timing.slack_of(wiring.depth) - hops * s.timing.hop_us
        return (bucket + 1) * s.width_us + wait_us - LOOK_US - self._ahead_us(bucket)

    def _comes(self, name: str, node: str, k: int, bucket: int, limit: int) -> bool:
        """Whether this input, healthy throughout, supplied the stable bucket in time: a source at once, a stream by a
        replica that was STABLE and readable (B15).
        """
        observer, path = self.observer, self.observer.paths[node, k][name]
        first = bucket * self.scenario.width_us - SETTLE_US - self._ahead_us(bucket)
        if name in self.closings:
            said = self._closed_us(name, bucket)
            in_time = said < self._in_time_us(bucket)
            return in_time and observer.sources[name].covers(first, said) and path.covers(first, said)
        for j in range(self.world.wiring.plans[name].replicas):
            said = self._said(name, j).get(bucket, FOREVER)
            well = said < limit and observer.steady[name, j].covers(first, said)
            if well and path.covers(first, said):
                return True
        return False

    def _there(self, name: str, reader: tuple[str, int], bucket: int, at: int) -> bool:
        """Whether this input's bucket was stable in a log long enough before `at`."""
        since = at - READ_US
        if not self.observer.readable[reader][name].covers(since, at):
            return False
        if name in self.closings:
            return self._closed_us(name, bucket) < since
        replicas = self.world.wiring.plans[name].replicas
        return any(self._said(name, j).get(bucket, FOREVER) < since for j in range(replicas))

    def _said(self, node: str, k: int) -> dict[int, int]:
        """When all partitions of a replica's topic had each stable bucket (of empty ones only the last of a range)."""
        if (node, k) not in self._stable:
            feeds = topics.own_feeds(APP, node, k, self.world.wiring.plans[node].exchange)
            found = [self._first(feed) for feed in feeds]
            self._stable[node, k] = {
                bucket: max(first[bucket] for first in found) for bucket in set.intersection(*map(set, found))
            }
        return self._stable[node, k]

    def _first(self, feed: Feed) -> dict[int, int]:
        times, found = self.world.log.broker.partition(feed).appended_us, dict[int, int]()
        for record in self.world.log.committed(feed):
            header, _ = unpack_stream(record.value)
            if header.app_uid != self._app_uid:
                continue
            if isinstance(header, StableHeader) and header.part + 1 == header.parts:
                found.setdefault(header.bucket, times[record.offset])
            elif isinstance(header, RangeHeader):
                found.setdefault(header.end - 1, times[record.offset])
        return found

    def _availability(self) -> None:
        world = self.world
        world.asked, world.worst_us = oracles.availability(
            world.picture.arrival,
            range(world.origin + 2, world.buckets.of(world.scheduler.now_us)),
            self.scenario.width_us,
            self._bound_us,
            lambda first, source_until, until: (
                not (self._suspended(until) or self._overloaded(first, until))
                and self.observer.client.covers(first, until)
                and self._way(QUERY, first, source_until + self.scenario.lag_us, until)
            ),
        )

    def _bound_us(self, end: int) -> int:
        """The promised time of a bucket that ends at `end`, relative to that end."""
        free_us = self._failure_free_us
        return self.scenario.threshold_us(end + free_us - self.world.start_us) + free_us

    def _suspended(self, until: int) -> bool:
        """A node that suspends emits nothing, and its readers do without it."""
        return until >= self.world.start_us + self.scenario.speaks_until_us

    def _overloaded(self, first: int, until: int) -> bool:
        """Whether a replica worked on one bucket of more rows than come at the rate: a bucket is run whole.

        Sources that were cut off send what has come meanwhile with one time.
        """
        wiring, us = self.world.wiring, self.scenario.threshold_max_us
        return any(at < until and first < at + us + 2 * wiring.depth * work_us for at, work_us in wiring.overloads)

    def _content(self) -> None:
        """No bucket lacks a source that was healthy, as was every replica on the way of its rows.

        Not required where the promise is weaker (RELIABILITY.md): while a replica cannot reach part of the log, its
        queries for the ends fail; a lower threshold makes buckets overdue at every node at once (B19); and a node that
        corrects under "delay" is late for a reader that does not wait.
        """
        s, world = self.scenario, self.world
        for bucket, missing in world.picture.missing.items():
            end = (bucket + 1) * s.width_us
            first = bucket * s.width_us - SETTLE_US - self._ahead_us(bucket)
            until = end + self._bound_us(end)
            if self._suspended(until) or self._weaker(first, until) or self._overloaded(first, until):
                continue
            for source in missing:
                in_time = self._closed_us(source, bucket) < self._in_time_us(bucket)
                clean = self.observer.sources[source].covers(first, end + s.width_us)
                if in_time and clean and self._all_well(QUERY, source, first, until):
                    detail = f"bucket {bucket} came without {source}, and all on its way was well"
                    raise Violation("content", detail, bucket)

    def _weaker(self, first: int, until: int) -> bool:
        """Whether a replica could not reach part of the log then, or the threshold changed."""
        start = self.world.start_us
        for fault in self.world.struck:
            kind = KINDS[fault.kind]
            cut = kind.fault_class in ("F4", "F5", "F10") and kind.target is not FaultTarget.SOURCE
            if (cut or fault.kind == "threshold") and start + fault.at_us < until and start + fault.until_us > first:
                return True
        return False

    def _all_well(self, node: str, source: str, first: int, until: int) -> bool:
        """Whether every replica of every node between a source and this node's output was healthy."""
        wiring, observer = self.world.wiring, self.observer
        plan = wiring.plans[node]
        for name in plan.inputs:
            if source not in wiring.origins[name]:
                continue
            if not all(observer.paths[node, k][name].covers(first, until) for k in range(plan.replicas)):
                return False
            # a replica that was away waits D again, and its readers do not wait for that
            since = first - self.scenario.threshold_max_us
            if name != source and not (self._prompt(name, since, until) and self._all_well(name, source, since, until)):
                return False
        return True

    def _prompt(self, node: str, first: int, until: int) -> bool:
        """Whether none of its replicas delayed new buckets while it corrected (policy "delay"), or had a backlog."""
        replicas = range(self.world.wiring.plans[node].replicas)
        return all(self.observer.prompt[node, k].covers(first, until) for k in replicas)

    def _way(self, node: str, first: int, source_until: int, until: int) -> bool:
        """Whether there is a clean source, and a clean chain of replicas from it to this node's output."""
        observer, backlog = self.observer, self.scenario.backlog
        plan = self.world.wiring.plans[node]
        for name in plan.inputs:
            if not any(observer.paths[node, k][name].covers(first, until, backlog) for k in range(plan.replicas)):
                continue
            if name in observer.sources:
                if observer.sources[name].covers(first, source_until, backlog):
                    return True
            elif self._way(name, first, source_until, until):
                return True
        return False

    @cached_property
    def _failure_free_us(self) -> int:
        """The longest a bucket takes to the client without faults: messages and turns at each node; clock skew."""

        class Longest(random.Random):
            def random(self) -> float:
                return 1.0

        s = self.scenario
        message = s.latencies.append(Longest())
        turns_us = 2 * s.turn_us[1] + s.rows_us(s.turn_rows)
        return s.lag_us + self.world.wiring.depth * (4 * message + turns_us) + SKEW_US + 1_000
