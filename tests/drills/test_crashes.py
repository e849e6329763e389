"""kill -9 of every kind of process, pauses past every timeout, and zombies that go on: all in one app's life."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster, cluster
from tests.harness.machine import Stalls, watched_stalls
from tests.harness.network import BUCKET_US, QUERY, SOURCES
from tests.harness.plan import Member, Plan
from tests.harness.waiting import wall_us
from tests.support.late import LATE
from tests.support.right import exactly

pytestmark = pytest.mark.e2e


def test_killed_and_paused_processes(bootstrap: str, tmp_path: Path, chain: bool) -> None:
    with (
        cluster(bootstrap, Plan("crashes", chain), tmp_path) as it,
        watched_stalls(bootstrap, "crashes.stalls") as stalls,
    ):
        kill_a_replica(it, stalls, Member(it.plan.cut, 0))
        kill_a_replica(it, stalls, it.publishing(), took_over=True)
        kill_a_replica(it, stalls, Member(QUERY, 1 - it.publishing().k))
        kill_a_source_publisher(it)
        kill_the_subscriber(it)
        pause_a_replica(it, stalls)
        pause_the_publishing_replica(it, stalls)
        a_source_publisher_as_a_zombie(it)
        kill_all_replicas_of_the_first_node(it)
        it.finish()
        verdict = it.judge()
        with exactly():
            assert (verdict.kinds - LATE, verdict.undecided) == (set(), [])
        assert verdict.kinds == set(), "X is kept, on a machine that has room for it"
        assert verdict.looked_at["corrected rows"] > 100


@contextmanager
def unnoticed(it: Cluster, stalls: Stalls) -> Iterator[int]:
    """Who reads all replicas notices nothing: while one is STABLE, nothing downstream is tentative, but for what the
    machine was too late for. Gives the begin."""
    begin = wall_us()
    yield begin
    found = {b: missing_sources for b, missing_sources in it.watchers[-1].tentative.items() if b * BUCKET_US >= begin}
    noticed = stalls.unexcused(found, BUCKET_US, it.plan.threshold_us)
    assert not {b: found[b] for b in noticed}, f"stalls: {stalls.seen}"


def kill_a_replica(it: Cluster, stalls: Stalls, victim: Member, took_over: bool = False) -> None:
    """Its peer goes on, and takes over what it published."""
    with unnoticed(it, stalls) as begin:
        it.replicas[victim].kill()
        if took_over:
            it.until_event(Member(victim.node, 1 - victim.k), "TOOK_OVER", begin)
        it.until_well(*(m for m in it.plan.members if m != victim))
        it.start(victim)
        it.until_event(victim, "READY", begin)
        it.until_well()


def kill_a_source_publisher(it: Cluster) -> None:
    """Tentative until it is back; then its rows go on where the log ends."""
    begin = wall_us()
    it.feeders[SOURCES[0]].kill()
    it.until(lambda: any(b * BUCKET_US >= begin for b in it.watchers[-1].tentative), "tentative results")
    it.feed(SOURCES[:1])
    it.until_well()
    late = [missing_sources for b, missing_sources in it.watchers[-1].tentative.items() if b * BUCKET_US >= begin]
    assert {source for missing_sources in late for source in missing_sources} == {SOURCES[0]}


def kill_the_subscriber(it: Cluster) -> None:
    """Its successor sees everything from the beginning."""
    with it.blackout("no subscriber"):
        it.watchers[-1].process.kill()
        watcher = it.watch()
        it.until(lambda: watcher.stable_until > 0, "the next subscriber sees something")
    it.until_well()


def pause_a_replica(it: Cluster, stalls: Stalls) -> None:
    """SIGSTOP until the others call it dead, then SIGCONT."""
    victim = Member(it.plan.cut, 1)
    with unnoticed(it, stalls):
        it.replicas[victim].signal(signal.SIGSTOP)
        outlive(it, victim)
        it.replicas[victim].signal(signal.SIGCONT)
        it.until_well()


def pause_the_publishing_replica(it: Cluster, stalls: Stalls) -> None:
    """A zombie with an open transaction: fenced when it goes on."""
    victim = it.publishing()
    with unnoticed(it, stalls) as begin:
        it.replicas[victim].signal(signal.SIGSTOP)
        it.until_event(Member(QUERY, 1 - victim.k), "TOOK_OVER", begin)
        outlive(it, victim)
        it.replicas[victim].signal(signal.SIGCONT)
        it.until_well()


def outlive(it: Cluster, victim: Member) -> None:
    """All go on without it for longer than suspicion and patience together."""
    others = [m for m in it.plan.members if m != victim]
    end = wall_us() + 3_000_000
    it.until(lambda: it.watchers[-1].stable_until * BUCKET_US > end, f"three seconds without {victim}")
    it.until_well(*others)


def a_source_publisher_as_a_zombie(it: Cluster) -> None:
    """Its successor takes the source; what the zombie still sends is fenced, and it ends by name."""
    zombie = it.feeders[SOURCES[0]]
    zombie.signal(signal.SIGSTOP)
    it.feed(SOURCES[:1], take_over=True)
    it.until_well()
    zombie.may_end = True
    zombie.signal(signal.SIGCONT)
    it.until(lambda: zombie.popen.poll() is not None, "the zombie ends")
    assert "StreamFenced" in zombie.said
    it.until_well()


def kill_all_replicas_of_the_first_node(it: Cluster) -> None:
    """Its output stops for as long, and is then complete."""
    victims = [m for m in it.plan.members if m.node == it.plan.cut]
    with it.blackout(f"no replica of {it.plan.cut}"):
        for victim in victims:
            it.replicas[victim].kill()
        begin = wall_us()
        it.until(lambda: wall_us() > begin + it.plan.threshold_us, "longer than the threshold")
        it.start(*victims)
        for victim in victims:
            it.until_event(victim, "READY", begin)
    it.until_well()
