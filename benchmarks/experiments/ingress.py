"""`make bench NAME=ingress`: topics that others write, from the record to the result.

Four parts on one broker: the delay of a plain topic beside that of our publisher; the rate of copying, beside the hand
loop; three topics that are full before the app begins, with many rows a second and with few; and an ingress that is
killed again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.ingress import catching, copying, delay, killing, tables
from benchmarks.ingress.apps import Form
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench.console import Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import stage_for
from borealis_py.verify.kafka_reader import CannotRead

FORMS: tuple[Form, ...] = ("json", "avro")
SPARSE_RATE = 900


@dataclass(frozen=True, slots=True)
class IngressSize:
    """`runs` of the delay, `seconds` each. `rows`: to copy, of either format, `copies` times. `full`: rows in three
    topics that span `span_s`; `sparse`: likewise, `SPARSE_RATE` a second. `kills`: unless
    `ExperimentOptions.kills` says how many."""

    runs: int
    seconds: int
    rows: int
    copies: int
    full: int
    span_s: int
    sparse: int
    kills: int


SIZES = {
    "short": IngressSize(1, seconds=8, rows=150_000, copies=1, full=60_000, span_s=20, sparse=45_000, kills=1),
    "usual": IngressSize(3, seconds=20, rows=300_000, copies=3, full=1_000_000, span_s=100, sparse=450_000, kills=20),
    "full": IngressSize(5, seconds=60, rows=1_000_000, copies=3, full=1_000_000, span_s=100, sparse=450_000, kills=100),
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
        sparse = catching.measure(stage, size.sparse, size.sparse // SPARSE_RATE, bars)
        try:
            killed = killing.measure(stage, kills, bars) if kills else None
        except CannotRead as exc:
            raise BenchError(f"the corrected stream cannot be read back: {exc}") from exc
    return tables.outcome(delays, copies, full, sparse, killed)
