"""Faults of a foreign topic: of the plain producer that writes it, and of the ingresses that copy it.

Killed ingresses are started again by the drill, as `borealis up`'s supervisor or a container's restart policy does.
"""

from __future__ import annotations

from tests.chaos.acks import speak
from tests.chaos.arena import Arena, Steps
from tests.chaos.faults import INGRESSES, Fault
from tests.harness import family
from tests.harness.network import FOREIGN
from tests.harness.waiting import wall_us


def producer_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of the producer; its successor goes on where the topic ends."""
    it.cluster.feeders[FOREIGN].kill()
    yield it.after(fault.s)
    yield it.broker_there
    before = it.cluster.acknowledged()
    it.cluster.foreign.produce()
    yield from _copied(it, before)


def producer_paused(it: Arena, fault: Fault) -> Steps:
    """SIGSTOP of the producer, SIGCONT: what it produces then is of then."""
    there = it.pause(family.tree(it.cluster.feeders[FOREIGN]))
    yield it.after(fault.s)
    before = it.cluster.acknowledged()
    it.resume(there)
    yield from _copied(it, before)


def producer_cut(it: Arena, fault: Fault) -> Steps:
    """Its link is cut: rows that it holds keep the times at which they were made, and none of them may be late."""
    it.links.cut(fault.on, fault.more)
    yield it.after(fault.s)
    before = it.cluster.acknowledged()
    it.links.heal(fault.on)
    yield from _copied(it, before)


def ingress_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of one; the other takes over if it was the owner, and it starts again as standby."""
    before = it.cluster.acknowledged()
    it.cluster.foreign.ingresses[_index(fault)].kill()
    yield it.after(fault.s)
    yield it.broker_there
    it.cluster.foreign.copy(_index(fault))
    yield from _copied(it, before)


def ingress_killed_starting(it: Arena, fault: Fault) -> Steps:
    """kill -9 of one, and of the one that was started in its place, while that starts."""
    before = it.cluster.acknowledged()
    it.cluster.foreign.ingresses[_index(fault)].kill()
    yield it.broker_there
    it.cluster.foreign.copy(_index(fault))
    yield it.after(fault.s)
    it.cluster.foreign.ingresses[_index(fault)].kill()
    it.cluster.foreign.copy(_index(fault))
    yield from _copied(it, before)


def both_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of both: nobody copies until one is back."""
    for index in range(len(INGRESSES)):
        it.cluster.foreign.ingresses[index].kill()
    yield it.after(fault.s)
    yield it.broker_there
    before = it.cluster.acknowledged()
    for index in range(len(INGRESSES)):
        it.cluster.foreign.copy(index)
    yield from _copied(it, before)


def ingress_paused(it: Arena, fault: Fault) -> Steps:
    """SIGSTOP of one, SIGCONT: where the other has taken over meanwhile, what it goes on with counts for nothing."""
    before = it.cluster.acknowledged()
    there = it.pause(family.tree(it.cluster.foreign.ingresses[_index(fault)]))
    yield it.after(fault.s)
    it.resume(there)
    yield from _copied(it, before)


def ingress_cut(it: Arena, fault: Fault) -> Steps:
    """One's link to the broker is cut, in one direction or both."""
    before = it.cluster.acknowledged()
    it.links.cut(fault.on, fault.more)
    yield it.after(fault.s)
    it.links.heal(fault.on)
    yield from _copied(it, before)


def _index(fault: Fault) -> int:
    return INGRESSES.index(fault.on)


def _copied(it: Arena, before: dict[str, int]) -> Steps:
    """The producer goes on, and who is not impaired by another fault has seen results of now."""
    yield lambda: speak(it, (FOREIGN,), before)
    now = wall_us()
    yield lambda: all(it.well([m], now) or it.impaired.now(str(m)) for m in it.plan.members)


DOING = {
    "producer killed": producer_killed,
    "producer paused": producer_paused,
    "producer cut": producer_cut,
    "ingress killed": ingress_killed,
    "ingress killed starting": ingress_killed_starting,
    "ingresses killed": both_killed,
    "ingress paused": ingress_paused,
    "ingress cut": ingress_cut,
}
