"""Sources lost, two of them overlapping, one again during STABILIZATION; a killed broker; a full disk."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from kafka import KafkaProducer

from borealis_py.kafka.broker import LocalBroker
from tests.harness.cluster import Cluster, cluster
from tests.harness.faults import FullDisk, full_disk
from tests.harness.network import BUCKET_US, QUERY, SOURCES
from tests.harness.plan import Member, Plan
from tests.harness.waiting import PATIENCE_S, wall_us
from tests.support.late import LATE
from tests.support.right import exactly

pytestmark = pytest.mark.e2e
GARBAGE = 3


def test_lost_sources_a_killed_broker_and_a_full_disk(broker: LocalBroker, tmp_path: Path, chain: bool) -> None:
    plan = Plan("inputs", chain)
    victim = Member(QUERY, 1)
    checkpoints = tmp_path / plan.name / "checkpoints" / str(victim)
    with full_disk(checkpoints) as disk, cluster(broker.bootstrap, plan, tmp_path) as it:
        garbage_in_a_source(it)
        a_source_is_lost(it)
        two_sources_are_lost_one_after_the_other(it)
        a_source_is_lost_again_during_stabilization(it)
        the_broker_is_killed(it, broker)
        the_disk_is_full(it, disk, victim)
        it.finish()
        verdict = it.judge()
        with exactly():
            assert (verdict.kinds - LATE, verdict.undecided) == (set(), [])
        assert verdict.kinds == set(), "X is kept, on a machine that has room for it"
        assert verdict.looked_at["tentative statements"] > 50
        assert verdict.looked_at["dead letters"] == GARBAGE


def lacked_since(it: Cluster, begin: int) -> list[frozenset[str]]:
    """What the subscriber's tentative buckets since then lacked, in order."""
    return [
        frozenset(missing_sources)
        for b, missing_sources in sorted(it.watchers[-1].tentative.items())
        if b * BUCKET_US >= begin
    ]


def garbage_in_a_source(it: Cluster) -> None:
    """Records that are no envelope become dead letters, each once."""
    producer = KafkaProducer(bootstrap_servers=it.bootstrap)
    for n in range(GARBAGE):
        producer.send(f"{it.plan.name}.{SOURCES[0]}", b"garbage %d" % n)
    producer.close()


def a_source_is_lost(it: Cluster) -> None:
    """Tentative within the threshold, and corrected."""
    begin = it.lose("c")
    for member in it.plan.members:
        it.until_event(member, "UPSTREAM_FAILURE", begin)
    it.until(lambda: frozenset("c") in lacked_since(it, begin), "results without c")
    it.heal("c")
    it.until_well()
    assert set(lacked_since(it, begin)) <= {frozenset("c"), frozenset()}


def two_sources_are_lost_one_after_the_other(it: Cluster) -> None:
    """The first one heals while the second is still away."""
    begin = it.lose("b")
    it.until(lambda: frozenset("b") in lacked_since(it, begin), "results without b")
    it.lose("c")
    it.until(lambda: frozenset("bc") in lacked_since(it, begin), "results without b and c")
    healed = it.heal("b")
    it.until(lambda: frozenset("c") in lacked_since(it, healed), "results without c")
    it.heal("c")
    it.until_well()


def a_source_is_lost_again_during_stabilization(it: Cluster) -> None:
    """Its publisher stops during the failure, so the correction runs into a second one."""
    it.lose(SOURCES[0])
    for member in it.plan.members:
        it.until_behind(member, 10)
    it.feeders[SOURCES[0]].signal(signal.SIGSTOP)
    stopped = wall_us()
    it.until(lambda: lacked_since(it, stopped)[5:] != [], "half a second without its publisher")
    healed = it.heal(SOURCES[0])
    it.until(lambda: any(again(it, m, healed) for m in it.plan.members), "a second failure during STABILIZATION")
    it.feeders[SOURCES[0]].signal(signal.SIGCONT)
    it.until_well()


def again(it: Cluster, member: Member, since_us: int) -> bool:
    """It went from STABILIZATION straight to UPSTREAM_FAILURE."""
    return ("STABILIZATION", "UPSTREAM_FAILURE") in pairwise(s.state for s in it.said(member, since_us))


def the_broker_is_killed(it: Cluster, broker: LocalBroker) -> None:
    """kill -9, and it comes back: all go on where they were."""
    with it.blackout("no broker"):
        pid = broker.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        psutil.Process(pid).wait(PATIENCE_S)
        broker.up()
        it.until_well(timeout_s=60.0)


def the_disk_is_full(it: Cluster, disk: FullDisk, victim: Member) -> None:
    """The replica goes on without checkpoints, starts from an older one when killed, and writes again when it can."""
    bucket = wall_us() // BUCKET_US
    written = it.checkpoint(victim)
    disk.fill()
    it.until(lambda: "checkpoint not written" in it.replicas[victim].said, f"{victim} meets a full disk")
    it.until_well()
    begin = wall_us()
    it.replicas[victim].kill()
    it.start(victim)
    it.until_event(victim, "READY", begin)
    it.until_well()
    assert written <= it.checkpoint(victim) <= bucket
    disk.free()
    it.until(lambda: it.checkpoint(victim) > begin // BUCKET_US, f"{victim} writes checkpoints again")
