"""Faults of what replicas depend on: sources and their publishers, the broker, disks; and of subscribers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import psutil
from kafka import KafkaProducer

from borealis_py.verify.description import place
from tests.chaos.acks import speak, speaks
from tests.chaos.arena import BROKER, SUBSCRIBER, Arena, Steps
from tests.chaos.faults import CameToNothing, Fault
from tests.harness import family
from tests.harness.broker import START_S
from tests.harness.network import BUCKET_US
from tests.harness.plan import Member
from tests.harness.poison import WHATS
from tests.harness.processes import Process
from tests.harness.waiting import PATIENCE_S, wall_us

AGAIN_S = 8.0
"""A second failure during STABILIZATION that did not show by then came too late, or was masked."""
NOTICE_S = 0.6
POISON_AHEAD_US = 1_000_000
"""Written so long before it is due, so that whoever publishes then has read it."""
MALFORMED = (
    b"garbage",
    b"",
    b"BZ",
    b'{"origin": "a"}',
    b"BZ\x01\0\0\0\x01\x90",
    b"BZ\x02\0\0\xff\xff",
    b"BZ\x02\0\0\0\x01\xc1",
)
"""None is an envelope of the known version with a header that can be read."""


def source_lost(it: Arena, fault: Fault) -> Steps:
    """Replicas cannot read one source for a while."""
    yield it.doing(lambda: it.cluster.lose(fault.on))
    yield it.after(fault.s)
    yield it.doing(lambda: it.cluster.heal(fault.on))
    yield from _all_well(it)


def two_lost(it: Arena, fault: Fault) -> Steps:
    """Two sources, the second before the first is back."""
    second = fault.more.removeprefix("then ")
    for source in (fault.on, second):
        yield it.doing(lambda source=source: it.cluster.lose(source))  # type: ignore[misc]
        yield it.after(fault.s)
    for source in (fault.on, second):
        yield it.doing(lambda source=source: it.cluster.heal(source))  # type: ignore[misc]
        yield it.after(fault.s / 2)
    yield from _all_well(it)


def lost_again(it: Arena, fault: Fault) -> Steps:
    """A source is lost, and its publisher pauses meanwhile: the correction runs into the second failure."""
    feeder = family.tree(it.cluster.feeders[fault.on])
    yield it.doing(lambda: it.cluster.lose(fault.on))
    yield it.after(it.plan.threshold_us / 1e6 + fault.s)
    there = it.pause(feeder)
    yield it.after(NOTICE_S)
    yield it.doing(lambda: it.cluster.heal(fault.on))
    healed, limit = wall_us(), it.after(AGAIN_S)
    yield lambda: _any_again(it, healed) or limit()
    it.resume(there)
    yield from _all_well(it)
    if not _any_again(it, healed):
        raise CameToNothing("no correction met the second failure")


def _any_again(it: Arena, since_us: int) -> bool:
    """Some replica went from STABILIZATION straight to UPSTREAM_FAILURE."""
    said = ([s.state for s in it.cluster.said(member, since_us)] for member in it.plan.members)
    return any(("STABILIZATION", "UPSTREAM_FAILURE") in pairwise(states) for states in said)


def _all_well(it: Arena) -> Steps:
    """Who is not impaired by another fault goes on."""
    now = wall_us()
    yield lambda: all(it.well([m], now) or it.impaired.now(str(m)) for m in it.plan.members)


def malformed(it: Arena, fault: Fault) -> Steps:
    """Records that are no envelope, in a burst, into a source's topic."""
    count = int(fault.more.split()[0])
    base, partition = place(fault.on)

    def send() -> None:
        producer = KafkaProducer(bootstrap_servers=it.cluster.bootstrap)
        try:
            for n in range(count):
                producer.send(f"{it.plan.name}.{base}", MALFORMED[n % len(MALFORMED)], partition=partition)
            producer.flush(PATIENCE_S)
        finally:
            producer.close()

    yield it.doing(send)


