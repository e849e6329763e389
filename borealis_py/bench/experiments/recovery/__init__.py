"""`borealis bench recovery`: what it costs to survive a crash, and for how long readers wait.

Only its model is there: `borealis bench recovery --paper`, in `paper.py`.
"""

from __future__ import annotations

from borealis_py.bench.experiments.recovery import paper
from borealis_py.bench.report.bars import Bars
from borealis_py.bench.report.figures import BenchError
from borealis_py.bench.report.outcome import Outcome
from borealis_py.bench.report.runner import ExperimentOptions


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Run the experiment. Raises BenchError: not `options.paper`, and a measurement on a broker is not there yet."""
    if not options.paper:
        raise BenchError("there is no measurement on a broker yet; `borealis bench recovery --paper` runs the model")
    return paper.run(options.size, bars)
