"""Ways of recovery as `check`, `up` and replicas take them, also changed while the app runs. On the simulated log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from borealis_py.app import launch
from borealis_py.app.check import check
from borealis_py.app.errors import LaunchError
from borealis_py.app.recovery_in_force import plans_in_force
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.settings import set_recovery
from borealis_py.app.state import AppState, NoSuchApp, put_settings, read_settings
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.messages import RecoverySetting
from borealis_py.node.recovery_setting import in_force, paced
from borealis_py.protocol.settings import Timing
from borealis_py.query import App, AppSpec
from borealis_py.query.errors import QueryError
from borealis_py.query.recovery import ACTIVE, RecoveryPlan, RecoveryWay, parse_recovery
from borealis_py.query.stream import Stream
from borealis_py.runtime.specs import replica_spec
from tests.harness.launching import described
from tests.support.app_log import NAME, AppLog

SCHEMA = {"x": "int64", "k": "string"}
PASSIVE = RecoveryPlan(RecoveryWay.PASSIVE_STANDBY)
BACKUP, AMNESIA = RecoveryPlan(RecoveryWay.UPSTREAM_BACKUP), RecoveryPlan(RecoveryWay.AMNESIA)


def looked_up(app: App, rows: Stream) -> Stream:
    return rows.lookup(app.source("t", {"k": "string", "price": "double"}).table("k"), on="k")


UNBOUNDED: dict[str, Callable[[App, Stream], Stream]] = {
    "window(rows=9)": lambda app, rows: rows.window(rows=9).agg(n="count(*)"),
    'window(gap="2s", most="1m")': lambda app, rows: rows.window(gap="2s", most="1m").group_by("k").agg(n="count(*)"),
    "lookup(on=k)": looked_up,
}
BOUNDED: dict[str, Callable[[App, Stream], Stream]] = {
    "filter": lambda app, rows: rows.filter("x > 0"),
    "window": lambda app, rows: rows.window("10s", every="1s").group_by("k").agg(n="count(*)"),
    "join": lambda app, rows: rows.join(app.source("t", {"k": "string", "y": "int64"}), "k", ("0s", "5s")),
    "distinct": lambda app, rows: rows.distinct("k", within="5s"),
    "over": lambda app, rows: rows.over("k", last=5, within="5s").map(k="k", before="lag(x)"),
    "top": lambda app, rows: rows.window("1s").group_by("k").top(3, by="x"),
}


def an_app(made: Callable[[App, Stream], Stream], **said: Any) -> AppSpec:
    app = App(NAME)
    app.query("q", made(app, app.source("s", SCHEMA)), **said)
    return app.describe()


@pytest.mark.parametrize("operator", UNBOUNDED)
@pytest.mark.parametrize("guarantee", ["precise", "rollback", "gap"])
def test_upstream_backup_is_refused_where_a_state_has_no_bound(operator: str, guarantee: str) -> None:
    spec = an_app(UNBOUNDED[operator], recovery="upstream-backup", guarantee=guarantee)
    with pytest.raises(QueryError, match="query 'q': upstream-backup") as refused:
        check(spec, Timing())
    assert f"its {operator} may stand on any earlier row" in str(refused.value)
    with pytest.raises(QueryError, match="may stand on any earlier row"):
        launch.check(spec, Timing())


@pytest.mark.parametrize("operator", UNBOUNDED)
@pytest.mark.parametrize("way", ["active", "active-standby", "passive-standby"])
def test_every_other_way_is_taken_there(operator: str, way: str) -> None:
    (report,) = check(an_app(UNBOUNDED[operator], recovery=way), Timing())
    assert report.recovery.way == way


@pytest.mark.parametrize("operator", BOUNDED)
def test_upstream_backup_is_taken_where_it_has_one(operator: str) -> None:
    (report,) = check(an_app(BOUNDED[operator], recovery="upstream-backup"), Timing())
    assert report.recovery == BACKUP


def test_in_a_chain_each_node_is_checked_by_itself() -> None:
    app = App(NAME)
    cut = app.source("s", SCHEMA).window(rows=9).agg(n="count(*)").node("cut", recovery="passive-standby")
    app.query("q", cut.filter("n > 0"), recovery="upstream-backup")
    assert [report.recovery for report in check(app.describe(), Timing())] == [PASSIVE, BACKUP]
    app = App(NAME)
    app.query("q", app.source("s", SCHEMA).window(rows=9).agg(n="count(*)").node("cut"), recovery="upstream-backup")
    with pytest.raises(QueryError, match="node 'cut': upstream-backup of a node that is deterministic"):
        check(app.describe(), Timing())


class UpLog(AppLog):
    """An app of a node in two partitions and a query with a count window, and what its commands write."""

    def __init__(self) -> None:
        super().__init__()
        self.up()

    def up(self, **said: Any) -> AppState:
        """`said`: what its file says of the node."""
        app = App(NAME, bucket="100ms")
        cut = app.source("s", schema=SCHEMA).filter("x > 0").node("cut", partitions=2, by="k", **said)
        app.query("q", cut.window(rows=9).agg(n="count(*)"))
        return described(self, app)

    def state(self) -> AppState:
        return read_state(self)

    def ways(self) -> dict[str, str]:
        return {name: self.state().recovery(name).way.value for name in ("cut.0", "cut.1", "q")}

    def written(self) -> list[bytes]:
        return [
            r.value or b"" for r in self.committed(Feed(topics.settings(NAME))) if (r.key or b"")[:9] == b"recovery/"
        ]


def test_what_the_file_says_holds_until_it_is_changed() -> None:
    log = UpLog()
    assert log.ways() == {"cut.0": "active", "cut.1": "active", "q": "active"}
    set_recovery(log, log.state(), "cut", PASSIVE)
    assert log.ways() == {"cut.0": "passive-standby", "cut.1": "passive-standby", "q": "active"}
    set_recovery(log, log.state(), "cut.1", BACKUP)
    assert log.ways() == {"cut.0": "passive-standby", "cut.1": "upstream-backup", "q": "active"}
    assert log.told[-3:] == ["recovery/cut.0", "recovery/cut.1", "recovery/cut.1"]


def test_a_setting_tells_its_life_its_way_and_its_interval() -> None:
    log = UpLog()
    set_recovery(log, log.state(), "q", parse_recovery("passive-standby", "2s", "q"))
    uid = log.state().app_uid
    assert log.written() == [f'{{"app_uid":"{uid}","way":"passive-standby","sync_us":2000000}}'.encode()]
    assert log.state().recovery("q") == RecoveryPlan(RecoveryWay.PASSIVE_STANDBY, 2_000_000)


def test_what_was_set_stays_until_the_file_changes() -> None:
    log = UpLog()
    set_recovery(log, log.state(), "cut", PASSIVE)
    count = len(log.written())
    log.up()
    assert log.ways()["cut.0"] == "passive-standby"
    assert len(log.written()) == count, "the file says what it said"
    log.up(recovery="active-standby")
    assert log.ways() == {"cut.0": "active-standby", "cut.1": "active-standby", "q": "active"}
    log.up(recovery="active")
    assert log.ways()["cut.1"] == "active"


def test_a_setting_of_a_node_that_was_there_before_does_not_hold_for_a_new_one() -> None:
    """It cannot go while its app lives, since results would change; the topic may hold what nobody reads, though."""
    log = UpLog()
    state = log.state()
    runs = state.runs
    put_settings(log, NAME, {"recovery/new": RecoverySetting.of(state.app_uid, BACKUP)})
    queries = {**runs.queries, "new": runs.queries["q"]}
    found = log.state().changed_recovery(runs.model_copy(update={"queries": queries}))
    assert found == {"new": ACTIVE}


def test_settings_of_other_lives_and_garbage_count_as_not_written() -> None:
    log = UpLog()
    put_settings(log, NAME, {"recovery/q": RecoverySetting.of("other", PASSIVE)})
    log.put_value(
        topics.settings(NAME), "recovery/cut.0", f'{{"app_uid":"{log.state().app_uid}","way":"oblivion"}}'.encode()
    )
    log.put_value(topics.settings(NAME), "recovery/cut.1", b"{")
    assert log.ways() == {"cut.0": "active", "cut.1": "active", "q": "active"}


def rows_only(name: str = NAME, **said: Any) -> AppSpec:
    app = App(name)
    app.query("q", app.source("s", SCHEMA).filter("x > 0"), **said)
    return app.describe()


def up(log: AppLog, spec: AppSpec) -> AppState:
    return described(log, spec)


@pytest.mark.parametrize(
    ("plan", "now", "message"),
    [
        (AMNESIA, {}, "query 'q': amnesia gives gap, not precise"),
        (PASSIVE, {"guarantee": "gap", "replicas": 1}, "query 'q': with passive-standby one replica runs and another"),
    ],
)
def test_a_file_that_asks_for_more_than_what_was_set_gives_is_refused(
    plan: RecoveryPlan, now: dict[str, Any], message: str
) -> None:
    """Whoever edits the file need not know what somebody else has set."""
    log = AppLog()
    up(log, rows_only(guarantee="gap"))
    set_recovery(log, read_state(log), "q", plan)
    before = list(log.told)
    with pytest.raises(LaunchError, match=rf"{message}.*set with `borealis recovery`.*`borealis recovery q active`"):
        up(log, rows_only(**now))
    assert log.told == before
    set_recovery(log, read_state(log), "q", ACTIVE)
    assert up(log, rows_only(**now)).recovery("q") == ACTIVE


def test_what_takes_back_a_way_that_was_set_has_the_sync_of_the_file() -> None:
    log, said = AppLog(), {"recovery": "passive-standby", "sync": "1s"}
    up(log, rows_only(guarantee="gap", **said))
    set_recovery(log, read_state(log), "q", AMNESIA)
    with pytest.raises(LaunchError, match=r"`borealis recovery q passive-standby --sync 1s` before"):
        up(log, rows_only(**said))


def test_a_file_that_says_another_way_itself_is_not_held_to_what_was_set() -> None:
    log = AppLog()
    up(log, rows_only(guarantee="gap"))
    set_recovery(log, read_state(log), "q", AMNESIA)
    assert up(log, rows_only(recovery="passive-standby")).recovery("q") == PASSIVE


def test_what_holds_after_the_next_up_is_known_before() -> None:
    log = AppLog()
    spec = rows_only(guarantee="gap")
    assert plans_in_force(log, spec) == {"q": ACTIVE}, "nobody has described it yet"
    up(log, spec)
    set_recovery(log, read_state(log), "q", AMNESIA)
    assert plans_in_force(log, spec) == {"q": AMNESIA}
    assert plans_in_force(log, rows_only(recovery="passive-standby")) == {"q": PASSIVE}, "the file has changed"
    assert plans_in_force(log, an_app(BOUNDED["window"])) == {"q": ACTIVE}, "it is another app"
    assert plans_in_force(log, rows_only("other")) == {"q": ACTIVE}


def read_state(log: AppLog) -> AppState:
    state = read_settings(log, NAME)
    assert state is not None
    return state


@pytest.mark.parametrize(
    ("name", "plan", "message"),
    [
        (
            "q",
            BACKUP,
            r"query 'q': upstream-backup of a node that is deterministic gives rollback, not precise \(divergent, t",
        ),
        (
            "cut",
            RecoveryPlan(RecoveryWay.PASSIVE_STANDBY, 5),
            "node 'cut': sync='5us' is shorter than a bucket of the app, 100ms, .* choose 100ms or more",
        ),
        (
            "cut.1",
            AMNESIA,
            "node 'cut': amnesia loses what comes while no replica runs, and query 'q' would read the gap",
        ),
        ("q", AMNESIA, "query 'q': amnesia gives gap, not precise: what comes while no replica runs is lost"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(name: str, plan: RecoveryPlan, message: str) -> None:
    log = UpLog()
    with pytest.raises(QueryError, match=message):
        set_recovery(log, log.state(), name, plan)
    assert log.written() == []


@pytest.mark.parametrize(("name", "near"), [("cot", "'cut'"), ("cut.2", "'cut"), ("s", "it has cut, q, cut.0, cut.1")])
def test_an_unknown_node_is_refused_with_the_nearest(name: str, near: str) -> None:
    log = UpLog()
    with pytest.raises(NoSuchApp, match=f"no node or query {name!r}.*{near}"):
        set_recovery(log, log.state(), name, PASSIVE)


def test_a_replica_is_told_what_the_file_says_and_obeys_what_is_in_force() -> None:
    log = UpLog()
    log.up(recovery="passive-standby", sync="700ms")

    def told(node: str) -> tuple[RecoveryPlan, int]:
        spec = replica_spec(log.state(), node, 0, log, Path("/data"))
        assert spec.recovery == (ACTIVE if node == "q" else declared), "a process may live through many settings"
        plan = in_force(spec, log.lookup())
        return plan, paced(spec.timing, plan).checkpoint_us

    declared = RecoveryPlan(RecoveryWay.PASSIVE_STANDBY, 700_000)
    assert told("cut.1") == (declared, 700_000)
    assert told("q") == (ACTIVE, Timing().checkpoint_us)
    slow = parse_recovery("passive-standby", "1m", "")
    set_recovery(log, log.state(), "cut.1", slow)
    assert told("cut.1") == (slow, 60_000_000)
    assert told("cut.0") == (declared, 700_000)
    set_recovery(log, log.state(), "cut.0", BACKUP)
    assert told("cut.0") == (BACKUP, Timing().checkpoint_us)


def test_up_waits_for_a_standby_no_longer_than_until_it_stands_by(tmp_path: Path) -> None:
    log, processes, name = UpLog(), ReplicaProcesses(tmp_path, NAME), ProcessName(0)
    processes.directory.mkdir(exist_ok=True)
    own = {"pid": os.getpid(), "created": psutil.Process().create_time()}
    (processes.directory / f"{name.stem}.pid").write_text(json.dumps(own))

    def say(state: str) -> None:
        for node in ("cut.0", "cut.1", "q"):
            log.say(node=node, state=state, pid=os.getpid(), at_wall_us=time.time_ns() // 1000)

    def wait() -> None:
        launch.wait_ready(log, log.state(), processes, {name: os.getpid()}, since_ms=0, timeout_s=0)

    say("RECOVERING")
    with pytest.raises(LaunchError, match=r"not ready after 0 s: cut\.0\.r0, cut\.1\.r0, q\.r0"):
        wait()
    say("STANDBY")
    wait()
