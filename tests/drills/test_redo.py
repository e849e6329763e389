"""Redos on Spark that go wrong: workers that hang past the deadline, a JVM that is killed in mid-redo."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.drills.cluster import Cluster, cluster
from tests.drills.network import QUERY
from tests.drills.plan import SLACK, Member, Plan

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_redo_that_hangs_and_a_jvm_that_is_killed(bootstrap: str, tmp_path: Path, chain: bool) -> None:
    it_redoes = Member(QUERY, 0)
    timing = (SLACK, ("inline_rows", 20))
    plan = Plan("redo", chain, replicas=1, spark=(it_redoes,), timing=timing)
    with cluster(bootstrap, plan, tmp_path) as it:
        a_redo_on_spark(it, it_redoes)
        a_redo_that_hangs(it, it_redoes)
        a_jvm_that_is_killed(it, it_redoes)
        it.finish()
        verdict = it.judge()
        assert (verdict.words, verdict.undecided) == (set(), [])
        assert verdict.looked_at["tentative words"] > 30


ENOUGH = 20
"""Buckets that make a job: more than `inline_buckets`, and more rows than `inline_rows`."""


def a_redo_on_spark(it: Cluster, member: Member) -> None:
    """Without failures of Spark the correction comes from there."""
    it.lose("c")
    it.until_behind(member, ENOUGH)
    begin = it.heal("c")
    it.until(lambda: "spark" in engines(it, member, begin), "a redo on Spark")
    it.until_well()


def engines(it: Cluster, member: Member, since_us: int) -> list[str]:
    """Where its redos ran, of jobs and of slices."""
    return [s.redo.engine for s in it.said(member, since_us) if s.redo is not None]


def a_redo_that_hangs(it: Cluster, member: Member) -> None:
    """Python workers are stopped; at its deadline the job is forgotten and its buckets run inline."""
    it.lose("c")
    it.until_behind(member, ENOUGH)
    workers = [p for p in family(it, member) if p.name() != "java"]
    assert workers
    for worker in workers:
        worker.suspend()
    begin = it.heal("c")
    it.until_event(member, "REDO_FAILED", begin)
    it.until_well()
    for worker in workers:
        if worker.is_running():
            worker.resume()
    assert "no answer" in last_detail(it, member, "REDO_FAILED")
    assert "inline" in engines(it, member, begin)


def a_jvm_that_is_killed(it: Cluster, member: Member) -> None:
    """Stopped first, so that the job is surely in flight when it dies."""
    it.lose("c")
    it.until_behind(member, ENOUGH)
    jvm = next(p for p in family(it, member) if p.name() == "java")
    jvm.send_signal(signal.SIGSTOP)
    begin = it.heal("c")
    it.until_event(member, "STABILIZATION", begin)
    jvm.kill()
    it.until_event(member, "REDO_FAILED", begin)
    assert "JVM" in last_detail(it, member, "REDO_FAILED")
    it.until_well()
    assert "inline" in engines(it, member, begin)


def family(it: Cluster, member: Member) -> list[psutil.Process]:
    """The JVM of its Spark session and the Python workers."""
    children = psutil.Process(it.replicas[member].popen.pid).children(recursive=True)
    return [p for p in children if p.status() != psutil.STATUS_ZOMBIE]


def last_detail(it: Cluster, member: Member, event: str) -> str:
    """Why it happened, as its status says."""
    return [s.detail for s in it.said(member) if s.event == event][-1]
