"""Nodes of which one replica runs and another one takes over, on a real broker with real processes: kill -9 of who
runs, of who stands by and of both, a pause past the take-over, and a change of the way while it runs.

What is published is compared with plain arithmetic on what was sent, every time.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Borealis, borealis  # noqa: F401  # a fixture
from tests.support.running import until
from tests.support.standbys import StandbyApp, an_app, standing_by

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]
WAYS = ("active-standby", "passive-standby", "upstream-backup")


@pytest.fixture(scope="module")
def app(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandbyApp]:
    """One query for each way; replica 0 runs at first. Tests leave one running and one standing by."""
    with standing_by(StandbyApp(bootstrap, an_app("takeover", WAYS), tmp_path_factory.mktemp("takeover"))) as it:
        yield it


def who_runs(app: StandbyApp) -> tuple[int, int]:
    """The index that runs all queries, and the one that stands by."""
    runs = 0 if app.states(0) == {"STABLE"} else 1
    app.until_runs(runs)
    app.until_stands_by(1 - runs)
    return runs, 1 - runs


def test_a_standby_takes_over_and_who_was_killed_stands_by(app: StandbyApp) -> None:
    runs, stands_by = who_runs(app)
    app.kill(runs)
    app.until_runs(stands_by)
    app.goes_on()
    assert all(app.said_of("RUNS", query, stands_by) for query in app.queries)
    app.start(runs, take_over=True)
    app.until_stands_by(runs)
    app.goes_on()
    assert app.states(stands_by) == {"STABLE"}


def test_nobody_notices_that_a_standby_dies(app: StandbyApp) -> None:
    runs, stands_by = who_runs(app)
    before, pid = app.tentative(), app.process(runs).pid
    app.kill(stands_by)
    app.goes_on()
    app.start(stands_by, take_over=True)
    app.until_stands_by(stands_by)
    app.goes_on()
    assert app.tentative() == before
    assert (app.states(runs), app.process(runs).pid) == ({"STABLE"}, pid)


def test_when_both_die_the_query_goes_on_after_they_are_back(app: StandbyApp) -> None:
    app.kill(0, 1)
    app.start(0, 1, take_over=True)
    until(lambda: app.states(0) | app.states(1) == {"STABLE", "STANDBY"}, "one runs, one stands by")
    app.goes_on()
    if app.states(0) not in ({"STABLE"}, {"STANDBY"}):  # of each query the one that read its heartbeats back first
        app.kill(1)
        app.start(1, take_over=True)
    who_runs(app)


def test_who_was_paused_past_the_take_over_steps_back(app: StandbyApp) -> None:
    runs, stands_by = who_runs(app)
    paused = app.process(runs)
    paused.send_signal(signal.SIGSTOP)
    try:
        app.until_runs(stands_by)
        app.goes_on()
    finally:
        paused.send_signal(signal.SIGCONT)
    app.until_stands_by(runs)
    app.goes_on()
    assert app.process(runs).pid == paused.pid
    assert app.states(stands_by) == {"STABLE"}


def test_the_way_changes_while_it_runs(app: StandbyApp, bootstrap: str, borealis: Borealis) -> None:  # noqa: F811
    def change(way: str) -> None:
        for query in app.queries:
            said = borealis("recovery", query, way, "--app", app.state.name, "--bootstrap", bootstrap)
            assert said.code == 0, said.err

    who_runs(app)
    for way in ("active", *reversed(WAYS)):
        change(way)
        until(lambda w=way: all(_obeys(app, w, k) for k in (0, 1)), f"both recover by {way}")
        wanted = {"STABLE"} if way == "active" else {"STABLE", "STANDBY"}
        for query in app.queries:
            until(lambda q=query, w=wanted: _states(app, q) == w, f"{query} runs by {way}")
        app.goes_on()
    for query, way in zip(app.queries, WAYS, strict=True):
        borealis("recovery", query, way, "--app", app.state.name, "--bootstrap", bootstrap)


def _obeys(app: StandbyApp, way: str, replica: int) -> bool:
    return all(app.statuses(query, replica)[-1].recovery == way for query in app.queries)


def _states(app: StandbyApp, query: str) -> set[str]:
    return {app.statuses(query, k)[-1].state for k in (0, 1)}


def test_checkpoints_in_kafka_are_found_from_another_directory(bootstrap: str, tmp_path: Path) -> None:
    """As on two machines that share nothing but the broker."""
    data = {k: tmp_path / f"machine-{k}" for k in (0, 1)}
    app = StandbyApp(bootstrap, an_app("takeover-kafka", ["passive-standby"]), tmp_path, data, "kafka")
    with standing_by(app):
        until(lambda: app.statuses("passivestandby", 0)[-1].checkpoint_bucket > 0, "a checkpoint")
        before = app.statuses("passivestandby", 0)[-1].checkpoint_bucket
        app.kill(0)
        app.until_runs(1)
        app.goes_on()
        assert "starts from a peer's checkpoint" in (tmp_path / "takeover-kafka" / "replica-1.log").read_text()
        until(lambda: app.statuses("passivestandby", 1)[-1].checkpoint_bucket > before, "a checkpoint of its own")
        assert not any(path.is_file() for place in data.values() for path in place.rglob("*"))
