"""What a status record looks like to a person."""

from __future__ import annotations

import pytest

from borealis_py.cli.status import _print, _row, as_json, sight
from borealis_py.host.appstate import AppState
from borealis_py.log.messages import Description, InputStatus, Status
from borealis_py.query import App
from sunion.bucket import Buckets

BUCKET_US = 100_000
WALL_US = 1_700_000_000_000_000
NOW = WALL_US // BUCKET_US


def source(
    name: str, closed: int = NOW, late: bool = False, reachable: bool = True, ended: bool = False
) -> InputStatus:
    return InputStatus(name, closed, late, reachable, ended, 0)


def status(**changes: object) -> Status:
    fields: dict[str, object] = {
        "query": "q", "replica": 0, "inc": 1, "uid": "u", "pid": 1, "at_wall_us": WALL_US, "state": "STABLE",
        "f_s": NOW, "f_l": NOW, "asking": False, "granted": False, "head": None, "publishing": True, "progress": NOW,
        "stable_rows": 5, "tentative_rows": 7, "stable_buckets": 0, "tentative_buckets": 0, "tuples_in": 9,
        "rejected": 0, "checkpoint_bucket": 0, "checkpoint_wall_us": 0, "threshold_us": 1, "failure_policy": "process",
        "stabilization_policy": "process", "inputs": (source("s"),),
    }  # fmt: skip
    return Status(**{**fields, **changes})  # type: ignore[arg-type]


def shown(now_us: int = WALL_US, **changes: object) -> list[str]:
    return [str(cell) for cell in _row(sight(status(**changes), BUCKET_US, now_us), now_us)]


def test_a_stable_replica() -> None:
    row = shown()
    assert row[:8] == ["q", "0", "STABLE", "22:13:20.0", "0.0 s", "", "", ""]
    assert row[8:] == ["yes", "5", "7", "none", "9", "0", "0 MB", "s:ok"]


def test_a_diverged_replica_shows_both_frontiers() -> None:
    row = shown(state="UPSTREAM_FAILURE", f_s=NOW - 35, asking=True, head=1)
    assert row[3:8] == ["22:13:16.5", "3.5 s", "22:13:20.0", "0.0 s", "waits for 1"]
    assert shown(state="STABILIZATION", asking=True, granted=True)[7] == "granted"


def test_one_that_is_silent_is_gone() -> None:
    assert shown(now_us=WALL_US + 4_000_000)[2] == "STABLE"
    assert shown(now_us=WALL_US + 6_000_000)[2] == "gone, was STABLE"
    assert shown(event="STOPPED")[2] == "gone, was STABLE"


def test_history_shows_its_day() -> None:
    assert shown(f_s=NOW - 864_001, f_l=NOW - 864_001)[3] == "2023-11-13T22:13:19.900000Z"


def test_the_end() -> None:
    last = Buckets(BUCKET_US).last
    assert shown(f_s=last, f_l=last)[3:5] == ["END", ""]


def test_every_node_of_a_chain_is_there_with_its_queries(capsys: pytest.CaptureFixture[str]) -> None:
    app = App("chain", bucket="100ms")
    cut = app.source("s", schema={"x": "int"}).filter("x > 0").node("cut", replicas=1)
    app.query("p", cut.filter("x > 1"), replicas=1)
    app.query("q", cut, replicas=2)
    state = AppState("chain", app.describe(), Description("", "", 0, ""))
    statuses = {("cut", 0): status(query="cut"), ("q", 1): status(query="q", replica=1)}
    found = [(r["query"], r["replica"], r["of_queries"]) for r in as_json(state, statuses, WALL_US)["replicas"]]
    assert found == [("cut", 0, ["p", "q"]), ("p", 0, ["p"]), ("q", 0, ["q"]), ("q", 1, ["q"])]
    _print(state, statuses, WALL_US)
    shown = capsys.readouterr().out
    assert "of query" in shown
    assert "p, q" in shown


def test_a_process_without_spark_says_why_once(capsys: pytest.CaptureFixture[str]) -> None:
    app = App("a")
    s = app.source("s", schema={"x": "int"})
    for query in "pq":
        app.query(query, s, replicas=2)
    state = AppState("a", app.describe(), Description("", "", 0, ""))
    why = "Spark's JVM has ended or was killed; it is being started again"
    statuses = {(q, k): status(query=q, replica=k, why_inline=why if k else "") for q in "pq" for k in (0, 1)}
    _print(state, statuses, WALL_US)
    assert capsys.readouterr().err.count(f"redos run inline in replica 1: {why}") == 1
    _print(state, statuses, WALL_US + 60_000_000)
    assert "inline" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (source("s", closed=NOW - 100), "s:10.0 s behind"),
        (source("s", late=True), "s:late"),
        (source("s", reachable=False, late=True), "s:UNREACHABLE"),
        (source("s", ended=True), "s:ended"),
    ],
)
def test_inputs(one: InputStatus, said: str) -> None:
    assert shown(inputs=(one,))[-1] == said
