"""The model's figures beside the paper's: what is compared, what is concluded, and the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from benchmarks.experiments import recovery
from benchmarks.experiments.recovery import paper
from benchmarks.recovery import published, tables
from benchmarks.recovery.conclusions import CONCLUSIONS, judged
from benchmarks.recovery.published import ACTIVE, OVERHEAD, PASSIVE, RECOVERY, UPSTREAM
from benchmarks.recovery.runs import CaseFigures, PaperCase, measure
from benchmarks.recovery.setting import PaperReading, PaperSetting
from benchmarks.recovery.tables import PaperLine, Results, by_interval, by_kind, by_window
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.bench.console import Bars, bars_on
from tests.benchmarks.commands import Benchmarks, benchmarks  # noqa: F401  # a fixture

LINES = tables.paper_lines()


@contextmanager
def bars() -> Iterator[Bars]:
    with bars_on(Console(file=StringIO())) as made:
        yield made


@pytest.fixture(scope="module")
def results() -> Results:
    return {case: measure(case, PaperReading(), 5) for case in tables.all_cases(LINES)}


@pytest.fixture(scope="module")
def found(results: Results) -> Outcome:
    return paper.outcome(LINES, results, {}, [1.0, 2.0], 5)


# What is compared -----------------------------------------------------------------------------------------------------


def test_what_is_within_reach_of_the_paper_is_reached(results: Results) -> None:
    assert tables.largest(LINES, results, OVERHEAD) < 0.5, "points"
    assert tables.largest(LINES, results, RECOVERY, PASSIVE) < 8, "percent"
    assert tables.largest(LINES, results, RECOVERY, UPSTREAM) < 25, "percent"


def test_every_row_has_a_value_or_none_for_each_case() -> None:
    for line in LINES:
        assert len(line.columns) == len(line.cases) == len(line.paper)
        assert all(case.way in line.what for case in line.cases)
        assert bool(line.lines) == any(value is not None for value in line.paper)
    assert {line.place for line in LINES} == {f"table {n}" for n in (3, 6, 7, 8)} | {"figure 6", "figure 7"}


def test_the_default_network_is_the_same_case_wherever_it_stands() -> None:
    assert by_kind(PASSIVE, "aggregate") == by_window(PASSIVE, 100) == by_interval(PASSIVE, 50)
    assert len(tables.all_cases(LINES)) < sum(len(line.cases) for line in LINES)


def test_overheads_differ_in_points_and_times_in_percent() -> None:
    case = by_kind(PASSIVE, "filter")
    one = CaseFigures(
        overhead_percent=101.5, recovery_ms=50.0, output_ms=0, state_ms=0, replayed=0, again=0, lost=0, log_most=0
    )

    def line(measured: str, theirs: float | None) -> PaperLine:
        return PaperLine("table 6", PASSIVE, "H 1", measured, "network", ("filter",), (case,), (theirs,))

    assert line(OVERHEAD, 100.0).differences({case: one}) == [1.5]
    assert line(RECOVERY, 40.0).differences({case: one}) == [25.0]
    assert line(RECOVERY, 0.0).differences({case: one}) == [50.0]
    assert line(RECOVERY, None).differences({case: one}) == [None]
    far = [line(OVERHEAD, 100.0), line(OVERHEAD, 103.0), line(RECOVERY, 10.0)]
    assert tables.largest(far, {case: one}, OVERHEAD) == 1.5
    assert tables.largest(far, {case: one}, RECOVERY, PASSIVE) == 400


def test_the_model_knows_no_figure_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as fast processors, links and reactions halve times, whatever the paper has."""
    usual = PaperSetting()
    fast = replace(
        usual, rate_per_s=2_000, interval_us=25_000, redirect_us=20_000, bits_per_us=32, delay_us=2_500, filter_us=5
    )
    for way in (PASSIVE, UPSTREAM):
        one, two = (measure(PaperCase(way=way, setting=setting), PaperReading(), 5) for setting in (usual, fast))
        assert two.recovery_ms == pytest.approx(one.recovery_ms / 2, rel=0.02)


# What is concluded ----------------------------------------------------------------------------------------------------


def test_what_the_paper_concludes_holds_in_the_model(results: Results) -> None:
    assert [says for says, holds in judged(results).items() if not holds] == []


