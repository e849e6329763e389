"""The machines of a world, on which faults act: one per source, one per replica of each node."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from borealis_py.log import topics
from borealis_py.log.base import LogError
from borealis_py.log.description import OtherLife
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.standby import StoodBy
from borealis_py.node.starting import may_move
from borealis_py.query.recovery import RecoveryPlan
from borealis_py.simulation.cluster.builder import Builder
from borealis_py.simulation.cluster.checkpoints import Disk
from borealis_py.simulation.cluster.processes import LocalClock, Machine, Process
from borealis_py.simulation.cluster.roles import PublisherProcess, ReplicaProcess, StandbyProcess
from borealis_py.simulation.cluster.storage import FlakyEngine, Spark
from borealis_py.simulation.fault_kinds import Failpoint
from borealis_py.simulation.violation import Violation
from sunion.errors import RetentionLost

MOVES = 0.7
"""How often a successor that starts while its replica runs is one that moves (R17.16)."""


def _known_to_be_over(wiring: Builder, told: bool, why: str) -> None:
    """Raises Violation if a process reports that this life of the app is over although it is not."""
    if told and not wiring.over:
        raise Violation("life", why)


class SourceMachine(Machine):
    """The machine of a source's publisher. `failed`: drills that keep replicas from reading it."""

    def __init__(self, wiring: Builder, index: int, skew_us: int, changed: Callable[[], None]) -> None:
        super().__init__(f"{wiring.prefix}p{index}", wiring.log, self._make, changed)
        self.name = wiring.scenario.source_names[index]
        self.feed = wiring.source_feed(index)
        self.index = index
        self.failed = 0
        self.take_over = False
        self.clock = LocalClock(wiring.scheduler, 0, skew_us)
        self._wiring = wiring
        self._look = changed

    def _make(self, name: str) -> Process | None:
        try:
            process = self._wiring.publisher(self.index, name, self.clock, self.take_over, self.ended, self._look)
        except LogError:
            return None
        process.wake()
        return process

    def ended(self, process: Process) -> None:
        if isinstance(process, PublisherProcess) and process.forgotten:
            _known_to_be_over(self._wiring, process.other_life, process.forgotten)
            self.give_up(process.forgotten)
        super().ended(process)

    @property
    def at_work(self) -> bool:
        """Whether it publishes, in time."""
        return isinstance(self.current, PublisherProcess) and self.current.session.ready and not self.troubled

    @property
    def topics(self) -> frozenset[str]:
        """The topics that a publisher uses."""
        return frozenset((self.feed.topic,))


