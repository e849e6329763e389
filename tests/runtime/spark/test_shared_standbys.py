"""Standbys that do not compute share one Spark task, on a real broker: one that takes over runs there at once, moves to
a slot of its own, and gives it back when it stands by again. What is published is compared with plain arithmetic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.runtime.spark.driven import all_gone
from tests.support.running import until
from tests.support.standbys import PATIENCE_S, StandbyApp, an_app

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(600)]
WAYS = ("passive-standby", "upstream-backup")


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[StandbyApp]:
    """Replica 0 of both queries runs, and rows come."""
    app = StandbyApp(bootstrap, an_app("shared-standbys", WAYS), tmp_path, host="spark")
    try:
        app.start(0)
        app.start(1)
        with app.source:
            app.sending.start()
            app.goes_on()
            yield app
            app.sending.over.set()
            app.sending.join(10)
    finally:
        app.close()


def said(app: StandbyApp, replica: int) -> str:
    return (app.work / app.state.name / f"replica-{replica}.log").read_text()


def workers(app: StandbyApp, replica: int) -> dict[str, int]:
    """The pid of the Python worker of each query: of its newest incarnation, if that worker is there."""
    found = {}
    for line in said(app, replica).splitlines():
        if '"replica runs as a Spark task"' in line:
            told = json.loads(line)
            found[told["node"]] = told["worker_pid"]
    there = {child.pid for child in app.process(replica).children(recursive=True)}
    return {query: pid for query, pid in found.items() if pid in there}


def states(app: StandbyApp, replica: int) -> set[str]:
    return {app.state_of(query, replica) for query in app.queries}


def until_apart(app: StandbyApp, replica: int, apart: bool) -> dict[str, int]:
    """Wait until all run, in workers of their own or in one; returns the workers."""
    wanted = len(app.queries) if apart else 1

    def there() -> bool:
        found = workers(app, replica)
        return found.keys() == set(app.queries) and len(set(found.values())) == wanted

    until(there, f"replica {replica} in {wanted} workers", PATIENCE_S)
    return workers(app, replica)


def test_a_take_over_in_the_shared_task_a_slot_for_each_and_back(app: StandbyApp) -> None:
    until(lambda: states(app, 1) == {"STANDBY"}, "replica 1 stands by", PATIENCE_S)
    until_apart(app, 0, apart=True)
    (shared,) = set(until_apart(app, 1, apart=False).values())

    tentative = app.tentative()
    app.kill(0)
    until(lambda: states(app, 1) == {"STABLE"}, "replica 1 runs", PATIENCE_S)
    assert shared in workers(app, 1).values(), "where it stood by, until it has a slot"
    until_apart(app, 1, apart=True)
    app.goes_on()
    assert app.tentative() == tentative, "nobody waited for longer than the threshold"
    assert {status.inc for query in app.queries for status in app.statuses(query, 1)} == {1, 2}

    app.start(0, take_over=True)
    until(lambda: states(app, 0) == {"STANDBY"}, "replica 0 stands by", PATIENCE_S)
    until_apart(app, 0, apart=False)
    app.goes_on()
    assert states(app, 1) == {"STABLE"}
    assert "this replica ends" not in said(app, 0) + said(app, 1)

    left = app.process(0).children(recursive=True)
    until_its_worker_is_killed(app, left)


def until_its_worker_is_killed(app: StandbyApp, left: list[psutil.Process]) -> None:
    """The standby task's worker is killed: its standbys are back in another one, and nobody else notices."""
    (shared,) = set(workers(app, 0).values())
    psutil.Process(shared).kill()
    until(lambda: shared not in workers(app, 0).values(), "its worker is gone")
    (again,) = set(until_apart(app, 0, apart=False).values())
    assert again != shared
    assert "its Spark task died" in said(app, 0)
    app.goes_on()
    assert states(app, 1) == {"STABLE"}
    app.kill(0)
    assert all_gone(left) == []
    app.goes_on()
