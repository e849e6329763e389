"""What single commands say where nothing changes or nobody answers. No broker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from borealis_py.app.state import AppState
from borealis_py.cli.commands import broker, fail
from borealis_py.log.messages import Description
from borealis_py.query import App
from tests.cli.commands import Borealis


def test_a_drill_that_no_replica_notices_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    state = AppState("a", App("a").describe(), Description("{}", "h", 0, "f", "a1"))
    with pytest.raises(typer.Exit):
        fail._tell(state, "s", "1s", [], 0, json=False, outlasted=False)
    assert capsys.readouterr().err.startswith("error: no replica of app 'a' reports that it lost s")


@pytest.mark.parametrize("running", [True, False])
def test_a_broker_that_runs_is_not_said_to_start(
    borealis: Borealis, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    there = SimpleNamespace(
        bootstrap="b:1", data_dir="d", status=lambda: SimpleNamespace(running=running), up=lambda: not running
    )
    monkeypatch.setattr(broker, "_broker", lambda data_dir, port: there)
    said = borealis("broker", "up")
    assert ("starting Kafka" in said.err, "was already running" in said.err) == (not running, running)


def test_the_hint_to_check_a_file_names_it_if_it_is_there(borealis: Borealis, tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    assert "hint: " not in borealis("up", file).err
    file.write_text("app = App(\n")
    assert f"hint: `borealis check {file}` tells whether a file is right" in borealis("up", file).err
    assert "hint: " not in borealis("check", file).err
