"""Standbys that do not compute share one Spark task, on a real broker: one that takes over runs there at once, moves to
a slot of its own, and gives it back when it stands by again. What is published is compared with plain arithmetic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from borealis_py.app.settings import set_recovery
from borealis_py.client.publisher import wall_us
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.messages import read_beat
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from tests.harness.standbys import REPLICAS, StandbyApp, an_app, standing_by
from tests.harness.waiting import until
from tests.runtime.spark.driven import all_gone

pytestmark = [pytest.mark.spark, pytest.mark.broker]
MOVED = "goes on elsewhere"
AROUND_US = 4_000_000
WAYS = ("passive-standby", "upstream-backup")


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[StandbyApp]:
    """Replica 0 of both queries runs, and rows come."""
    with standing_by(
        StandbyApp(bootstrap, an_app("shared-standbys", WAYS), tmp_path, host="spark"), in_turn=True
    ) as app:
        yield app


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


def until_runs(app: StandbyApp, replica: int) -> None:
    """Wait until it runs all queries and the other one stands by. On a busy machine one that starts may take over from
    one that is only slow: then it is killed and starts again."""
    for _ in range(5):
        app.runner()
        if states(app, 1 - replica) == {"STANDBY"}:
            return
        app.kill(1 - replica)
        app.goes_on()
        app.start(1 - replica, take_over=True)
    raise AssertionError(f"replica {replica} does not run all queries")


def until_apart(app: StandbyApp, replica: int, apart: bool) -> dict[str, int]:
    """Wait until all run, in workers of their own or in one; returns the workers."""
    wanted = len(app.queries) if apart else 1

    def there() -> bool:
        found = workers(app, replica)
        return found.keys() == set(app.queries) and len(set(found.values())) == wanted

    until(there, f"replica {replica} in {wanted} workers")
    return workers(app, replica)


def stand_still_s(app: StandbyApp, query: str, of: str, since_us: int, end_us: int) -> float:
    """The longest time in which no heartbeat had a higher value of a field; they come every 0.1 s."""
    feed = Feed(topics.control(app.state.name), list(app.state.runs.all_nodes).index(query))
    grew_at, most = list[int](), 0
    with closing(app.log.lookup()) as lookup:
        for record in lookup.read(feed, *lookup.bounds(feed)):
            value = getattr(read_beat(record.key, record.value, query), of)
            if value > most and since_us <= record.timestamp_ms * 1_000 <= end_us:
                grew_at.append(record.timestamp_ms)
            most = max(most, value)
    return max(after - before for before, after in pairwise(grew_at)) / 1_000


def moves_of(app: StandbyApp, since_us: int) -> dict[str, int]:
    """When replicas of index 1 went on in a slot of their own since then, in wall microseconds."""
    return {
        query: status.at_wall_us
        for query in app.queries
        for status in app.statuses(query, 1)
        if status.event == "RUNS" and status.detail.endswith(MOVED) and status.at_wall_us > since_us
    }


def tell_stand_stills(app: StandbyApp, killed_us: int) -> None:
    """Print how long readers waited at the take-over and at the move of who moved; `pytest -s` shows it."""
    until(lambda: moves_of(app, killed_us) != {}, "one has moved")
    ((query, moved_us),) = moves_of(app, killed_us).items()  # the last one that runs keeps the standby task for itself
    until(lambda: wall_us() > moved_us + AROUND_US, "what follows is in the log")
    for of, what in (("ack_s", "stable results"), ("progress", "the corrected stream")):
        first = stand_still_s(app, query, of, killed_us - AROUND_US, moved_us - AROUND_US // 2)
        second = stand_still_s(app, query, of, moved_us - AROUND_US // 2, moved_us + AROUND_US)
        print(f"{query}: {what} stood still for {first:.2f} s at the take-over, {second:.2f} s at the move")


def test_a_take_over_in_the_shared_task_a_slot_for_each_and_back(app: StandbyApp) -> None:
    until_runs(app, 0)
    until_apart(app, 0, apart=True)
    (shared,) = set(until_apart(app, 1, apart=False).values())

    killed_us = wall_us()
    app.kill(0)
    until(lambda: states(app, 1) == {"STABLE"}, "replica 1 runs")
    assert shared in workers(app, 1).values(), "where it stood by, until it has a slot"
    until_apart(app, 1, apart=True)
    app.goes_on()
    tell_stand_stills(app, killed_us)

    app.start(0, take_over=True)
    until_runs(app, 1)
    until_apart(app, 0, apart=False)
    app.goes_on()
    assert "this replica ends" not in said(app, 0) + said(app, 1)

    its_worker_is_killed(app)
    left = app.process(0).children(recursive=True)
    app.kill(0)
    assert all_gone(left) == []
    app.goes_on()


def its_worker_is_killed(app: StandbyApp) -> None:
    """Its standbys are back in another one, and nobody else notices."""
    (shared,) = set(workers(app, 0).values())
    psutil.Process(shared).kill()
    until(lambda: shared not in workers(app, 0).values(), "its worker is gone")
    (again,) = set(until_apart(app, 0, apart=False).values())
    assert again != shared
    assert "its Spark task died" in said(app, 0)
    app.goes_on()


@pytest.fixture
def computing(bootstrap: str, tmp_path: Path) -> Iterator[StandbyApp]:
    """All replicas compute, and rows come."""
    ways = an_app("later-standbys", ("active", "active-standby"))
    with standing_by(StandbyApp(bootstrap, ways, tmp_path, host="spark")) as app:
        yield app


def until_stands_by(app: StandbyApp, replica: int) -> None:
    """Wait until one replica of each query runs; where it is this one, its worker is killed, so that it is not."""
    for query in app.queries:
        app.runner()
        if app.state_of(query, replica) != "STANDBY":
            psutil.Process(workers(app, replica)[query]).kill()
            until(lambda q=query: app.state_of(q, 1 - replica) == "STABLE", f"the other one runs {query}")
            until(lambda q=query: app.state_of(q, replica) == "STANDBY", f"it stands by for {query}")


@pytest.mark.slow
def test_replicas_that_stop_computing_while_they_run_share_from_then_on(computing: StandbyApp) -> None:
    app = computing
    until_apart(app, 1, apart=True)
    for query in app.queries:
        set_recovery(app.log, app.state, query, RecoveryPlan(way=RecoveryWay.PASSIVE_STANDBY))
    both = [(query, k) for query in app.queries for k in REPLICAS]
    until(lambda: {app.statuses(*one)[-1].recovery for one in both} == {"passive-standby"}, "they obey")
    until_stands_by(app, 1)
    until_apart(app, 1, apart=False)
    until_apart(app, 0, apart=True)
    app.goes_on()

    for query in app.queries:
        set_recovery(app.log, app.state, query, RecoveryPlan(way=RecoveryWay.ACTIVE))
    until_apart(app, 1, apart=True)
    app.goes_on()
    assert "this replica ends" not in said(app, 0) + said(app, 1)
