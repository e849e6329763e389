"""Retention that has eaten what is still needed: a named error and an exit code, and nothing false called stable."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from borealis_py.host.process import EXIT_STOPPED
from tests.drills.checker.read import Topics
from tests.drills.checker.sources import SourceLog
from tests.drills.cluster import Cluster, Member, Plan, cluster, wall_us
from tests.drills.network import CHAIN, SOURCES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_records_that_a_replica_needs_are_deleted(bootstrap: str, tmp_path: Path, chain: bool) -> None:
    with cluster(bootstrap, Plan("retention", chain, replicas=1), tmp_path) as it:
        victim = Member(it.plan.cut, 0)
        it.replicas[victim].kill()
        checkpoint = it.newest(victim)
        assert checkpoint is not None
        it.until(lambda: wall_us() > checkpoint.at_wall_us + 2_000_000, "rows that only the log has")
        for process in {id(p): p for p in it.feeders.values()}.values():
            process.kill()
        logs = read_and_delete(it)
        it.start(victim)
        it.until(lambda: it.replicas[victim].popen.poll() is not None, f"{victim} ends")
        it.look()
        assert it.replicas[victim].popen.returncode == EXIT_STOPPED
        assert f"source {SOURCES[0]}: offset" in it.replicas[victim].said
        assert "nothing false was called stable" in it.replicas[victim].said
        verdict = it.judge(healed=False, sources=logs)
        assert verdict.words == set()
        assert verdict.looked_at["stable words"] > 0


def read_and_delete(it: Cluster) -> dict[str, SourceLog]:
    """What the sources' logs hold; then everything of the first one is deleted."""
    topics = Topics(it.bootstrap)
    try:
        logs = {s: topics.source(it.plan.name, s, CHAIN, it.origin_us) for s in SOURCES}
    finally:
        topics.close()
    admin = KafkaAdminClient(bootstrap_servers=it.bootstrap)
    admin.delete_records({TopicPartition(f"{it.plan.name}.{SOURCES[0]}", 0): -1})
    admin.close()
    return logs
