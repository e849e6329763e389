"""What `borealis bench quick` refuses before it starts anything, and what it prints."""

import io
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from borealis_py.bench import catchup, first_test, quick, quick_tables
from borealis_py.bench.figures import (
    BenchError,
    DelayFigures,
    FirstTestFigures,
    Percentiles,
    ProcessMemory,
    RunFigures,
    ThroughputFigures,
    redo_figures,
)
from borealis_py.bench.machine import BenchMachine
from borealis_py.bench.quick import QuickOptions, QuickReport

RAW = RunFigures("raw loop", 1.0, 1.5, 1_000_000.0)
REPORT = QuickReport(
    machine=BenchMachine(2, (0.1, 1.2), "Linux", "3.11", {"kafka": "4"}),
    seconds=100.0,
    delay=DelayFigures(900, 3, 2, 20, 20_700, 2_300, Percentiles(20, 1, 2, 3), Percentiles(200, 1, 2, 3), 0, 0),
    throughput=ThroughputFigures(
        1_000_000, 2_000, 5_000, 501_457, (RAW, RAW), RunFigures("one replica", 2.0, 3.0, 5e5), 1.0, 0.5, 0.5
    ),
    redo=[redo_figures("as lived", 1000, 10, [1.0], [2.0], [4.0])],
    memory=[ProcessMemory("replica 0", 1, 120.0, 80.0), ProcessMemory("broker (JVM)", 2, 300.0, None)],
    first_test=FirstTestFigures(3, 0.6, 0.3, 0.9),
)


def shown(report: QuickReport) -> str:
    out = io.StringIO()
    quick_tables.show(report, Console(file=out, width=200))
    return out.getvalue()


def test_the_tables_say_what_is_compared() -> None:
    said = shown(REPORT)
    parts = "900 tuples/s over 3 sources", "5,000 events a record", "one event a record", "50%", "Spark/inline"
    for part in (*parts, "run of two sources"):
        assert part in said
    assert "did not keep up" not in said


def test_a_run_that_was_not_free_of_failures_says_so() -> None:
    assert "4 buckets were tentative" in shown(replace(REPORT, delay=replace(REPORT.delay, tentative=4)))


def test_without_spark_there_is_no_figure_for_it() -> None:
    said = shown(replace(REPORT, redo=[redo_figures("as lived", 1000, 10, [1.0], [2.0], [])]))
    assert "as lived" in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (QuickOptions(events=1_000_001), "must divide"),
        (QuickOptions(redo_rows=12_345), "not whole records"),
        (QuickOptions(events=100_000), "not whole records"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_before_anything_starts(options: QuickOptions, why: str) -> None:
    with pytest.raises(BenchError, match=why):
        quick.check(options)


def test_it_needs_what_the_raw_loop_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catchup, "find_spec", lambda name: None)
    with pytest.raises(BenchError, match="the raw loop needs orjson"):
        quick.check(QuickOptions())


def test_a_first_test_is_timed_in_processes_of_its_own() -> None:
    figures = first_test.measure()
    assert figures.runs == 3
    assert min(figures.import_s, figures.run_s, figures.world_s) > 0


@pytest.mark.parametrize(
    ("code", "why"), [("raise SystemExit('other rows')", "other rows"), ("raise SystemExit(3)", "exit code 3")]
)
def test_a_first_test_that_fails_gives_no_figure(code: str, why: str) -> None:
    with pytest.raises(BenchError, match=why):
        first_test.measure([sys.executable, "-c", code])
