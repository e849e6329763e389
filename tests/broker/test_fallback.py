"""No Spark, or one that is not there, fails or hangs: redos run inline, and no answer is left wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from borealis_py.log.base import Wake
from borealis_py.log.kernel import Kernel
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.redo import RedoJob
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from borealis_py.runtime.process.threads import make_redos
from reconcile.redo_client import RedoRouter, RedoRunner
from tests.harness.running import MakeRedos, RunningApp, running
from tests.harness.waiting import until
from tests.support.redos import FailingRedo
from tests.support.without_b import lose_b, rows_without_b

pytestmark = pytest.mark.broker

TIMING = Timing(inline_us=0, inline_buckets=0, redo_deadline_us=700_000, stagger_us=800_000)


class HangingRedo(FailingRedo):
    """Never answers."""

    def submit_job(self, job: RedoJob) -> None: ...


def missing(spec: ReplicaSpec, kernel: Kernel, wake: Wake, peer: RedoRunner) -> RedoRouter:
    redo = FailingRedo("none in this test", wake)
    return RedoRouter(redo, redo, peer)


def failing(spec: ReplicaSpec, kernel: Kernel, wake: Wake, peer: RedoRunner) -> RedoRouter:
    redo = FailingRedo("Spark job failed: worker ran out of memory", wake)
    return RedoRouter(redo, redo, peer)


def hanging(spec: ReplicaSpec, kernel: Kernel, wake: Wake, peer: RedoRunner) -> RedoRouter:
    return RedoRouter(HangingRedo("", wake), FailingRedo("", wake), peer)


@pytest.mark.parametrize(
    ("redos", "says"),
    [
        (make_redos, ""),
        (missing, "none in this test"),
        (failing, "out of memory"),
        (hanging, "no answer within 0.7 s"),
    ],
    ids=["none at all", "missing", "fails", "hangs"],
)
def test_the_redo_runs_inline(bootstrap: str, tmp_path: Path, redos: MakeRedos, says: str) -> None:
    it = App(f"fallback-{redos.__name__}", bucket="50ms")
    a, b = (it.source(name, schema={"n": "int64"}) for name in ("a", "b"))
    it.query("all", it.union(a, b).filter("n >= 0"), delay_threshold="500ms", replicas=1)
    with running(bootstrap, it, tmp_path, TIMING) as app:
        app.start(0, redos)
        app.wait_ready(0)
        sent = _lose_b_while_publishing(app)
        until(lambda: "STABLE" in app.events()[app.events().index("UPSTREAM_FAILURE") :], "STABLE again")
        until(lambda: len(app.corrected("all")) == sent, "all rows in the corrected stream")
        values = [json.loads(r.value or b"")["n"] for r in app.corrected("all")]
        assert sorted(values) == list(range(sent))
        failed = [s.detail for s in app.statuses() if s.event == "REDO_FAILED"]
        assert [says in why for why in failed[:1]] == [True] * bool(says)
        redone = [s.redo for s in app.statuses() if s.redo is not None]
        assert {r.engine for r in redone} == {"inline"}
        assert not app.errors


def _lose_b_while_publishing(app: RunningApp) -> int:
    """Returns how many rows were sent: 0, 1, ..."""
    with app.publisher("a") as a, app.publisher("b") as b:
        sent = rows_without_b(app, (a, b))
        lose_b(app, 0)
        until(lambda: "STABILIZATION" in app.events(), "STABILIZATION")
        a.close(end=True)
        b.close(end=True)
    return sent


def test_a_replica_that_stops_goes_on_from_its_checkpoint_and_its_peer_publishes_meanwhile(
    bootstrap: str, tmp_path: Path
) -> None:
    it = App("take-over", bucket="50ms")
    source = it.source("src", schema={"n": "int64"})
    it.query("all", source.window("100ms").agg(n="sum(n)", rows="count(*)"), delay_threshold="1s", replicas=2)
    timing = Timing(checkpoint_us=200_000)
    with running(bootstrap, it, tmp_path, timing) as app:
        app.start(0)
        app.wait_ready(0)
        app.start(1)
        app.wait_ready(0, 1)
        with app.publisher("src") as publisher:
            sent = 0
            for first, second in ((0, 1), (1, 0)):
                until(lambda: app.statuses()[-1].checkpoint_wall_us > 0, "a checkpoint")
                app.stop(first)
                for _ in range(50):
                    publisher.send({"n": 1})
                    sent += 1
                until(lambda n=sent: _rows(app) == n, f"{sent} rows published by replica {second}")
                ready = app.events(first).count("READY")
                app.start(first)
                until(lambda k=first, n=ready: app.events(k).count("READY") > n, f"replica {first} back")
        ids = [dict(r.headers)["id"] for r in app.corrected("all")]
        assert len(ids) == len(set(ids))
        starts = {(s.replica, s.inc) for s in app.statuses()}
        assert starts == {(0, 1), (0, 2), (1, 1), (1, 2)}
        assert not app.errors


def _rows(app: RunningApp) -> int:
    return sum(json.loads(r.value or b"")["rows"] for r in app.corrected("all"))
