"""Nodes of which one replica runs and another one takes over, on a real broker with real processes: kill -9 of who
runs, of who stands by and of both, a pause past the take-over, and a change of the way while it runs.

What is published is compared with plain arithmetic on what was sent, every time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from borealis_py.client.publisher import wall_us
from tests.cli.commands import Borealis, borealis  # noqa: F401  # a fixture
from tests.harness.machine import watched_stalls
from tests.harness.standbys import BUCKET_US, REPLICAS, WINDOW_US, StandbyApp, an_app, standing_by
from tests.harness.waiting import PATIENCE_S, until

pytestmark = pytest.mark.broker
WAYS = ("active-standby", "passive-standby", "upstream-backup")


@pytest.fixture(scope="module")
def app(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandbyApp]:
    """One query for each way, all of a replica index in one process."""
    with standing_by(StandbyApp(bootstrap, an_app("takeover", WAYS), tmp_path_factory.mktemp("takeover"))) as it:
        yield it


def test_a_standby_takes_over_and_who_was_killed_stands_by(app: StandbyApp) -> None:
    runs = app.runner()
    app.kill(runs)
    app.goes_on()
    began_us = wall_us()
    app.start(runs, take_over=True)
    app.until_stood_by(runs, began_us)
    app.goes_on()


def test_nobody_notices_that_a_standby_dies(app: StandbyApp, bootstrap: str) -> None:
    """But for what the machine was too late for."""
    runs = app.runner()
    with watched_stalls(bootstrap, "takeover.stalls") as stalls:
        before = app.tentative()
        app.kill(1 - runs)
        app.goes_on()
        app.start(1 - runs, take_over=True)
        app.goes_on()
        assert app.tentative() == before or stalls.seen


def test_when_both_die_the_query_goes_on_after_they_are_back(app: StandbyApp) -> None:
    app.kill(0, 1)
    app.start(0, 1, take_over=True)
    app.goes_on()
    app.runner()


def test_who_was_paused_past_the_take_over_steps_back(app: StandbyApp) -> None:
    runs = app.runner()
    paused = app.process(runs)
    paused.send_signal(signal.SIGSTOP)
    try:
        app.goes_on()
    finally:
        resumed_us = wall_us()
        paused.send_signal(signal.SIGCONT)
    app.until_stood_by(runs, resumed_us)
    app.goes_on()
    assert app.process(runs).pid == paused.pid


def test_the_way_changes_while_it_runs(app: StandbyApp, bootstrap: str, borealis: Borealis) -> None:  # noqa: F811
    before = dict(zip(app.queries, WAYS, strict=True))
    for way in ("active", *reversed(WAYS)):
        for query in app.queries:
            said = borealis("recovery", query, way, "--app", app.state.name, "--bootstrap", bootstrap)
            assert said.code == 0, said.err
        wanted = ["STABLE", "STABLE" if way == "active" else "STANDBY"]
        for query in app.queries:
            until(
                lambda q=query, w=way, states=wanted: _recovering(app, q) == ({w}, states),
                f"{query}: {way}",
                PATIENCE_S,
            )
        app.goes_on()
    for query, way in before.items():
        assert borealis("recovery", query, way, "--app", app.state.name, "--bootstrap", bootstrap).code == 0


def _recovering(app: StandbyApp, query: str) -> tuple[set[str], list[str]]:
    """The ways that its replicas obey, and their states."""
    newest = [app.statuses(query, k)[-1] for k in REPLICAS]
    return {status.recovery for status in newest}, sorted(status.state for status in newest)


def test_what_came_while_nobody_ran_is_lost_and_named(
    bootstrap: str,
    tmp_path: Path,
    borealis: Borealis,  # noqa: F811
) -> None:
    app = StandbyApp(bootstrap, an_app("takeover-amnesia", ["amnesia"]), tmp_path)
    (query,) = app.queries
    how = ("--app", app.state.name, "--bootstrap", bootstrap)
    with standing_by(app):
        assert all(first > app.state.origin for first, _ in app.gaps(query)), (
            "it began at the origin, with all there is"
        )
        most = 0
        for _ in range(2):
            most += _loses_some(app, query)
        lost = sum(end - first for first, end in app.gaps(query))
        assert 0 < lost < most, "a second of windows, and what came until somebody ran, twice"
        said = borealis("status", *how)
        assert "lost, and named so: buckets" in said.out + said.err
        said = borealis("audit", query, "--no-spark", *how)
        assert said.code == 0, said.out + said.err
        assert "lost, and named so: buckets" in said.out + said.err
        said = borealis("verify", query, *how)
        assert said.code == 0, said.out + said.err
        named = {(status.lost_from, status.lost_buckets) for k in REPLICAS for status in app.statuses(query, k)}
        assert len(named) >= 3, "nothing, and a gap for each time that one took over"


def _loses_some(app: StandbyApp, query: str) -> int:
    """Kill who runs, until buckets are lost by it: on a busy machine it may have stood by again just then. Returns how
    many may be lost at most, and of take-overs from one that was only slow."""
    began_us, before = wall_us(), len(app.gaps(query))
    while len(app.gaps(query)) == before:
        runs = app.runner()
        app.kill(runs)
        app.goes_on()
        app.start(runs, take_over=True)
    return (wall_us() - began_us + 2 * WINDOW_US) // BUCKET_US


def test_checkpoints_in_kafka_are_found_from_another_directory(bootstrap: str, tmp_path: Path) -> None:
    """As on two machines that share nothing but the broker."""
    data = {k: tmp_path / f"machine-{k}" for k in REPLICAS}
    app = StandbyApp(bootstrap, an_app("takeover-kafka", ["passive-standby"]), tmp_path, data, "kafka")
    (query,) = app.queries
    with standing_by(app):
        runs = app.runner()
        until(lambda: app.statuses(query, runs)[-1].checkpoint_bucket > 0, "a checkpoint")
        before = app.statuses(query, runs)[-1].checkpoint_bucket
        app.kill(runs)
        app.goes_on()
        said = (tmp_path / app.state.name / f"replica-{1 - runs}.log").read_text()
        assert "starts from a peer's checkpoint" in said
        until(lambda: app.statuses(query, 1 - runs)[-1].checkpoint_bucket > before, "a checkpoint of its own")
        assert not any(path.is_file() for place in data.values() for path in place.rglob("*"))


SLOW_START = """
import time
from borealis_py.node.starting import Starting

point = Starting.point

def slowly(it):
    time.sleep(6)
    return point(it)

Starting.point = slowly
"""


@pytest.mark.slow
def test_while_a_replica_reads_its_state_for_long_nobody_else_takes_over(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_START)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))))
    app = StandbyApp(bootstrap, an_app("takeover-slowly", ["passive-standby"]), tmp_path)
    (query,) = app.queries
    with standing_by(app):
        runs = app.runner()
        app.kill(runs)
        killed_us = wall_us()
        app.start(runs, take_over=True)  # stands by long before the other one has started
        app.until_stood_by(runs, killed_us)
        app.goes_on()
        said = {k: app.statuses(query, k) for k in REPLICAS}
        started_us = next(s.at_wall_us for s in said[1 - runs] if s.state == "STABLE" and s.at_wall_us > killed_us)
        # a stall may have made it begin before the other one was killed, and later change who runs
        began_us = max(s.at_wall_us for s in said[1 - runs] if s.event == "RUNS" and s.at_wall_us < started_us)
        assert not any(s.event == "RUNS" and began_us < s.at_wall_us < started_us for s in said[runs])
