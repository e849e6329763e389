"""`make bench NAME=first-test`: how long a user's first test of an app takes, without Java or a broker."""

from __future__ import annotations

from dataclasses import asdict

from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench import first_test
from borealis_py.bench.console import Bars
from borealis_py.bench.figures import FirstTestFigures

RUNS = {"short": 1, "usual": 7, "full": 21}
GOAL_S: float = goals("first-test")["run_s"]


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure everything. Raises BenchError: a test failed."""
    runs = RUNS[options.size]
    bars.say(f"{runs} first tests, each in a new process")
    return outcome(first_test.measure(runs=runs))


def outcome(f: FirstTestFigures) -> Outcome:
    """The whole report."""
    steps = [("imports", f.import_s), ("run of two sources", f.run_s), ("World that loses an input for 8 s", f.world_s)]
    return Outcome(
        name="first-test",
        title="A first test of an app",
        published=published("first-test"),
        setup=f"New processes with nothing loaded, no broker and no Java; medians of {f.runs}.",
        worse=f"`run` takes {f.run_s:.2f} s, {'more' if f.run_s >= GOAL_S else 'less'} than the goal.",
        columns=["", "seconds>", "goal>"],
        rows=[[name, f"{s:.2f}", f"< {GOAL_S:g}" if name.startswith("run") else ""] for name, s in steps],
        ratios={"imports to run": f.import_s / f.run_s, "imports to World": f.import_s / f.world_s},
        data=asdict(f),
        panels=[
            Panel(
                title="A first test",
                x=", ".join(f"{i}: {name}" for i, (name, _) in enumerate(steps)),
                y="s",
                curves=[Curve(label="seconds", x=[0.0, 1.0, 2.0], y=[s for _, s in steps], style="bars")],
                bound=GOAL_S,
            )
        ],
    )
