"""Replicas whose checkpoints lie in a bucket: written there and nowhere else, and found again. Broker and S3 server."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from borealis_py import publisher
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.messages import Status, decode
from tests.cli.commands import Borealis, app_text
from tests.support.buckets import SECRET, empty_bucket
from tests.support.running import until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]
APP = "in-a-bucket"


def said_by(log: KafkaLog, query: str, inc: int) -> list[Status]:
    """What an incarnation of replica 0 has said, oldest first."""
    lookup, feed = log.lookup(), Feed(topics.status(APP))
    try:
        found = [decode(r.value or b"", Status) for r in lookup.read(feed, *lookup.bounds(feed))]
    finally:
        lookup.close()
    return [s for s in found if (s.node, s.replica, s.inc) == (query, 0, inc)]


def test_a_killed_replica_finds_its_checkpoints_in_the_bucket(
    borealis: Borealis, here: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "app.py").write_text(app_text(APP))
    log, processes = KafkaLog(bootstrap), ReplicaProcesses(here / ".borealis", APP)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    with empty_bucket("checkpoints") as uri:
        monkeypatch.setenv("BOREALIS_CHECKPOINTS", uri)
        try:
            up = borealis("up", "app.py", "--host", "process", "--no-restart")
            assert up.code == 0, up.err
            with publisher("left", app=APP, bootstrap=bootstrap), publisher("right", app=APP, bootstrap=bootstrap):
                until(lambda: any(s.checkpoint_bucket > 0 for s in said_by(log, "sums", 1)), "a checkpoint")
                before = max(s.checkpoint_bucket for s in said_by(log, "sums", 1))
                victim = processes.running()[ProcessName(0)]
                victim.kill()
                psutil.wait_procs([victim], 10)
                assert borealis("up", "app.py", "--host", "process", "--no-restart").code == 0
                until(lambda: said_by(log, "sums", 2) != [], "the next incarnation speaks")
                assert said_by(log, "sums", 2)[0].checkpoint_bucket >= before
        finally:
            borealis("down", "--app", APP)
    assert not (here / ".borealis" / APP / "checkpoints").exists()
    said = "".join(path.read_text() for path in (here / ".borealis" / APP).glob("*.log"))
    assert "checkpoint not written" not in said
    assert SECRET not in said
