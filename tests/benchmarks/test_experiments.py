"""Experiments by name, what is written of one, and how processes' weights are added up."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from benchmarks.experiments.weight import APPS, FILE, Times, Weight, outcome
from benchmarks.report.names import EXPERIMENTS
from benchmarks.report.outcome import Curve, Outcome, Panel, write
from benchmarks.report.page import FIGURES, PAGE, page
from borealis_py.app.loader import load_app
from borealis_py.bench import events
from borealis_py.bench.figures import BenchError
from borealis_py.bench.machine import BenchMachine

FOUND = Outcome(
    name="some",
    title="What was found",
    published="elsewhere 3 s",
    setup="simulated",
    worse="nothing",
    columns=["nodes", "s>"],
    rows=[["1", "2.5"]],
    ratios={"bound to delay": 1.2},
    data={"delay_s": [2.5]},
    panels=[
        Panel(title="a", x="nodes", y="s", curves=[Curve(label="l", x=[1.0, 2.0], y=[2.5, 2.0])], bound=3.0),
        Panel(title="b", x="nodes", y="rows", curves=[Curve(label="m", x=[1.0], y=[7.0], style="bars")], log_y=True),
    ],
)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_has_a_module_that_runs_it(name: str) -> None:
    run = import_module(f"benchmarks.experiments.{name.replace('-', '_')}").run
    assert list(signature(run).parameters)[:2] == ["options", "bars"]


def test_figures_are_written_and_are_the_same_each_time(tmp_path: Path) -> None:
    data, figure = write(FOUND, BenchMachine.now(0.0), 1.5, tmp_path / "figures")
    told = json.loads(data.read_bytes())
    assert (told["ratios"], told["data"], told["seconds"]) == ({"bound to delay": 1.2}, {"delay_s": [2.5]}, 1.5)
    drawn = figure.read_bytes()
    assert b"What was found" in drawn
    write(FOUND, BenchMachine.now(0.0), 1.5, tmp_path / "figures")
    assert figure.read_bytes() == drawn


def test_a_place_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="cannot write figures into"):
        write(FOUND, BenchMachine.now(0.0), 1.5, tmp_path / "file")


def of(process: str, host: str = "spark", rate: int = 0, cpu: float = 1.0, pss: float = 50.0) -> Weight:
    return Weight(
        app="a query",
        host=host,
        rate_per_s=rate,
        process=process,
        cpu_percent=cpu,
        rss_mb=2 * pss,
        pss_mb=pss,
        threads=3,
        connections=2,
    )


def test_the_broker_is_told_apart_and_jvms_are_part_of_the_sum() -> None:
    weights = [
        of("replica 0", cpu=0.5),
        of("replica 0: Spark's JVM", cpu=2.0, pss=150.0),
        of("broker", cpu=9.0, pss=400.0),
        of("replica 0", host="process", rate=900, cpu=4.0, pss=100.0),
    ]
    times = [
        Times(app="a query", host="spark", up_s=11.0, again_s=6.0, late_s=0.3),
        Times(app="a query", host="process", up_s=2.0, again_s=1.5, late_s=0.2),
    ]
    found = outcome(weights, times, 600_000)
    assert found.rows == [
        ["a query", "spark", "0", "2.5", "2.0", "9.0", "200", "400", "2", "1", "6", "4", "11.0", "6.0", "0.3"],
        ["a query", "process", "900", "4.0", "0.0", "0.0", "100", "200", "1", "0", "3", "2", "2.0", "1.5", "0.2"],
    ]
    assert len(found.columns) == len(found.rows[0])
    assert found.ratios == {
        "a query, spark, 0/s: 1000 MB to PSS": 5.0,
        "a query, process, 900/s: 1000 MB to PSS": 10.0,
        "a query, spark: goal / seconds to start": 1.0,
        "a query, process: goal / seconds to start": 1.0,
        "a query, spark: goal / seconds to start again": 1.0,
        "a query, process: goal / seconds to start again": 1.0,
    }
    assert found.worse.endswith("Over the goal: broker's CPU % of a query (spark) at 0/s 9.0 (6).")


def test_what_a_process_weighs_and_when_it_is_back_is_judged_by_goals() -> None:
    weights = [
        of("replica 0", rate=900, cpu=8.4, pss=850.0),
        of("replica 0: Spark's JVM", rate=900, cpu=2.0, pss=150.0),
        of("replica 0", cpu=2.0, pss=500.0),
        of("replica 1", cpu=1.2, pss=300.0),
        of("replica 1: Spark's JVM", cpu=4.0),
    ]
    slow = Times(app="a query", host="spark", up_s=24.0, again_s=6.1, late_s=3.5)
    found = outcome(weights, [slow], 584_000)
    assert found.ratios["a query, spark: goal / seconds to start"] == 0.5
    assert found.worse.partition("Over the goal: ")[2] == (
        "replica's CPU % of a query (spark) at 900/s 4.2 (4), PSS MB of a query (spark) at 900/s 1000.0 (900), "
        "replica's CPU % of a query (spark) at 0/s 1.6 (1.5), JVM's CPU % of a query (spark) at 0/s 2.0 (1.5), "
        "a query (spark) up after 24.0 s (12), a query (spark) again after 6.1 s (6), "
        "a query (spark) 3.5 s late (3)."
    )


def test_on_a_slower_machine_it_is_told_what_is_over_the_goal_by_more_than_that() -> None:
    weights = [
        of("replica 0", rate=900, cpu=16.1, pss=950.0),
        of("replica 0: Spark's JVM", rate=900, cpu=4.0, pss=1.0),
        of("replica 1: Spark's JVM", rate=900, cpu=4.0, pss=1.0),
        of("replica 1: Spark's JVM", rate=900, cpu=0.0, pss=1.0),
    ]
    quick = Times(app="a query", host="spark", up_s=20.0, again_s=12.1, late_s=3.5)
    said = outcome(weights, [quick], 292_000).worse
    first, _, then = said.partition(" But the raw loop did 292,000 events/s here, 584,000 where the goals were set. ")
    assert "replica's CPU % of a query (spark) at 900/s 8.1 (4)" in first
    assert "a query (spark) up after 20.0 s (12)" in first
    assert then == (
        "If processor time and the time of starts may be 2.00 times as long, these are over it: "
        "replica's CPU % of a query (spark) at 900/s 8.1 (8), JVM's CPU % of a query (spark) at 900/s 4.0 (3), "
        "PSS MB of a query (spark) at 900/s 953.0 (900), JVMs of a query (spark) at 900/s 3.0 (2), "
        "a query (spark) again after 12.1 s (12), a query (spark) 3.5 s late (3)."
    )
    light = [of("replica 0", rate=900, cpu=12.0)]
    in_time = [replace(quick, again_s=12.0, late_s=0.1)]
    assert outcome(light, in_time, 292_000).worse.endswith("may be 2.00 times as long, none is over it.")


@pytest.mark.parametrize("function", APPS.values())
def test_each_app_that_is_weighed_is_one(function: str, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(FILE.format(function=function, app="weight", sources=3, replicas=2))
    spec = load_app(str(file)).describe()
    assert spec.name == "weight"
    assert all(query.replicas == 2 for query in spec.queries.values())


def test_rows_are_those_of_the_events() -> None:
    row = events.row(7, 7)
    assert list(row) == ["at", "customer", "amount", "shop", "kind"]
    assert row["customer"] == "c-0049"


def test_the_page_shows_each_experiment_that_has_run_with_what_others_say(tmp_path: Path) -> None:
    write(replace(FOUND, name="chain"), BenchMachine.now(0.5), 2.0, tmp_path)
    told = page(tmp_path)
    assert "## What was found" in told
    assert f"({tmp_path.name}/chain.svg)" in told
    assert "| nodes | s |\n| --- | ---: |\n| 1 | 2.5 |" in told
    assert "**Elsewhere.** elsewhere 3 s" in told
    assert "make bench NAME=policies" not in told


def test_the_page_in_docs_is_that_of_the_figures_beside_it() -> None:
    root = Path(__file__).parents[2]
    assert (root / PAGE).read_text() == page(root / FIGURES)


def test_figures_say_on_which_day_they_were_measured() -> None:
    now = BenchMachine.now(0.0)
    assert now.lines(1.0)[0].startswith(f"{now.day}, {now.cpus} cores")
    assert replace(now, day="").lines(1.0)[0].startswith(f"{now.cpus} cores"), "of an earlier version"
