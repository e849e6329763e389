"""`borealis bench ingress`: topics that others write, from the record to the result.

Four parts on one broker: the delay of a plain topic beside that of our publisher; the rate of copying, beside the hand
loop; three topics that are full before the app begins; and an ingress that is killed again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.bench.ingress import catching, copying, delay, killing, tables
from borealis_py.bench.ingress.apps import Form
from borealis_py.bench.load.sizes import stage_for
from borealis_py.bench.report.bars import Bars
from borealis_py.bench.report.figures import BenchError
from borealis_py.bench.report.outcome import Outcome
from borealis_py.bench.report.runner import ExperimentOptions
from borealis_py.verify.kafka_reader import CannotRead

FORMS: tuple[Form, ...] = ("json", "avro")


@dataclass(frozen=True, slots=True)
class IngressSize:
    """`runs` of the delay, `seconds` each. `rows`: to copy, of either format, `copies` times. `full`: rows in three
    topics that span `span_s`. `kills`: unless `ExperimentOptions.kills` says how many."""

    runs: int
    seconds: int
    rows: int
    copies: int
    full: int
    span_s: int
    kills: int


SIZES = {
    "short": IngressSize(runs=1, seconds=8, rows=150_000, copies=1, full=60_000, span_s=20, kills=1),
    "usual": IngressSize(runs=3, seconds=20, rows=300_000, copies=3, full=1_000_000, span_s=100, kills=20),
    "full": IngressSize(runs=5, seconds=60, rows=1_000_000, copies=3, full=1_000_000, span_s=100, kills=100),
}


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure everything.

    Raises:
        BenchError: something could not be measured, or results are wrong.
        BrokerError, LaunchError, LogError: something to be measured did not start.
    """
    copying.needs_packages()
    size = SIZES[options.size]
    kills = size.kills if options.kills is None else options.kills
    with stage_for(options.work, bars) as stage:
        delays = [delay.measure(stage, run, size.seconds, bars) for run in range(1, size.runs + 1)]
        copies = [copying.measure(stage, form, size.rows, size.copies, bars) for form in FORMS]
        full = catching.measure(stage, size.full, size.span_s, bars)
        try:
            killed = killing.measure(stage, kills, bars) if kills else None
        except CannotRead as exc:
            raise BenchError(f"the corrected stream cannot be read back: {exc}") from exc
    return tables.outcome(delays, copies, full, killed)
