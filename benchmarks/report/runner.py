"""Runs an experiment by its name (`names.py`), loading its modules only then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from rich.console import Console

from benchmarks.report.outcome import Outcome, needs_matplotlib, write
from borealis_py.bench.console import Bars, bars_on, wide
from borealis_py.bench.machine import BenchMachine

Size = Literal["short", "usual", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOptions:
    """How to run an experiment.

    Attributes:
        size: "short" is what `benchmarks.report.check` compares, "full" the whole grid.
        host: where replicas run, as for `borealis up --host`. What is simulated, or has no replicas, ignores it.
        work: gets data and logs of the run; None: none are kept.
        paper: run the form that models a paper, where there is one.
        kills: how often a process is killed, in the experiment that kills some; None: as its size says.
    """

    size: Size = "usual"
    host: str = "process"
    work: Path | None = None
    kills: int | None = None
    paper: bool = False


Run = Callable[[ExperimentOptions, Bars], Outcome]
"""Raises BenchError, and what its broker, replicas and publishers raise when they do not start."""


def run(name: str, options: ExperimentOptions, console: Console, directory: Path | None) -> Outcome:
    """Measure, and write figures into `directory`, if any. Raises BenchError and what `Run` does."""
    if directory is not None:
        needs_matplotlib()
    began, load = time.monotonic(), os.getloadavg()[0]
    measure: Run = import_module(f"benchmarks.experiments.{name.replace('-', '_')}").run
    with bars_on(console) as bars:
        outcome = measure(options, bars)
    seconds, machine = time.monotonic() - began, BenchMachine.now(load)
    console = wide(console)
    if directory is not None:
        for path in write(outcome, machine, seconds, directory):
            console.print(f"written: {path}")
    for line in machine.lines(seconds):
        console.print(line)
    return outcome
