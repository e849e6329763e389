"""`make bench NAME=trimming`: what it costs a replica that topics are trimmed.

The same backlog and the same live rate with everything kept, with what is kept unless an app says otherwise, and with
nothing but what is needed. How much was deleted is counted, too: in runs of a minute no stream is an hour old, and by
default what remains is what it takes to find that out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from benchmarks.experiments import throughput
from benchmarks.experiments.throughput_tables import CatchUp, Load
from benchmarks.experiments.trimming import tables
from benchmarks.experiments.trimming.tables import Compared
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.events import KEPT
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.log import topics
from tests.harness.event_feeders import SOURCES

RUNS = {"short": 1, "usual": 3, "full": 5}
EVENTS = {"short": 300_000, "usual": 2_000_000, "full": 4_000_000}
PER_RECORD = 33
RATE = 10_000
SECONDS = {"short": 12, "usual": 40, "full": 120}
"""Replicas trim every 10 s."""


def order(runs: int) -> Iterator[tuple[str, int]]:
    """What is kept, and the number of the run. Each goes first in turn: a machine that slows down favours none."""
    names = list(KEPT)
    for run in range(runs):
        first = run % len(names)
        yield from ((kept, run + 1) for kept in (*names[first:], *names[:first]))


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure everything.

    Raises:
        BenchError: something could not be measured, or results differ.
        BrokerError, LaunchError, LogError, SparkUnavailable: something to be measured did not start.
    """
    size, host = options.size, options.host
    with stage_for(options.work, bars) as stage:
        found = [one(stage, kept, n, size, host, bars) for kept, n in order(RUNS[size])]
    return tables.outcome(found, RATE, host)


def one(stage: Stage, kept: str, run: int, size: str, host: str, bars: Bars) -> Compared:
    """Both measurements, once.

    Raises:
        BenchError: a publisher or a replica failed, or what was to be kept was deleted.
        LaunchError: a replica did not start.
    """
    point = CatchUp(host=host, replicas=1, per_record=PER_RECORD, run=run, kept=kept)
    caught, _ = throughput.caught_up(stage, throughput.backlog_of(EVENTS[size], PER_RECORD), point, bars)
    load = Load(host=host, replicas=1, rate=RATE, seconds=SECONDS[size], run=run, kept=kept)
    gone: list[int] = []
    fed = throughput.feed(stage, load, bars, lambda: gone.append(deleted(stage, load.app)))
    if KEPT[kept].source == KEPT[kept].app == "all" and gone[0]:
        raise BenchError(f"{load.app}: {gone[0]} records were deleted although all are kept")
    return Compared(caught, fed, gone[0])


def deleted(stage: Stage, app: str) -> int:
    """How many records of its sources and of its replica's stream are gone."""
    feeds = [*(topics.source(app, f"s{i}") for i in range(SOURCES)), *topics.own_feeds(app, events.QUERY, 0, 1)]
    with closing(stage.log.lookup()) as lookup:
        return sum(lookup.bounds(feed)[0] for feed in feeds)
