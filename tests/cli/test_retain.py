"""`borealis retain`, on the simulated log."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.app.state import read_app
from borealis_py.cli.commands import retain
from borealis_py.cli.main import main
from borealis_py.query import App
from borealis_py.simulation.log.client import MemoryAdmin
from tests.harness.launching import described
from tests.support.app_log import NAME, AppLog


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> AppLog:
    it = AppLog()
    app = App(NAME, retain="1h")
    app.query("q", app.source("s", schema={"x": "int64"}), "3s")
    described(it, app)
    context: Any = SimpleNamespace(log=it, app=lambda name: read_app(it, name))
    monkeypatch.setattr(retain, "open_context", lambda bootstrap: context)
    return it


def test_it_shows_what_is_kept(log: AppLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retain", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["retain"] == {"s": "all", "q": "1h"}
    assert main(["retain", "s"]) == 0
    assert capsys.readouterr().err.strip() == "s: all"


def test_it_changes_it(log: AppLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retain", "s", "24h"]) == 0
    assert capsys.readouterr().err.strip() == "s: 1d"
    assert main(["retain", "q", "needed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["retain"] == {"q": "needed"}
    assert log.told[-2:] == ["retain/s", "retain/q"]
    assert main(["retain", "s", "audited"]) == 0
    assert capsys.readouterr().err.strip() == "s: audited"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["s", "ned"], "did you mean 'needed'"),
        (["s", "audite"], "did you mean 'audited'"),
        (["q", "audited"], '"audited" is for sources'),
        (["q", "1s"], "retain='1s' is shorter than its delay threshold, 3s"),
        (["x"], "no source, node or query 'x'; it has s, q"),
        (["qq"], "no source, node or query 'qq'; did you mean 'q'? it has s, q"),
        (["x", "1h"], "no source, node or query 'x'"),
        (["--forget", "q"], "no replica 'q'"),
        (["--forget", "q.r7"], "no replica 'q.r7'; did you mean 'q.r1' or 'q.r0'? it has q.r0, q.r1"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    log: AppLog, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    before = list(log.told)
    refused = "is for sources" in said or "is shorter" in said
    assert main(["retain", *arguments]) == (1 if refused else 2)
    assert said in capsys.readouterr().err
    assert log.told == before


def test_a_replica_is_given_up(log: AppLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retain", "--forget", "q.r1"]) == 0
    assert "nothing is kept for q.r1 any more" in capsys.readouterr().err


def test_segments_that_stay_large_are_told_and_nothing_stops(
    log: AppLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryAdmin, "limit_segments", lambda self, most: {"a.s": "the ACLs lack ALTER_CONFIGS"})
    assert main(["retain", "s", "needed"]) == 0
    said = capsys.readouterr().err
    assert "a.s: segment.bytes stays as it is" in said
    assert "lack ALTER_CONFIGS" in said
    assert said.splitlines()[-1] == "s: needed"
