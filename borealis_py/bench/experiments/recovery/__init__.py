"""`borealis bench recovery`: what it costs to survive a crash, and for how long readers wait.

On a broker (`measured.py`), or with --paper as a model of what a paper describes (`paper.py`).
"""

from __future__ import annotations

from borealis_py.bench.experiments.recovery import measured, paper
from borealis_py.bench.report.bars import Bars
from borealis_py.bench.report.outcome import Outcome
from borealis_py.bench.report.runner import ExperimentOptions


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Run the experiment, or its model. Raises what `measured.run` or `paper.run` does."""
    return paper.run(options.size, bars) if options.paper else measured.run(options, bars)
