"""What `borealis publish` makes of its options: the publisher that it starts. No broker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from borealis_py.app.state import AppState
from borealis_py.cli.commands import publish
from borealis_py.cli.main import app as command
from borealis_py.cli.shared.errors import is_wrong_word
from borealis_py.client import ingest, publisher
from borealis_py.client.session import Boundaries
from borealis_py.log.messages import Description
from borealis_py.protocol.settings import Timing
from borealis_py.query import App

CLOCK, DATA, PACED = Boundaries.CLOCK, Boundaries.DATA, Boundaries.PACED
TIMING = Timing(ahead_max_us=7_000_000, row_max_bytes=2_000)


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Filled with what the publisher is made with."""
    app = App("a", bucket="100ms")
    app.query("q", app.source("s", schema={"x": "int64"}), "3s")
    description = Description("{}", "h", 0, "f", "a1", timing=TIMING)
    state, told = AppState("a", app.describe(), description), dict[str, Any]()

    def made(*_: object, **options: object) -> None:
        told.update(options)
        raise SystemExit(7)

    context = SimpleNamespace(log=None, app=lambda name: state)
    monkeypatch.setattr(publish, "open_context", lambda bootstrap: context)
    monkeypatch.setattr(publisher, "Publisher", made)
    return told


@pytest.mark.parametrize(
    ("arguments", "lateness_us", "boundaries"),
    [
        ("", None, CLOCK),
        ("--stime t", None, DATA),
        ("--stime t --lateness 2s", 2_000_000, DATA),
        ("--stime t --lateness 0s --boundary data", 0, DATA),
        ("--stime t --lateness 150ms --boundary clock", 150_000, CLOCK),
        ("--stime t --speed 2", None, PACED),
    ],
)
def test_lateness_and_boundary_reach_the_publisher(
    arguments: str, lateness_us: int | None, boundaries: Boundaries, options: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("x,t\n1,1700000000000000\n")
    ran = CliRunner().invoke(command, ["publish", "s", str(file), *arguments.split()])
    assert ran.exit_code == 7, ran.output
    assert (options["lateness_us"], options["boundaries"]) == (lateness_us, boundaries)
    assert (options["ahead_max_us"], options["row_max_bytes"]) == (TIMING.ahead_max_us, TIMING.row_max_bytes)


def test_null_markers_reach_the_reader_of_the_file(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, told = tmp_path / "rows.csv", list[Any]()
    file.write_text("x,t\n7,1700000000000000\n")
    opened = ingest.open_rows
    monkeypatch.setattr(ingest, "open_rows", lambda *given: (told.append(given), opened(*given))[1])
    ran = CliRunner().invoke(command, ["publish", "s", str(file), "--null", "NA", "--null", "-"])
    assert ran.exit_code == 7, ran.output
    assert [given[5] for given in told] == [["NA", "-"]]


def test_a_replay_without_times_is_a_wrong_option(options: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("x,t\n1,\n")
    ran = CliRunner().invoke(command, ["publish", "s", str(file), "--stime", "t", "--speed", "2"])
    assert is_wrong_word(ran.exception), ran.exception  # type: ignore[arg-type]
    assert "--base" in str(ran.exception)
    assert options == {}