def poisoned(it: Arena, fault: Fault) -> Steps:
    """A publisher is given what nobody can use in place of some rows; the checker looks for each as a dead letter."""
    count, _, start = fault.more.partition(" rows from ")
    first = WHATS.index(start)
    seq = (wall_us() - it.cluster.start_us + POISON_AHEAD_US) // it.plan.period_us
    it.cluster.poison.add(fault.on, seq, [WHATS[(first + n) % len(WHATS)] for n in range(int(count))])
    yield lambda: it.cluster.acknowledged().get(fault.on, -1) >= seq + int(count)


# Publishers -----------------------------------------------------------------------------------------------------------


def _sources(fault: Fault) -> tuple[str, ...]:
    return tuple(fault.on.removeprefix("feeder-"))


def feeder_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of a publisher; its successor goes on where the log ends."""
    sources = _sources(fault)
    it.cluster.feeders[sources[0]].kill()
    yield it.after(fault.s)
    yield it.broker_there
    before = it.cluster.acknowledged()
    it.cluster.feed(sources, take_over=True)
    yield lambda: speak(it, sources, before)


def feeder_killed_starting(it: Arena, fault: Fault) -> Steps:
    """kill -9 of a publisher, and of the one that was started in its place, before that has published anything."""
    sources = _sources(fault)
    it.cluster.feeders[sources[0]].kill()
    yield it.broker_there
    before = it.cluster.acknowledged()
    it.cluster.feed(sources, take_over=True)
    yield it.after(fault.s)
    it.cluster.feeders[sources[0]].kill()
    began = speaks(it, sources, before)
    before = it.cluster.acknowledged()
    it.cluster.feed(sources, take_over=True)
    yield lambda: speak(it, sources, before)
    if began:
        raise CameToNothing("it had published before it was killed")


def feeder_paused(it: Arena, fault: Fault) -> Steps:
    """SIGSTOP of a publisher, SIGCONT: what it stamps then is of then."""
    sources = _sources(fault)
    there = it.pause(family.tree(it.cluster.feeders[sources[0]]))
    yield it.after(fault.s)
    before = it.cluster.acknowledged()
    it.resume(there)
    yield lambda: speak(it, sources, before)


def feeder_zombie(it: Arena, fault: Fault) -> Steps:
    """A publisher is paused, another takes its sources over, and the first goes on: it is fenced and ends by name."""
    sources = _sources(fault)
    zombie = it.cluster.feeders[sources[0]]
    there = it.pause(family.tree(zombie))
    yield it.broker_there
    before = it.cluster.acknowledged()
    it.cluster.feed(sources, take_over=True)
    yield lambda: speak(it, sources, before)
    yield it.after(fault.s)
    zombie.may_end = True
    it.resume(there)
    yield lambda: zombie.popen.poll() is not None
    assert "StreamFenced" in zombie.said, zombie.said[-2000:]


def feeder_cut(it: Arena, fault: Fault) -> Steps:
    """A publisher's link to the broker is cut, in one direction or both."""
    sources = _sources(fault)
    it.links.cut(fault.on, fault.more)
    yield it.after(fault.s)
    before = it.cluster.acknowledged()
    it.links.heal(fault.on)
    yield lambda: speak(it, sources, before)


# The broker -----------------------------------------------------------------------------------------------------------


@contextmanager
def _away(it: Arena) -> Iterator[None]:
    """Nobody is to ask it anything, until `answers`."""
    with it.impairing(BROKER):
        it.cluster.deaf = True
        try:
            yield
        finally:
            it.cluster.deaf = False


