"""Another app on the same log. Its name is a prefix of the first one's, or the other way round, and its nodes have the
same names. It suffers no fault, so it must not be affected by those of the first app (`checkers.neighbour`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from borealis_py.protocol.settings import Delays, Timing
from borealis_py.protocol.states import ReplicaState
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.builder import Builder
from borealis_py.simulation.cluster.client_model import ClientPicture
from borealis_py.simulation.cluster.machines import ReplicaMachine, SourceMachine
from borealis_py.simulation.cluster.roles import ReplicaProcess
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.scenario import SECOND, Scenario, SimulatedNode
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from sunion.view import Change

WRITERS_MAX = 3
"""Replicas that start together may fence each other before they have heard of each other."""
NODES = (SimulatedNode("n1", ("s0",), 2), SimulatedNode(QUERY, ("n1", "s1"), 2))


def calm(scenario: Scenario) -> Scenario:
    """A small app, on machines and links like those of the first one."""
    return Scenario(
        seed=scenario.seed,
        sources=2,
        nodes=NODES,
        width_us=100_000,
        span=3,
        rate=5,
        delays=Delays(3 * SECOND),
        timing=Timing(),
        message_us=scenario.message_us,
        turn_us=scenario.turn_us,
        poll_records_max=scenario.poll_records_max,
        heal_us=scenario.heal_us,
        ends=False,
        latecomer=False,
    )


class Neighbour:
    """The processes of the other app, on the same scheduler and log. `first`: the scenario of the first one."""

    def __init__(self, first: Scenario, scheduler: Scheduler, log: MemoryLog) -> None:
        self.app = first.neighbour
        self.scenario = calm(first)
        self.wiring = Builder(self.scenario, scheduler, log, self.app)
        self.wiring.make_topics()
        self.scheduler = scheduler
        self.log = log
        self.picture = ClientPicture(self.wiring.origin)
        self.sources = [SourceMachine(self.wiring, i, 0, _nothing) for i in range(self.scenario.sources)]
        self._replicas = [
            ReplicaMachine(self.wiring, plan.name, k, _nothing, self._turned, _nothing)
            for plan in NODES
            for k in range(plan.replicas)
        ]

    def owns(self, client: str) -> bool:
        """Whether this client of the log is one of its processes."""
        return client.startswith(self.wiring.prefix)

    def start_machines(self) -> None:
        for machine in (*self.sources, *self._replicas):
            machine.start_process()
        changed = partial(_told, self.scheduler, self.picture)
        self.wiring.client(f"{self.wiring.prefix}client", self.wiring.origin, changed, self.picture.end).wake()

    def _turned(self, machine: ReplicaMachine, process: ReplicaProcess) -> None:
        """Check that no replica of it restarts, diverges, or is fenced once it is the writer."""
        manager = process.replica.manager
        state, begun = manager.state, manager.publishing._attempt
        if begun > WRITERS_MAX:
            raise Violation("neighbour", f"{process.name} has begun to publish {begun} times: somebody fences it")
        if process.name != f"{machine.label}.1" or state not in (ReplicaState.RECOVERING, ReplicaState.STABLE):
            raise Violation("neighbour", f"{self.app}: {process.name} is {state.value}, and nothing was done to it")


def _told(scheduler: Scheduler, picture: ClientPicture, changes: Sequence[Change]) -> None:
    picture.apply(scheduler.now_us, changes)


def _nothing(*_: object) -> None:
    pass
