"""Several lives of an app in one world: a reset deletes and recreates all topics under a new `app_uid`, while parts of
the previous life continue, and learn of it later or not at all (A0).

A world with resets is a sequence of worlds on the same log. Every oracle judges each up to its end. Survivors of it
must end by name; the next life must satisfy the same oracles as any.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from borealis_py.log import topics
from borealis_py.simulation.cluster.world import LivesOn, Past, SimulatedWorld, writes
from borealis_py.simulation.log.network import CutDirection, cut_of
from borealis_py.simulation.scenario import SECOND, Fault, Scenario
from borealis_py.simulation.toy_query import QUERY

if TYPE_CHECKING:
    from collections.abc import Callable

    from borealis_py.simulation.cluster.processes import Machine

RESET = "reset"
LIVES_ON = 0.6
"""Probability that a process affected by a reset survives it; at least one does."""
LATE_US = 2 * SECOND
"""Maximum delay of the records that the others had in flight."""
GAPS_US = (0, 0, 300_000, 1_500_000)
"""How long the app has no description."""
MODES = ("away", "asleep", "deaf", "half", "blind", "there")
"""What keeps a survivor from noticing: cut off from everything; not running; its records arrive, but it hears nothing;
or nothing about what it publishes; it cannot read the description; nothing does.
"""


def split(scenario: Scenario) -> list[Scenario]:
    """One scenario per life. Faults end with the life in which they began; each life but the first begins with its
    reset, which is over when the survivors meet the new topics.
    """
    resets = [f for f in scenario.faults if f.kind == RESET and f.at_us < scenario.heal_us]
    if not resets:
        return [replace(scenario, faults=tuple(f for f in scenario.faults if f.kind != RESET))]
    begins, ends = [0, *(f.at_us for f in resets)], [*(f.at_us for f in resets), scenario.heal_us]
    lives: list[Scenario] = []
    for life, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        struck = [f for f in scenario.faults if begin <= f.at_us < end and f.kind != RESET]
        faults = [*(resets[life - 1 : life] if life else ()), *struck]
        moved = tuple(replace(f, at_us=f.at_us - begin, until_us=min(f.until_us, end) - begin) for f in faults)
        lives.append(replace(scenario, faults=moved, heal_us=end - begin))
    followed = zip(lives[:-1], resets, strict=True)
    return [*(replace(s, reset=about_of(f), ends=False, lost=()) for s, f in followed), lives[-1]]


def about_of(fault: Fault) -> str:
    """What the reset is about; after a slash its detail may name a mode."""
    return fault.detail.partition("/")[0]


def end(world: SimulatedWorld, fault: Fault) -> Past:
    """Do what `up --reset` does: delete the description, then all topics, and fence the writers."""
    rng = random.Random(f"{RESET} {world.scenario.seed} {world.wiring.life} {fault.detail}")
    world.over = world.wiring.over = True
    mode = fault.detail.partition("/")[2]
    survivors = [
        _part(world, machine, mode or rng.choice(MODES)) for machine in _survivors(rng, world, about_of(fault))
    ]
    left = {id(one.machine) for one in survivors}
    for machine in (*world.sources, *world.replicas, world.clients):
        if id(machine) not in left:
            for process in machine.processes if rng.random() < 0.5 else ():
                world.log.late(process.name, 1 + rng.randrange(LATE_US))
            machine.give_up("its life of the app is over")
            machine.crash()
    admin, names = world.log.client("up").admin(), [spec.name for spec in world.wiring.specs]
    settings = topics.settings(world.wiring.app)
    admin.delete([settings])
    admin.delete([name for name in names if name != settings])
    admin.fence([topics.transactional_id(world.wiring.app, plan.name) for plan in world.scenario.nodes])
    world.scheduler.run_until(world.scheduler.now_us + rng.choice(GAPS_US))
    return Past(world, survivors)


def _survivors(rng: random.Random, world: SimulatedWorld, about: str) -> list[Machine]:
    machines_of: dict[str, Callable[[], list[Machine]]] = {
        "replica": lambda: [*world.replicas],
        "publisher": lambda: [*world.sources],
        "writer": lambda: [machine for machine in world.replicas if any(map(writes, machine.replicas))],
        "all": lambda: [*world.sources, *world.replicas, world.clients],
    }
    machines = machines_of[about]()
    found = [machine for machine in machines if rng.random() < LIVES_ON or about == "writer"] or machines[:1]
    if world.clients not in found and rng.random() < LIVES_ON:
        found.append(world.clients)
    return found


def _part(world: SimulatedWorld, machine: Machine, mode: str) -> LivesOn:
    """Separate a survivor from what happens from now on."""
    app, settings = world.wiring.app, topics.settings(world.wiring.app)
    published = {
        topics.stream(app, QUERY),
        topics.deadletter(app),
        topics.acks(app),
        *(topics.progress(app, plan.name) for plan in world.scenario.nodes),
    }
    cuts = {
        "away": cut_of(),
        "deaf": cut_of(way=CutDirection.IN),
        "half": cut_of(published, CutDirection.IN, but=True),
        "blind": cut_of({settings}),
    }
    one = LivesOn(machine, mode, cuts.get(mode))
    if one.cut is not None:
        machine.cut(one.cut)
    elif mode == "asleep":
        machine.pause()
    return one
