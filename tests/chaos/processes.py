"""Faults of replicas: their processes, what Spark runs for them, and their links."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psutil

from borealis_py.app.supervisor.exit_codes import OTHER_LIFE
from tests.chaos.arena import Arena, Steps, publishing
from tests.chaos.faults import HUNG, CameToNothing, Fault
from tests.harness import family
from tests.harness.plan import Member
from tests.harness.waiting import wall_us

TAKE_OVER_S = 12.0
"""A peer that did not take over within this has nothing to publish, for want of an input."""
HANG_BUCKETS = 15
"""That many make a redo a job for Spark (`inline_buckets`; `inline_us` of the run's plan is 0)."""
SETTLED_S = 20.0


def killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of one replica's process, with Spark of its driver alone; started again after a while."""
    yield from _restart(it, [fault.member], fault.s)


def node_killed(it: Arena, fault: Fault) -> Steps:
    """The same for all replicas of a node at once; of Spark's tasks, which start again at once, their workers."""
    if it.plan.apart:
        yield from _restart(it, [m for m in it.plan.processes if m.node == fault.on], fault.s)
        return
    members = [m for m in it.plan.members if m.node.partition(".")[0] == fault.on]
    yield from _workers_killed(it, members)


def _restart(it: Arena, victims: list[Member], down_s: float) -> Steps:
    members = [part for victim in victims for part in it.parts(victim)]
    with it.impairing(*map(str, members)):
        begin = wall_us()
        for victim in victims:
            it.kill_alone(it.cluster.replicas[victim])
        yield it.after(down_s)
        yield it.broker_there
        it.cluster.start(*victims)
        yield it.ready(members, begin)


def killed_starting(it: Arena, fault: Fault) -> Steps:
    """kill -9 of one replica's process, and of the one that was started in its place, before that is ready."""
    members = it.parts(fault.member)
    with it.impairing(*map(str, members)):
        begin = wall_us()
        it.kill_alone(it.cluster.replicas[fault.member])
        yield it.broker_there
        it.cluster.start(fault.member)
        yield it.after(fault.s)
        it.kill_alone(it.cluster.replicas[fault.member])
        again = wall_us()
        it.cluster.start(fault.member)
        yield it.ready(members, again)
    if all("READY" in _between(it, member, begin, again) for member in members):
        raise CameToNothing("it was ready before it was killed again")


def _between(it: Arena, member: Member, begin_us: int, end_us: int) -> list[str]:
    """What happened to it between two wall times."""
    return [s.event for s in it.cluster.said(member, begin_us) if s.event and s.at_wall_us < end_us]


def old_life(it: Arena, fault: Fault) -> Steps:
    """A replica of another life of the app starts, as one that a reset elsewhere has left: it ends by name, and those
    of this life do not notice."""
    members, begin = it.parts(fault.member), wall_us()
    old = it.cluster.start_old(fault.member)
    yield lambda: old.popen.poll() is not None
    assert old.popen.returncode == OTHER_LIFE.code, f"code {old.popen.returncode}: {old.said[-2000:]}"
    end = wall_us()
    yield lambda: it.well(members, end)
    assert not any("STOPPED" in it.cluster.events(m, begin) for m in members), "it ended a replica of this life"


def jvm_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of the JVM of a replica's application, which runs its driver's and executors' part."""
    members = it.parts(fault.member)
    yield lambda: it.jvm(fault.member) is not None  # one may be starting, since something else had failed
    with it.impairing(*map(str, members)):
        begin = wall_us()
        with suppress(psutil.NoSuchProcess):
            jvm = it.jvm(fault.member)
            assert jvm is not None
            it.known |= set(jvm.children(recursive=True))
            jvm.kill()
        yield it.ready(members, begin)


def worker_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of the Python worker that runs one partition of a node, with whoever shares it."""
    yield from _workers_killed(it, [fault.member])


def _workers_killed(it: Arena, members: Sequence[Member]) -> Steps:
    yield lambda: all(map(it.worker, members))
    there = {worker.pid: worker for member in members if (worker := it.worker(member)) is not None}
    hit = it.beside(members)  # all are found before the first is gone
    with it.impairing(*map(str, hit)):
        begin = wall_us()
        for worker in there.values():
            worker.kill()
        yield it.ready(hit, begin)


def paused(it: Arena, fault: Fault) -> Steps:
    """SIGSTOP of a replica's process and all below it, SIGCONT."""
    victims = family.tree(it.cluster.replicas[fault.member])
    yield from _pause(it, it.parts(fault.member), victims, fault.s)


def driver_paused(it: Arena, fault: Fault) -> Steps:
    """The same of the driver alone: its tasks go on, and nobody answers what they ask."""
    yield from _pause(it, [], family.tree(it.cluster.replicas[fault.member])[:1], fault.s)
    yield lambda: it.well(it.parts(fault.member))


def worker_paused(it: Arena, fault: Fault) -> Steps:
    """The same of the Python worker that runs one partition of a node, with whoever shares it."""
    yield lambda: it.worker(fault.member) is not None
    worker = it.worker(fault.member)
    yield from _pause(it, it.beside([fault.member]), [] if worker is None else [worker], fault.s)


def _pause(it: Arena, members: list[Member], victims: list[psutil.Process], s: float) -> Steps:
    with it.impairing(*map(str, members)):
        there = it.pause(victims)
        yield it.after(s)
        it.resume(there)
        end = wall_us()
        yield lambda: it.well(members, end)


def cut(it: Arena, fault: Fault) -> Steps:
    """The link between one replica's process and the broker loses everything, in one direction or both."""
    members = it.parts(fault.member)
    with it.impairing(*map(str, members)):
        it.links.cut(fault.on, fault.more)
        yield it.after(fault.s)
        it.links.heal(fault.on)
        end = wall_us()
        yield lambda: it.well(members, end)


def reset(it: Arena, fault: Fault) -> Steps:
    """All connections of one replica's process end with an RST; nothing else does."""
    it.links.reset(fault.on)
    begin = wall_us()
    yield lambda: it.well(it.parts(fault.member), begin) or it.impaired.now(str(it.parts(fault.member)[0]))


def zombie_publisher(it: Arena, fault: Fault) -> Steps:
    """Who publishes a partition of the result is paused until a peer has taken over, and then for a while; it goes on
    with what it was about to commit."""
    found: list[Member] = []
    limit = it.after(TAKE_OVER_S)

    def known() -> bool:
        victim = publishing(it, fault.on)
        found[:] = [] if victim is None else [victim]
        return bool(found) or limit()

    yield known
    if not found:
        raise CameToNothing("nobody published")
    victim = found[0]
    process = it.plan.process(victim)
    with it.impairing(*map(str, it.parts(process))):
        begin = wall_us()
        there = it.pause(family.tree(it.cluster.replicas[process]))
        peers = [m for m in it.plan.members if m.node == victim.node and m != victim]
        limit = it.after(TAKE_OVER_S)
        yield lambda: _any_said(it, peers, "TOOK_OVER", begin) or limit()
        yield it.after(fault.s)
        it.resume(there)
        end = wall_us()
        yield lambda: it.well(it.parts(process), end)
    if not _any_said(it, peers, "TOOK_OVER", begin):
        raise CameToNothing("nobody took over")


def redo_hangs(it: Arena, fault: Fault) -> Steps:
    """A source is lost for a while, and the Python workers that are to correct it hang past every deadline."""
    members = it.parts(fault.member)
    begin = wall_us()
    yield it.doing(lambda: it.cluster.lose(HUNG))
    limit = it.after(SETTLED_S)
    yield lambda: any(_behind(it, m, begin) >= HANG_BUCKETS for m in members) or limit()
    there = it.pause(it.idle_workers(fault.member))
    yield it.doing(lambda: it.cluster.heal(HUNG))
    healed = wall_us()
    limit = it.after(SETTLED_S)
    yield lambda: _any_said(it, members, "REDO_FAILED", healed) or limit()
    it.resume(there)
    yield lambda: it.well(members, healed)
    if not _any_said(it, members, "REDO_FAILED", healed):
        raise CameToNothing("no redo hung" if there else "no worker was there to hang")


def _any_said(it: Arena, members: Sequence[Member], event: str, since_us: int) -> bool:
    return any(event in it.cluster.events(member, since_us) for member in members)


def _behind(it: Arena, member: Member, since_us: int) -> int:
    said = it.cluster.newest(member)
    return 0 if said is None or said.at_wall_us < since_us else said.f_l - said.f_s


DOING = {
    "replica killed": killed,
    "killed while starting": killed_starting,
    "old life": old_life,
    "driver killed": killed,
    "executor JVM killed": jvm_killed,
    "worker killed": worker_killed,
    "replica paused": paused,
    "driver paused": driver_paused,
    "worker paused": worker_paused,
    "link cut": cut,
    "link cut to": cut,
    "link cut from": cut,
    "connections reset": reset,
    "node killed": node_killed,
    "zombie publisher": zombie_publisher,
    "redo hangs": redo_hangs,
}
