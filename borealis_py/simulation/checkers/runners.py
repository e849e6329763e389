"""Judges who runs (R17) by the world itself: its processes, and which faults are active. It knows no heartbeat."""

from __future__ import annotations

from borealis_py.log import topics
from borealis_py.simulation.cluster.machines import ReplicaMachine
from borealis_py.simulation.cluster.roles import ReplicaProcess, StandbyProcess
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.fault_kinds import KINDS, FaultTarget
from borealis_py.simulation.violation import Violation

LOOK_US = 100_000
NOBODY_BEATS = 15
"""So many heartbeats may pass until a standby runs: 1.5 s."""
TWO_BEATS = 30
"""So long two may run where nothing is wrong. What is in the middle of a turn cannot step back."""
LOCAL = (FaultTarget.SOURCE, FaultTarget.REPLICA)
"""What a fault of these kinds does to a machine, the machine shows."""


class RunnersOracle:
    """Looks at the nodes with standbys ten times a second."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._nodes = [plan.name for plan in world.scenario.nodes if world.scenario.stands_by(plan.name)]
        self._ways = dict(world.ways)
        now = world.scheduler.now_us
        self._well_since = dict.fromkeys(((machine.node, machine.index) for machine in world.replicas), now)
        self._somebody = dict.fromkeys(self._nodes, now)
        self._one = dict.fromkeys(self._nodes, now)
        self._gone = dict.fromkeys(self._nodes, 0)

    def start(self) -> None:
        """Begin to look."""
        if self._nodes:
            self._look()

    def _look(self) -> None:
        world = self._world
        if world.over:
            return
        world.scheduler.after(LOOK_US, self._look)
        now, beat_us = world.scheduler.now_us, world.scenario.timing.heartbeat_us
        calm = not self._log_is_in_trouble(now)
        for node in self._nodes:
            machines, way = world.of_node(node), world.ways[node]
            changed = not way.stands_by or way != self._ways[node]
            self._ways[node] = way
            for machine in machines:
                if changed or not (calm and self._well(machine)):
                    self._well_since[node, machine.index] = now
            running = [machine for machine in machines if _runs(machine)]
            well = [machine for machine in machines if now - self._well_since[node, machine.index] > 0]
            gone = sum(machine.given_up is not None for machine in machines)
            took_its_turn, self._gone[node] = gone != self._gone[node], gone  # a start that ends at once is never seen
            if running or not well or took_its_turn or any(_starts(machine) for machine in machines):
                self._somebody[node] = now
            if len(running) < 2 or len(well) < len(machines) or any(_silent(machine) for machine in machines):
                self._one[node] = now
            since = max(self._somebody[node], min((self._well_since[node, m.index] for m in well), default=now))
            slow_us = world.scenario.turn_us[1] * NOBODY_BEATS
            if now - since > NOBODY_BEATS * beat_us + slow_us:
                raise Violation("runs", f"{node}: nobody has run for {(now - since) / 1e6:.1f} s, and a standby lives")
            if now - self._one[node] > TWO_BEATS * beat_us:
                labels = [machine.label for machine in running]
                raise Violation("runs", f"{node}: {labels} have run for {(now - self._one[node]) / 1e6:.1f} s")

    def _log_is_in_trouble(self, now: int) -> bool:
        start = self._world.start_us
        return any(
            KINDS[fault.kind].target not in LOCAL and start + fault.at_us <= now < start + fault.until_us
            for fault in self._world.struck
        )

    def _well(self, machine: ReplicaMachine) -> bool:
        here = (topics.control(self._world.wiring.app), machine.spec.settings_feed.topic)
        lives = isinstance(machine.current, ReplicaProcess | StandbyProcess)
        return lives and not machine.zombies and not machine.troubled and machine.reaches_all(here)


def _runs(machine: ReplicaMachine) -> bool:
    return any(p.replica.manager.speaking.runs for p in machine.replicas if not p.ticker.paused)


def _silent(machine: ReplicaMachine) -> bool:
    """Whether a turn there takes so long that the others hear nothing."""
    return any(process.silent for process in machine.replicas)


def _starts(machine: ReplicaMachine) -> bool:
    """Whether a replica starts there: the others hear that it runs."""
    at = machine.current
    return isinstance(at, StandbyProcess) and at.starts and not at.ticker.paused
