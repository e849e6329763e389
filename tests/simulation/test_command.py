"""`borealis sim`: figures on standard output, a failure told so that it can be repeated, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from borealis_py.cli.commands import sim
from borealis_py.cli.main import main
from borealis_py.client.writer import SourceWriter
from borealis_py.simulation.scenario import START_US

pytestmark = pytest.mark.sim
CALM = ["sim", "--seeds", "1", "--seed", "7", "--seconds", "4", "--keep", "none"]


def test_a_world_that_holds_is_told_as_json_and_entered_into_the_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.md"
    assert main([*CALM, "--json", "--ledger", str(ledger)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["seeds"], said["first_seed"], said["violations"], said["failed"]) == (1, 7, 0, [])
    assert ledger.read_text().count("\n|") == 3


def test_worlds_of_ingresses_are_told_as_json_and_entered_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.md"
    worlds = ["sim", "--ingress", "--seeds", "1", "--seed", "5", "--json", "--ledger", str(ledger)]
    assert main(worlds) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["worlds"], said["failed"]) == (1, {})
    assert ledger.read_text().rstrip().endswith("| ingresses | 0 |")


def test_a_trace_tells_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALM, "--trace"]) == 0
    assert "STABLE" in capsys.readouterr().out


def test_a_failure_is_told_small_with_a_story_and_what_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishers that promise nothing more after three seconds."""
    advance = SourceWriter.advance

    def dumb(self: SourceWriter, boundary: int) -> None:
        if boundary < START_US + 3_000_000:
            advance(self, boundary)

    monkeypatch.setattr(SourceWriter, "advance", dumb)
    assert main(["sim", "--seeds", "1", "--seed", "7", "--seconds", "6"]) == 1
    said = capsys.readouterr().out
    assert "oracle 'convergence' failed" in said
    assert "repeat: borealis sim --seeds 1 --seed 7 --seconds 6 --keep none" in said


def test_how_far_a_run_of_many_worlds_is_is_told_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim, "TELL_S", 0)
    assert main(["sim", "--seeds", "2", "--seconds", "3", "--processes", "1"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.split(" after ")[0] for line in told] == ["1 of 2 worlds", "2 of 2 worlds"]
    assert all(" worlds/s, " in line for line in told)


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--seeds", "2", "--trace"], ["--seeds", "1", "--keep", "x"]])
def test_wrong_usage_is_2(wrong: list[str]) -> None:
    assert main(["sim", *wrong]) == 2
