"""Replicas whose checkpoints lie in a bucket, or in topics: written there and nowhere else, found again, deleted by a
reset. Broker and S3 server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
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
from tests.harness.waiting import PATIENCE_S, until
from tests.support.buckets import SECRET, empty_bucket

pytestmark = pytest.mark.broker


def said_by(log: KafkaLog, app: str, inc: int) -> list[Status]:
    """What an incarnation of replica 0 of query `sums` has said, oldest first."""
    lookup, feed = log.lookup(), Feed(topics.status(app))
    try:
        found = [decode(r.value, Status) for r in lookup.read(feed, *lookup.bounds(feed)) if r.value is not None]
    finally:
        lookup.close()
    return [s for s in found if (s.node, s.replica, s.inc) == ("sums", 0, inc)]


@contextmanager
def in_kafka() -> Iterator[str]:
    yield "kafka"


@pytest.mark.parametrize("place", [partial(empty_bucket, "checkpoints"), in_kafka], ids=["bucket", "kafka"])
def test_a_killed_replica_finds_its_checkpoints_there(
    borealis: Borealis,
    here: Path,
    bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[], AbstractContextManager[str]],
    request: pytest.FixtureRequest,
) -> None:
    app = f"kept-{request.node.callspec.id}"
    (here / "app.py").write_text(app_text(app))
    log, processes = KafkaLog(bootstrap), ReplicaProcesses(here / ".borealis", app)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    with place() as uri:
        monkeypatch.setenv("BOREALIS_CHECKPOINTS", uri)
        try:
            up = borealis("up", "app.py", "--host", "process", "--no-restart")
            assert up.code == 0, up.err
            with publisher("left", app=app, bootstrap=bootstrap), publisher("right", app=app, bootstrap=bootstrap):
                until(lambda: any(s.checkpoint_bucket > 0 for s in said_by(log, app, 1)), "a checkpoint")
                before = max(s.checkpoint_bucket for s in said_by(log, app, 1))
                victim = processes.running()[ProcessName(0)]
                victim.kill()
                psutil.wait_procs([victim], PATIENCE_S)
                assert borealis("up", "app.py", "--host", "process", "--no-restart").code == 0
                until(lambda: said_by(log, app, 2) != [], "the next incarnation speaks")
                assert said_by(log, app, 2)[0].checkpoint_bucket >= before
        finally:
            borealis("down", "--app", app)
        assert not (here / ".borealis" / app / "checkpoints").exists()
        said = "".join(path.read_text() for path in (here / ".borealis" / app).glob("*.log"))
        assert "checkpoint not written" not in said
        assert SECRET not in said
        assert borealis("up", "app.py", "--describe-only", "--reset").code == 0
        admin = log.admin()
        assert not [name for name in admin.topics() if name.startswith(app) and name.endswith(".files")]
        admin.close()
