"""Aimed faults: they wait for a failpoint instead of a time, and strike at the first one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from borealis_py.simulation.cluster.machines import ReplicaMachine
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.fault_kinds import AT_SUBJECT, KINDS, Failpoint, FaultTarget
from borealis_py.simulation.scenario import Fault


class Failpoints:
    """Armed faults, by the failpoint they wait for."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._armed: dict[Failpoint, list[tuple[Fault, Callable[[Fault], object]]]] = {aim: [] for aim in Failpoint}

    def arm(self, fault: Fault, strike: Callable[[Fault], object]) -> None:
        """Arm a fault. `strike` is called with the fault as it happens: with its replica and its times."""
        assert fault.aim is not None
        self._armed[fault.aim].append((fault, strike))

    def come(self, aim: Failpoint, subject: ReplicaMachine) -> None:
        """A replica has reached this failpoint. The fault strikes right after the current action."""
        armed = self._armed[aim]
        if not armed:
            return
        self._armed[aim] = []
        world = self._world
        now = world.scheduler.now_us - world.start_us
        for fault, strike in armed:
            if now >= world.scenario.heal_us:
                continue
            until = min(world.scenario.heal_us, now + fault.until_us - fault.at_us)
            happening = replace(fault, index=self._index(fault, aim, subject), at_us=now, until_us=until)
            world.scheduler.after(0, partial(strike, happening))

    def _index(self, fault: Fault, aim: Failpoint, subject: ReplicaMachine) -> int:
        if KINDS[fault.kind].target is not FaultTarget.REPLICA:
            return fault.index
        replicas = self._world.replicas
        at = replicas.index(subject)
        if aim in AT_SUBJECT:
            return at
        others = [i for i, machine in enumerate(replicas) if machine is not subject and machine.node == subject.node]
        return others[fault.index % len(others)] if others else at