class ReplicaMachine(Machine):
    """The machine of a replica index of a node.

    Args:
        after: called after each turn. moment: called when writing a checkpoint begins, and when a standby takes over.
    """

    def __init__(
        self,
        wiring: Builder,
        node: str,
        index: int,
        changed: Callable[[], None],
        after: Callable[[ReplicaMachine, ReplicaProcess], None],
        moment: Callable[[Failpoint, ReplicaMachine], object],
    ) -> None:
        super().__init__(f"{wiring.prefix}{node}r{index}", wiring.log, self._make, changed)
        self.node = node
        self.index = index
        self.skew_us = 0
        self.spec: ReplicaSpec = wiring.spec(node, index)
        self._wiring = wiring
        self._after = after
        self._moment = moment

    def _make(self, name: str) -> Process | None:
        before = self.zombies[-1] if self.zombies else None
        runs = isinstance(before, ReplicaProcess) and before.replica.manager.speaking.runs
        try:
            spec = self._wiring.as_set(self.node, self.index, name)
        except LogError:
            return None
        if runs and may_move(spec) and random.Random(name).random() < MOVES:
            return self._run(spec, name, moves=True)
        if spec.recovery.idles:
            return self._stand_by(spec, name)
        return self._run(spec, name)

    def _stand_by(self, spec: ReplicaSpec, name: str) -> Process | None:
        begins = partial(self._moment, Failpoint.TAKE_OVER, self)
        how = spec, name, self.skew_us, self.ended, partial(self._take_over, spec), begins
        return self._started(name, lambda: self._wiring.standby(*how))

    def _take_over(self, spec: ReplicaSpec, standby: StandbyProcess) -> None:
        """The same process goes on as a replica."""
        process = self._run(spec, standby.name, standby.standby.stood_by())
        if process is None:
            self.ended(standby)
            return
        self.replace(standby, process)

    def _run(
        self, spec: ReplicaSpec, name: str, stood_by: StoodBy | None = None, moves: bool = False
    ) -> Process | None:
        def make() -> Process:
            return self._wiring.replica(
                spec,
                name,
                self.skew_us,
                self.ended,
                lambda process: self._after(self, process),
                lambda: self._moment(Failpoint.CHECKPOINT, self),
                stood_by,
                moves,
            )

        return self._started(name, make)

    def _started(self, name: str, make: Callable[[], Process]) -> Process | None:
        """Start a process. None: it could not, now or for good."""
        try:
            process = make()
        except OtherLife as exc:
            _known_to_be_over(self._wiring, True, f"{name}: {exc}")
            self.give_up(str(exc))
            return None
        except (LogError, OSError):
            return None
        except RetentionLost as exc:
            self._wiring.retention_errors.append(f"{name}: {exc}")
            self.give_up(str(exc))
            return None
        process.wake()
        return process

    def ended(self, process: Process) -> None:
        if isinstance(process, StandbyProcess | ReplicaProcess):
            if isinstance(process, ReplicaProcess) and process.lost:
                self._wiring.retention_errors.append(f"{process.name}: {process.lost}")
            self._for_good(process)
        super().ended(process)

    def _for_good(self, process: ReplicaProcess | StandbyProcess) -> None:
        """Check that a process that ended for good, and is not restarted, had a reason to."""
        if process.final:
            _known_to_be_over(self._wiring, process.other_life, f"{process.name}: {process.why}")
            self.give_up(process.why)
        by = process.superseded_by
        if by is not None and by not in (f"{self.label}.{n + 1}" for n in range(self._made)):
            raise Violation("superseded", f"{process.name} has made way for {by!r}, which has never run here")

    @property
    def disk(self) -> Disk:
        return self._wiring.disks[self.node][self.index]

    @property
    def spark(self) -> Spark:
        return self._wiring.sparks[self.node][self.index]

    @property
    def engine(self) -> FlakyEngine:
        return self._wiring.engines[self.node][self.index]

    @property
    def replicas(self) -> list[ReplicaProcess]:
        """Its processes."""
        return [p for p in self.processes if isinstance(p, ReplicaProcess)]

    @property
    def way(self) -> RecoveryPlan | None:
        """The way in which its process recovers; None: none runs."""
        at = self.current
        return at.way if isinstance(at, ReplicaProcess | StandbyProcess) else None

    @property
    def shares_number(self) -> bool:
        """Whether two of its processes have the same incarnation number: until one has read of the other, both write
        into one stream (B30)."""
        numbers = [process.replica.manager.identity.inc for process in self.replicas]
        return len(numbers) != len(set(numbers))

    def input_topics(self, index: int) -> frozenset[str]:
        """The topics of one input."""
        return frozenset(feed.topic for feed in self.spec.feeds(index))

    @property
    def topics(self) -> frozenset[str]:
        """All topics that a replica uses."""
        spec = self.spec
        mine = {f.topic for i in range(len(spec.inputs)) for f in spec.feeds(i)} | self.written
        return frozenset(mine | {spec.control_feed.topic, spec.settings_feed.topic})

    @property
    def written(self) -> frozenset[str]:
        """The topics that it writes: its own stream, and those it publishes to."""
        spec = self.spec
        return frozenset((spec.own_feeds[0].topic, *self.corrected))

    @property
    def corrected(self) -> frozenset[str]:
        """The topics that it publishes to."""
        spec = self.spec
        rows = {topics.stream(spec.app, spec.node)} if spec.corrected else set()
        return frozenset({spec.progress_feed.topic, topics.deadletter(spec.app)} | rows)
