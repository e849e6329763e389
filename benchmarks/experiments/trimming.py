"""`make bench NAME=trimming`: what it costs a replica that topics are trimmed.

The same backlog and the same live rate with everything kept, with what is kept unless an app says otherwise, and with
nothing but what is needed. How much was deleted is counted, too: in runs of a minute no stream is an hour old, and by
default what remains is what it takes to find that out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.experiments import throughput
from benchmarks.experiments.throughput import CatchUp, Caught, KeptUp, Load
from benchmarks.report.goals import published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.events import KEPT
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.log import topics
from tests.harness.event_feeders import SOURCES

ALL = "all"
WORDS = {ALL: "all", "default": "as by default", "needed": "what is needed"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One run: the backlog (`caught`), the live rate (`fed`), and how many records were deleted while that came."""

    caught: Caught
    fed: KeptUp
    deleted: int

    @property
    def kept(self) -> str:
        return self.caught.point.kept

    @property
    def speed(self) -> float:
        """Events a second until all was published."""
        return self.caught.events / self.caught.published_s

    @property
    def caught_us(self) -> float:
        """Processor time of an event of the backlog, in microseconds."""
        return self.caught.cpu_s * 1e6 / self.caught.events


Measure = Callable[[Compared], float]
MEASURES: dict[str, Measure] = {
    "catching up: events/s": lambda one: one.speed,
    "catching up: CPU us an event": lambda one: one.caught_us,
    "live: CPU us an event": lambda one: one.fed.cpu_us,
}
LARGER_IS_BETTER = "catching up: events/s"


def outcome(found: Sequence[Compared], rate: int, host: str) -> Outcome:
    """All of it. Raises ValueError: something was not measured."""
    of = {kept: [one for one in found if one.kept == kept] for kept in KEPT}
    ratios = {f"{kept}, {name}": _better(name, of[ALL], of[kept]) for kept in KEPT if kept != ALL for name in MEASURES}
    runs = len(of[ALL])
    return Outcome(
        name="trimming",
        title="What trimming costs",
        published=published("trimming"),
        setup=(
            f"One replica, host {host}, count and sum by 100 keys and second of three sources. Catching up with "
            f"{found[0].caught.events:,} events, then {rate:,} events/s for {found[0].fed.load.seconds} s: with all "
            "kept, with an hour of the replica's stream (the default; nothing of it is that old here), and with no "
            f"more than is needed, of sources too. Medians of {runs}, each kind first in turn; in brackets least and "
            "most. A replica decides every 10 s. Ratios are of medians; larger is better."
        ),
        worse=_worse(ratios),
        columns=["kept", *(f"{name}>" for name in MEASURES), "records deleted>"],
        rows=[[WORDS[kept], *(_cell(of[kept], m) for m in MEASURES.values()), _deleted(of[kept])] for kept in KEPT],
        ratios=ratios,
        data={"runs": [{**asdict(one), "kept": one.kept} for one in found]},
        panels=[_panel(name, of) for name in MEASURES],
    )


def _better(name: str, all_kept: Sequence[Compared], kept: Sequence[Compared]) -> float:
    before, now = (median(MEASURES[name](one) for one in some) for some in (all_kept, kept))
    return now / before if name == LARGER_IS_BETTER else before / now


def _worse(ratios: dict[str, float]) -> str:
    said = ", ".join(f"{name} {value:.2f}" for name, value in ratios.items())
    return f"To all kept: {said}."


def _cell(some: Sequence[Compared], measure: Measure) -> str:
    values = [measure(one) for one in some]
    digits = 0 if max(values) >= 1_000 else 1
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def _deleted(some: Sequence[Compared]) -> str:
    return f"{median(one.deleted for one in some):,.0f}"


def _panel(name: str, of: dict[str, list[Compared]]) -> Panel:
    curves = [
        Curve(label=WORDS[kept], x=[float(n + 1) for n in range(len(some))], y=[MEASURES[name](one) for one in some])
        for kept, some in of.items()
    ]
    what, _, unit = name.partition(": ")
    return Panel(title=what[:1].upper() + what[1:], x="run", y=unit, curves=curves)


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
    return outcome(found, RATE, host)


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