def test_of_figures_that_are_all_alike_hardly_a_conclusion_holds(results: Results) -> None:
    same = results[by_kind(PASSIVE, "aggregate")]
    held = [says for says, holds in judged(dict.fromkeys(results, same)).items() if holds]
    assert held == ["the window does not change the overhead of passive standby (H 301)"]


def test_of_figures_of_the_wrong_way_most_conclusions_fall(results: Results) -> None:
    other = {UPSTREAM: PASSIVE, PASSIVE: ACTIVE, ACTIVE: UPSTREAM}
    swapped = {
        case: results.get(replace(case, way=other.get(case.way, case.way)), one) for case, one in results.items()
    }
    assert sum(judged(swapped).values()) < len(CONCLUSIONS) / 2


# What is told ---------------------------------------------------------------------------------------------------------


def test_each_row_shows_the_paper_beside_the_model(found: Outcome) -> None:
    assert found.name == "recovery-paper"
    assert {len(row) for row in found.rows} == {len(found.columns)}
    rows = {(row[0], row[1], row[2]): row[3:] for row in found.rows}
    names, theirs, ours, differences = rows["table 7 (H 279-287)", UPSTREAM, RECOVERY]
    assert (names, theirs) == ("window 100 / 200 / 300 / 400 / 500", "69.9 / 98.9 / 138.7 / 188.5 / 248.3")
    assert len(ours.split(" / ")) == len(differences.split(" / ")) == len(published.WINDOWS)
    assert rows["figure 6 (H 255)", "upstream backup, rollback", OVERHEAD][1] == "0.64 / - / - / - / -"
    assert rows["figure 6", PASSIVE, RECOVERY][1] == ""
    assert "Of 19 conclusions of the paper 19 hold here" in found.worse


@pytest.mark.parametrize(("size", "runs", "readings"), [("short", 5, 1), ("usual", 25, 6), ("full", 100, 6)])
def test_every_case_is_run_and_other_readings_unless_it_is_to_be_short(
    monkeypatch: pytest.MonkeyPatch, results: Results, size: Size, runs: int, readings: int
) -> None:
    asked: list[tuple[PaperCase, PaperReading]] = []

    def measured(case: PaperCase, reading: PaperReading, of: int) -> CaseFigures:
        assert of == runs
        asked.append((case, reading))
        return results[case]

    monkeypatch.setattr(paper, "measure", measured)
    with bars() as made:
        told = recovery.run(ExperimentOptions(size=size, paper=True), made)
    assert [case for case, reading in asked if reading == PaperReading()] == tables.all_cases(LINES)
    assert len({reading for _, reading in asked}) == readings + 1, "and a slow union"
    assert f"{runs} runs a point" in told.setup


def test_what_does_not_hold_is_named(results: Results) -> None:
    same = dict.fromkeys(results, results[by_kind(PASSIVE, "aggregate")])
    told = paper.outcome(LINES, same, {}, [1.0, 2.0], 5).worse
    assert "1 hold here, not: active standby recovers first, upstream backup last" in told


def test_other_readings_are_shown_where_they_matter(results: Results) -> None:
    advances = [line for line in LINES if line.place == "table 8"]
    slower = {case: replace(one, recovery_ms=one.recovery_ms + 1) for case, one in results.items()}
    told = paper.outcome(LINES, results, {"the same": results, "slower": slower}, [1.0, 2.0], 5)
    shown = [row for row in told.rows if row[0].startswith("table 8: ")]
    assert {row[0] for row in shown} == {"table 8: slower"}
    assert len(shown) == sum(line.measure == RECOVERY for line in advances)
    assert len(told.data["other_readings"]) == 2 * sum(len(line.cases) for line in advances)


def test_every_panel_has_curves(found: Outcome) -> None:
    assert [len(panel.curves) for panel in found.panels] == [5, 5, 4, 4]
    assert all(curve.x and len(curve.x) == len(curve.y) for panel in found.panels for curve in panel.curves)


def test_the_command_prints_the_table(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch, found: Outcome) -> None:  # noqa: F811
    asked = []

    def run(size: str, made: Bars) -> Outcome:
        asked.append(size)
        return found

    monkeypatch.setattr(paper, "run", run)
    said = benchmarks("recovery", "--paper", "--short")
    assert (said.code, asked) == (0, ["short"])
    for part in ("table 6 (H 271)", "101.27 / 111.55 / 101.9", "conclusions of the paper", "Assumed"):
        assert part in said.out
