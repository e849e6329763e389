"""Retention that has eaten what a replica still needs: a peer's checkpoint helps, or a named error and an exit code.

Nothing false is ever called stable.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from borealis_py.app.supervisor.exit_codes import LOST
from tests.harness.cluster import Cluster, cluster
from tests.harness.network import BUCKET_US, QUERY, SOURCES
from tests.harness.plan import Member, Plan
from tests.harness.waiting import wall_us
from tests.support.late import LATE
from tests.support.right import exactly

pytestmark = pytest.mark.e2e
MARGIN = 10
"""Buckets between what a checkpoint continues from and what is deleted."""


def test_records_that_replicas_need_are_deleted(bootstrap: str, tmp_path: Path, chain: bool) -> None:
    with cluster(bootstrap, Plan("retention", chain), tmp_path) as it:
        a_peers_checkpoint_helps_one_that_was_killed(it)
        a_peers_checkpoint_helps_one_that_was_paused(it)
        if chain:
            a_peers_checkpoint_helps_one_downstream(it)
            no_replica_upstream_has_it(it)
        no_checkpoint_helps(it)
        verdict = it.judge(healed=False)
        with exactly():
            assert (verdict.kinds - LATE, verdict.undecided) == (set(), [])
        assert verdict.kinds == set(), "X is kept, on a machine that has room for it"
        assert verdict.looked_at["stable statements"] > 100


def first_node(it: Cluster) -> tuple[Member, Member]:
    """The two replicas that read the sources."""
    return Member(it.plan.cut, 0), Member(it.plan.cut, 1)


def leave_behind(it: Cluster, peer: Member, streams: Sequence[str]) -> None:
    """Wait until the peer's checkpoint is well beyond what anybody had by now, and delete what it does not need."""
    now = wall_us() // BUCKET_US
    it.until(lambda: it.checkpoint(peer) > now + 2 * MARGIN, f"{peer} writes checkpoints")
    for stream in streams:
        it.delete_records(stream, it.checkpoint(peer) - MARGIN)


def a_peers_checkpoint_helps_one_that_was_killed(it: Cluster) -> None:
    """Its own is too old for the log (B45)."""
    killed(it, *first_node(it), SOURCES[:1])


def a_peers_checkpoint_helps_one_downstream(it: Cluster) -> None:
    """Its own is too old for what all replicas of the node before it still have."""
    killed(it, Member(QUERY, 0), Member(QUERY, 1), [f"{it.plan.cut}.r{k}" for k in range(it.plan.replicas)])


def killed(it: Cluster, victim: Member, peer: Member, streams: Sequence[str]) -> None:
    """Kill one replica, let its peer go on, delete what only the killed one needs, and start it again."""
    it.replicas[victim].kill()
    leave_behind(it, peer, streams)
    begin = wall_us()
    it.start(victim)
    it.until_event(victim, "READY", begin)
    assert "starting from a peer's" in it.replicas[victim].said
    it.until_well()


def a_peers_checkpoint_helps_one_that_was_paused(it: Cluster) -> None:
    """What it was about to read is gone when it goes on: it starts again."""
    victim, peer = first_node(it)
    it.replicas[victim].signal(signal.SIGSTOP)
    leave_behind(it, peer, SOURCES[:1])
    begin = wall_us()
    it.replicas[victim].signal(signal.SIGCONT)
    it.until_event(victim, "READY", begin)
    assert "starts again, perhaps from a peer's checkpoint" in it.replicas[victim].said
    it.until_well()


def no_replica_upstream_has_it(it: Cluster) -> None:
    """The query's replicas are down together, and what the node before them said since is deleted."""
    query = Member(QUERY, 0), Member(QUERY, 1)
    for member in query:
        it.replicas[member].kill()
    wait_for_rows(it)
    for k in range(it.plan.replicas):
        it.delete_records(f"{it.plan.cut}.r{k}", None)
    they_end(it, query, f"stream {it.plan.cut}: bucket")


def no_checkpoint_helps(it: Cluster) -> None:
    """Both that read the sources are down, and all that one source had since is deleted."""
    for member in first_node(it):
        it.replicas[member].kill()
    wait_for_rows(it)
    for process in {id(p): p for p in it.feeders.values()}.values():
        process.kill()
    it.delete_records(SOURCES[0], None)
    they_end(it, first_node(it), f"source {SOURCES[0]}: offset")


def wait_for_rows(it: Cluster) -> None:
    """Wait until the log has what no checkpoint has."""
    now = wall_us() // BUCKET_US
    it.until(lambda: wall_us() // BUCKET_US > now + 2 * MARGIN, "rows that only the log has")


def they_end(it: Cluster, members: Sequence[Member], why: str) -> None:
    """Started again, they say what they lack and end with the exit code for that."""
    it.start(*members)
    for process in (it.replicas[member] for member in members):
        process.may_end = True
    it.until(lambda: all(it.replicas[m].popen.poll() is not None for m in members), "both end")
    for process in (it.replicas[member] for member in members):
        assert process.popen.returncode == LOST.code, process.said
        assert why in process.said
        assert "no other replica has a checkpoint that covers it" in process.said
        assert "nothing false was called stable" in process.said
