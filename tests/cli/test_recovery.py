"""`borealis recovery`, on the simulated log."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.app.state import read_app
from borealis_py.cli.commands import explain, recovery
from borealis_py.cli.main import main
from borealis_py.config.config import Config
from borealis_py.kafka import client
from borealis_py.query import App
from tests.harness.launching import described
from tests.support.app_log import NAME, AppLog


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> AppLog:
    it = AppLog()
    app = App(NAME)
    cut = app.source("s", schema={"k": "string"}).node(
        "cut", partitions=2, by="k", recovery="passive-standby", sync="2s"
    )
    app.query("q", cut.window(rows=2).agg(n="count(*)"), guarantee="rollback")
    app.query("one", cut, replicas=1)
    described(it, app)
    context: Any = SimpleNamespace(log=it, app=lambda name: read_app(it, name))
    monkeypatch.setattr(recovery, "open_context", lambda bootstrap: context)
    return it


def test_it_shows_how_each_node_recovers(log: AppLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recovery"]) == 0
    head, _, *lines = capsys.readouterr().out.strip().splitlines()
    assert head.split("  ")[0] == "node"
    rows = [line.split() for line in lines]
    assert rows[0] == ["cut.0", "passive-standby", "2s", "precise", "2", "the", "app's", "file"]
    assert rows[2] == ["q", "active", "rollback", "2", "the", "app's", "file"]
    assert main(["recovery", "cut"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "cut.0: passive-standby, sync 2s",
        "cut.1: passive-standby, sync 2s",
    ]


def test_it_changes_a_node_and_one_of_its_partitions(log: AppLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recovery", "cut", "upstream-backup"]) == 0
    assert capsys.readouterr().err.splitlines() == ["cut.0: upstream-backup", "cut.1: upstream-backup"]
    assert main(["recovery", "cut.1", "passive-standby", "--sync", "300ms", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recovery"] == {
        "cut.1": {
            "recovery": "passive-standby",
            "sync_us": 300_000,
            "guarantee": "precise",
            "replicas": 2,
            "said_by": "borealis recovery",
        }
    }
    assert log.told[-3:] == ["recovery/cut.0", "recovery/cut.1", "recovery/cut.1"]
    assert main(["recovery"]) == 0
    out = capsys.readouterr().out
    assert "borealis recovery" in next(line for line in out.splitlines() if line.strip().startswith("cut.1"))


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["q", "activ"], "q: recovery='activ'; did you mean 'active'", 2),
        (["q", "amnesia"], "gives gap, not rollback", 1),
        (["cut", "amnesia"], "query 'one' would read the gap", 1),
        (["q", "upstream-backup"], 'so guarantee="rollback" does not help', 1),
        (["one", "active-standby"], "query 'one': with active-standby one replica runs", 1),
        (
            ["cut", "passive-standby", "--sync", "1ms"],
            "node 'cut': sync='1ms' is shorter than a bucket of the app, 100ms",
            1,
        ),
        (["cut", "active-standby", "--sync", "1s"], "active-standby has none: leave it out", 2),
        (["cut", "--sync", "1s"], "say the way, too", 2),
        (["cut.7", "active"], "no node or query 'cut.7'; did you mean", 2),
        (["nobody"], "no node or query 'nobody'", 2),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    log: AppLog, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str, code: int
) -> None:
    before = list(log.told)
    assert main(["recovery", *arguments]) == code
    assert said in capsys.readouterr().err
    assert log.told == before


FILE = """
from borealis_py import App

app = App("a")
cut = app.source("s", schema={"k": "string"}).node("cut", partitions=2, by="k", recovery="passive-standby", sync="2s")
app.query("q", cut.window(rows=2).agg(n="count(*)"), guarantee="rollback")
app.query("one", cut, replicas=1)
"""


def test_explain_marks_what_was_set_and_goes_by_its_interval(
    log: AppLog, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text(FILE)
    log.bootstrap = "here:1"  # type: ignore[attr-defined]
    context = SimpleNamespace(log=log, config=Config())
    monkeypatch.setattr(explain, "open_context", lambda bootstrap: context)
    monkeypatch.setattr(client, "listens", lambda address: True)
    assert main(["recovery", "cut.1", "passive-standby", "--sync", "10s"]) == 0
    capsys.readouterr()
    assert main(["explain", str(tmp_path / "app.py"), "--rate", "s=100", "--json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["recovery"]["nodes"]
    passive = {name: of["ways"]["passive-standby"] for name, of in nodes.items()}
    assert {name: (of["in_force"], of["sync_us"]) for name, of in passive.items()} == {
        "cut.0": (True, 2_000_000),
        "cut.1": (True, 10_000_000),
        "q": (False, 500_000),
        "one": (False, 500_000),
    }
    assert passive["cut.1"]["replayed_rows"] == pytest.approx(5 * passive["cut.0"]["replayed_rows"])
    assert main(["explain", str(tmp_path / "app.py"), "--rate", "s=100"]) == 0
    out = capsys.readouterr().out
    assert "passive-standby (now, sync 10s)" in out
    assert "active (now)" in out