def broker_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9; it comes back after a while."""

    def kill() -> None:
        pid = it.broker.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        psutil.Process(pid).wait(PATIENCE_S)

    with _away(it):
        yield it.doing(kill)
        yield it.after(fault.s)
        yield it.doing(lambda: it.broker.up(START_S))
        yield from answers(it)


def broker_restarted(it: Arena, fault: Fault) -> Steps:
    """Stopped in order, and started again."""
    with _away(it):
        yield it.doing(it.broker.down)
        yield it.after(fault.s)
        yield it.doing(lambda: it.broker.up(START_S))
        yield from answers(it)


def broker_paused(it: Arena, fault: Fault) -> Steps:
    """SIGSTOP, SIGCONT."""
    with _away(it):
        pid = it.broker.status().pid
        assert pid is not None
        there = it.pause([psutil.Process(pid)])
        yield it.after(fault.s)
        it.resume(there)
        yield from answers(it)


def answers(it: Arena) -> Steps:
    """The log is back when results of now come out of it, or would if nothing else were broken."""
    it.cluster.deaf = False
    now = wall_us()
    members = it.plan.members
    yield lambda: all(it.well([m], now) or it.impaired.now(str(m)) for m in members)
    yield lambda: it.seen_until(now)() or any(it.impaired.now(one) for one in (SUBSCRIBER, *map(str, members)))


# Disks and subscribers ------------------------------------------------------------------------------------------------


def disk_full(it: Arena, fault: Fault) -> Steps:
    """No checkpoint of one replica can be written for a while."""
    disk, before = it.disks[fault.on], _not_written(it, fault.member)
    disk.fill()
    try:
        yield it.after(fault.s)
    finally:
        disk.free()
    now = wall_us()
    yield lambda: _writes_checkpoints_again(it, fault.member, now) or it.impaired.now(fault.on)
    if _not_written(it, fault.member) == before:
        raise CameToNothing("no checkpoint met it")


def _writes_checkpoints_again(it: Arena, member: Member, since_us: int) -> bool:
    """Whether it has written one since, or stands by, in which some ways of recovery write none."""
    said = it.cluster.newest(member)
    if said is None or said.at_wall_us < since_us:
        return False
    return said.state == "STANDBY" or said.checkpoint_bucket * BUCKET_US > since_us


def _not_written(it: Arena, member: Member) -> int:
    """How many of its checkpoints could not be, as the logs of its processes say."""
    logs = [p.said for p in it.cluster.all_started if p.output.name.startswith(f"{it.plan.process(member)}-")]
    lines = (line for text in logs for line in text.splitlines())
    return sum("checkpoint not written" in line and f"/{member}/" in line for line in lines)


def subscriber_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9; its successor sees everything from the beginning."""
    with it.impairing(SUBSCRIBER):
        it.cluster.watchers[-1].process.kill()
        yield it.after(fault.s)
        yield it.broker_there
        it.cluster.watch()
        yield from _seen(it)


def subscriber_paused(it: Arena, fault: Fault) -> Steps:
    """SIGSTOP, SIGCONT."""
    with it.impairing(SUBSCRIBER):
        there = it.pause(family.tree(_subscriber(it)))
        yield it.after(fault.s)
        it.resume(there)
        yield from _seen(it)


def _subscriber(it: Arena) -> Process:
    return it.cluster.watchers[-1].process


def _seen(it: Arena) -> Steps:
    now, watcher = wall_us(), it.cluster.watchers[-1]
    yield lambda: min(watcher.live_until) * BUCKET_US >= now


DOING = {
    "source lost": source_lost,
    "two sources lost": two_lost,
    "lost in STABILIZATION": lost_again,
    "malformed burst": malformed,
    "feeder killed": feeder_killed,
    "feeder killed starting": feeder_killed_starting,
    "poison rows": poisoned,
    "feeder paused": feeder_paused,
    "feeder zombie": feeder_zombie,
    "feeder cut": feeder_cut,
    "broker killed": broker_killed,
    "broker restarted": broker_restarted,
    "broker paused": broker_paused,
    "disk full": disk_full,
    "subscriber killed": subscriber_killed,
    "subscriber paused": subscriber_paused,
}
