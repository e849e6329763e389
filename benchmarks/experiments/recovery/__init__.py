"""`make bench NAME=recovery`: what it costs to survive a crash, and for how long readers wait.

On a broker (`measured.py`), or with --paper as a model of what a paper describes (`paper.py`).
"""

from __future__ import annotations

from benchmarks.experiments.recovery import measured, paper
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench.console import Bars


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Run the experiment, or its model. Raises what `measured.run` or `paper.run` does."""
    return paper.run(options.size, bars) if options.paper else measured.run(options, bars)
