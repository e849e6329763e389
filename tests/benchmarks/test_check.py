"""`make bench-check`: what it takes for slower, and that it fails then."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.report import check, runner
from benchmarks.report.check import Measure, RatioChange
from benchmarks.report.names import EXPERIMENTS
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench.figures import BenchError

OUTCOME = Outcome(name="chain", title="", published="", setup="", worse="", columns=[], rows=[])
THEN = {"chain": {"x": 0.9, "y": 3.0}, "latency": {"z": 0.3}}


def measuring(ratios: Mapping[str, Mapping[str, float] | Exception]) -> Measure:
    def measure(name: str) -> Outcome:
        found = ratios[name]
        if isinstance(found, Exception):
            raise found
        return replace(OUTCOME, ratios=dict(found))

    return measure


def judged(now: Mapping[str, Mapping[str, float] | Exception]) -> tuple[bool, str]:
    out = io.StringIO()
    return check.judged(THEN, list(now), measuring(now), Console(file=out, width=120)), out.getvalue()


def test_ratios_that_hold_or_rise_are_well() -> None:
    well, said = judged({"chain": {"x": 0.61, "y": 9.0, "more": 1.0}, "latency": {"z": 0.3}})
    assert well
    for part in ("-32%", "+200%", "new"):
        assert part in said
    assert "FELL" not in said


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"chain": {"x": 0.59, "y": 3.0}}, "fell: chain: x"),
        ({"chain": {"x": 0.9}}, "fell: chain: y"),
        ({"chain": BenchError("no Java"), "latency": {"z": 0.3}}, "could not run: chain: BenchError: no Java"),
        ({"latency": {"z": 0.3}, "chain": ZeroDivisionError("x")}, "could not run: chain: ZeroDivisionError: x"),
    ],
)
def test_what_fell_or_is_gone_or_could_not_run_is_named_and_fails(
    now: Mapping[str, Mapping[str, float] | Exception], told: str
) -> None:
    well, said = judged(now)
    assert not well
    assert told in said


def test_a_ratio_falls_when_it_loses_more_than_a_third() -> None:
    assert not RatioChange("chain", "x", 3.0, 2.01).fell
    assert RatioChange("chain", "x", 3.0, 1.99).fell
    assert RatioChange("chain", "x", 3.0, None).fell
    assert not RatioChange("chain", "x", None, 0.1).fell
    assert not RatioChange("chain", "x", 0.0, 0.0).fell


def run_with(
    monkeypatch: pytest.MonkeyPatch, ratios: Mapping[str, Mapping[str, float] | Exception]
) -> list[ExperimentOptions]:
    asked: list[ExperimentOptions] = []

    def run(name: str, options: ExperimentOptions, console: Console, directory: Path | None) -> Outcome:
        assert directory is None
        asked.append(options)
        return measuring(ratios)(name)

    monkeypatch.setattr(runner, "run", run)
    return asked


def test_what_is_written_is_what_is_compared_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "figures" / "check.json"
    at = ["--figures", str(path)]
    asked = run_with(monkeypatch, {name: {"x": 0.9} for name in EXPERIMENTS})
    assert check.main([*at, "--update"]) == 0
    assert [options.size for options in asked] == ["short"] * len(EXPERIMENTS)
    assert json.loads(path.read_bytes()) == {name: {"x": 0.9} for name in EXPERIMENTS}
    assert check.main(at) == 0
    run_with(monkeypatch, {"chain": {"x": 0.5}})
    assert check.main([*at, "chain"]) == 1
    run_with(monkeypatch, {"chain": BenchError("no Java")})
    assert check.main([*at, "chain"]) == 1


def test_an_update_leaves_what_could_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps(THEN))
    run_with(monkeypatch, {"chain": BenchError("no Java"), "latency": {"z": 0.4}})
    assert check.main(["--figures", str(path), "--update", "chain", "latency"]) == 1
    assert json.loads(path.read_bytes()) == {**THEN, "latency": {"z": 0.4}}


def test_without_figures_nothing_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["--figures", str(tmp_path / "none.json")]) == 1
    assert "nothing to compare with" in capsys.readouterr().err


def test_an_unknown_experiment_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        check.main(["chian"])
    assert "no experiment chian" in capsys.readouterr().err


def test_every_experiment_has_ratios_on_record() -> None:
    recorded = check.read(Path(__file__).parents[2] / check.FIGURES)
    assert recorded.keys() == EXPERIMENTS.keys()
    assert all(recorded.values())
