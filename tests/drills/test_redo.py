"""Redos on Spark, of replicas that are Spark tasks: as they are to be, and on workers that hang past the deadline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cluster import Cluster, cluster
from tests.harness.family import idle_workers
from tests.harness.network import QUERY
from tests.harness.plan import SLACK, Member, Plan
from tests.support.late import LATE
from tests.support.right import exactly

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_a_redo_runs_on_spark_and_one_that_hangs_inline(bootstrap: str, tmp_path: Path, chain: bool) -> None:
    it_redoes = Member(QUERY, 0)
    timing = (SLACK, ("inline_us", 0))
    plan = Plan("drill-redo", chain, replicas=1, host="spark", timing=timing)
    with cluster(bootstrap, plan, tmp_path) as it:
        a_redo_on_spark(it, it_redoes)
        a_redo_that_hangs(it, it_redoes)
        it.finish()
        verdict = it.judge()
        with exactly():
            assert (verdict.kinds - LATE, verdict.undecided) == (set(), [])
        assert verdict.kinds == set(), "X is kept, on a machine that has room for it"
        assert verdict.looked_at["tentative statements"] > 30


ROUNDS = 5
ENOUGH = 20
"""Buckets that make a job: more than `inline_buckets`; `inline_us` is 0."""


def a_redo_on_spark(it: Cluster, member: Member) -> None:
    """Without failures of Spark the correction comes from there, unless a busy driver takes it too late."""
    for _ in range(ROUNDS):
        it.lose("c")
        it.until_behind(member, ENOUGH)
        begin = it.heal("c")
        it.until(lambda since=begin: bool(engines(it, member, since)), "a redo")
        it.until_well()
        if "spark" in engines(it, member, begin):
            return
    raise AssertionError(f"no redo on Spark in {ROUNDS} failures")


def engines(it: Cluster, member: Member, since_us: int) -> list[str]:
    """Where its redos ran, of jobs and of slices."""
    return [s.redo.engine for s in it.said(member, since_us) if s.redo is not None]


def a_redo_that_hangs(it: Cluster, member: Member) -> None:
    """Python workers for redos are stopped; at its deadline the job is forgotten and its buckets run inline."""
    it.lose("c")
    it.until_behind(member, ENOUGH)
    workers = idle_workers(it.replicas[it.plan.process(member)])
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


def last_detail(it: Cluster, member: Member, event: str) -> str:
    """Why it happened, as its status says."""
    return [s.detail for s in it.said(member) if s.event == event][-1]
