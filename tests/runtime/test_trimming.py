"""Trimming on a real broker: what nobody needs goes, and everything goes on, also after restarts (R16)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from borealis_py.app.settings import set_retain
from borealis_py.app.state import read_app
from borealis_py.app.topics import fit_segments
from borealis_py.cli.main import main
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from borealis_py.runtime.specs import replica_spec
from tests.harness import running as running_module
from tests.harness.running import RunningApp, running
from tests.harness.trimming import segment_bytes
from tests.harness.waiting import until

pytestmark = pytest.mark.broker
NAME, LATER, AUDITED = "trimmed", "trimmedlater", "trimmedaudited"


def an_app() -> App:
    it = App(NAME, bucket="50ms", retain="needed")
    source = it.source("src", schema={"n": "int64"}, retain="needed")
    it.query("all", source.filter("n >= 0").node("cut"), delay_threshold="2s", replicas=2)
    return it


def often(make: Callable[..., ReplicaSpec]) -> Callable[..., ReplicaSpec]:
    def spec(*arguments: Any, **more: Any) -> ReplicaSpec:
        found = make(*arguments, **more)
        assert found.trimming is not None
        return replace(found, trimming=replace(found.trimming, every_us=300_000))

    return spec


def rows(app: RunningApp) -> list[int]:
    return [json.loads(record.value or b"")["n"] for record in app.corrected("all")]


def begins(app: RunningApp) -> dict[str, int]:
    feeds = [Feed(topics.replica(NAME, node, k)) for node in ("cut", "all") for k in range(2)]
    return {feed.topic: app.lookup.bounds(feed)[0] for feed in (*feeds, topics.source(NAME, "src"))}


def test_topics_become_short_and_no_row_is_lost_or_doubled(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_module, "replica_spec", often(replica_spec))
    with running(bootstrap, an_app(), tmp_path, Timing(checkpoint_us=300_000)) as app:
        app.start(0)
        app.start(1)
        app.wait_ready(0, 1)
        sent = 0

        def publish_until(condition: Callable[[], bool], what: str) -> None:
            """A row now and then, as long as it takes."""
            nonlocal sent

            def done() -> bool:
                nonlocal sent
                source.send({"n": sent})
                sent += 1
                return condition()

            until(done, what)

        with app.publisher("src") as source:
            publish_until(lambda: min(begins(app).values()) > 0, "all topics begin later")
            before = begins(app)
            app.stop(0)
            publish_until(lambda: len(rows(app)) > sent - 20, "one replica goes on alone")
            app.start(0)
            publish_until(lambda: all(at > before[name] for name, at in begins(app).items()), "trimming goes on")
        with app.publisher("src") as source:  # it finds in what is left where to resume
            publish_until(lambda: app.statuses()[-1].trims != (), "trimming is reported")
            until(lambda: len(rows(app)) == sent, "all rows are published")
        assert rows(app) == list(range(sent))
        assert not app.errors, app.errors


def test_an_app_that_is_trimmed_later_gets_segments_that_can_be_freed(bootstrap: str, tmp_path: Path) -> None:
    it = App(LATER, bucket="50ms", retain="all")
    it.query("q", it.source("src", schema={"n": "int64"}), delay_threshold="2s", replicas=1)
    source, own, corrected = (f"{LATER}.{of}" for of in ("src", "q.r0", "q"))
    app = RunningApp(bootstrap, it, tmp_path)
    before = {name: segment_bytes(bootstrap, name) for name in (source, own, corrected)}
    assert min(before.values()) > 1 << 26, "the broker's own"
    assert fit_segments(app.log, app.state) == {}
    assert segment_bytes(bootstrap, own) == before[own]
    set_retain(app.log, app.state, "src", 0)
    set_retain(app.log, app.state, "q", 0)
    assert fit_segments(app.log, read_app(app.log, LATER)) == {}
    now = {name: segment_bytes(bootstrap, name) for name in before}
    assert now == {source: 1 << 26, own: 1 << 24, corrected: before[corrected]}


def test_a_source_that_is_kept_as_audited_goes_as_far_as_audits_have_come(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows are open where the first audit ends, and the second one stands on their state."""
    monkeypatch.setattr(running_module, "replica_spec", often(replica_spec))
    it = App(AUDITED, bucket="50ms", retain="all")
    counted = it.source("src", schema={"n": "int64"}, retain="audited").window("1s", every="200ms")
    it.query("q", counted.agg(n="count(*)", total="sum(n)"), delay_threshold="2s", replicas=1)

    def audit(*more: str) -> tuple[int, dict[str, Any]]:
        where = ["--bootstrap", bootstrap, "--app", AUDITED, "--data-dir", str(tmp_path)]
        code = main(["audit", "q", "--no-spark", "--json", *where, *more])
        (said,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("[{"))  # replicas log, too
        (found,) = json.loads(said)
        return code, found

    with running(bootstrap, it, tmp_path, Timing(checkpoint_us=300_000)) as app, app.publisher("src") as source:
        app.start(0)
        app.wait_ready(0)
        sent, feed = 0, topics.source(AUDITED, "src")

        def publish_until(condition: Callable[[], bool], what: str) -> None:
            def done() -> bool:
                nonlocal sent
                source.send({"n": sent})
                sent += 1
                return condition()

            until(done, what)

        def held() -> set[str]:
            return {who for status in app.statuses()[-3:] for trim in status.trims for who in trim.held_by}

        publish_until(lambda: "audit of q (none has ended with --advance yet)" in held(), "the audit is waited for")
        publish_until(lambda: len(app.corrected("q")) > 10, "some windows are published")
        assert app.lookup.bounds(feed)[0] == 0
        code, first = audit("--advance")
        assert (code, first["clean"], first["resumed"], first["advanced"]) == (0, True, False, True)
        assert first["rows"] > 10
        publish_until(lambda: app.lookup.bounds(feed)[0] > 0, "what was verified goes")
        many = len(app.corrected("q"))
        publish_until(lambda: len(app.corrected("q")) > many + 10, "more windows are published")
        code, second = audit()
        assert (code, second["clean"], second["resumed"], second["origin"]) == (0, True, True, first["upto"])
        assert second["rows"] > 10
        assert main(["audit", "q", "--advance", "--whole", "--app", AUDITED, "--bootstrap", bootstrap]) == 2
        capsys.readouterr()
        shutil.rmtree(tmp_path / AUDITED / "q.audit")
        code, lost = audit()
        assert (code, lost["clean"]) == (1, False)
        assert "source src no longer has its beginning" in lost["error"]
        assert not app.errors, app.errors
