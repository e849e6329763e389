"""`make bench NAME=plain`: three topics that any program writes, one JSON record per event, and what each system takes
to count and sum them by key and second: processor time, memory, threads, the broker's part, and the delay of results.

The hand loop, Pathway where there is one (`BENCH_PATHWAY=PYTHON`) and two replicas with two ingresses run one after the
other on one broker, at each rate, the busiest first: what has just started compiles.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import psutil

from benchmarks.ingress import apps
from benchmarks.plain.systems import (
    APP,
    HAND_LOOP,
    LATENESS_MS,
    OURS,
    PATHWAY,
    System,
    loops,
    running_app,
    running_loop,
)
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.bench.console import Bars
from borealis_py.bench.events import WINDOW_US
from borealis_py.bench.figures import BenchError, Percentiles, percentiles
from borealis_py.bench.processes import MB, cpu_s
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.client.publisher import wall_us
from borealis_py.log.topics import deadletter

TOPICS = ("orders", "returns", "visits")
RATES: Mapping[Size, tuple[int, ...]] = {
    "short": (900, 0),
    "usual": (9_000, 900, 90, 0),
    "full": (45_000, 9_000, 900, 90, 0),
}
"""Events a second, all topics together."""
SECONDS: Mapping[Size, float] = {"short": 8.0, "usual": 20.0, "full": 60.0}
SETTLE_S: Mapping[Size, float] = {"short": 6.0, "usual": 12.0, "full": 30.0}
READY_S, END_S = 30.0, 60.0
LOOK_S = 0.1
_GOALS = goals("plain")
GOAL_RATE: int = _GOALS["rate"]
CPU_GOAL: float = _GOALS["cpu_percent"]
BROKER_GOAL: float = _GOALS["broker_share"]
P50_GOAL_MS: float = _GOALS["p50_ms"]
MAX_GOAL_MS: float = _GOALS["max_ms"]
THREADS_GOAL: int = _GOALS["threads"]
PSS_GOAL_MB: float = _GOALS["pss_mb"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCost:
    """One process over a period, in percent of one core."""

    role: str
    cpu_percent: float
    pss_mb: float
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPoint:
    """A system at a rate.

    Attributes:
        broker_percent: of a core, meanwhile. delay: from a window's end to its first result; None: nothing was sent.
        tentative: windows shown before they were certain. windows: those that were judged.
    """

    system: str
    rate_per_s: int
    processes: tuple[ProcessCost, ...]
    broker_percent: float
    delay: Percentiles | None
    windows: int
    tentative: int

    @property
    def cpu_percent(self) -> float:
        """Of all its processes."""
        return sum(one.cpu_percent for one in self.processes)

    @property
    def pss_mb(self) -> float:
        return sum(one.pss_mb for one in self.processes)

    @property
    def threads(self) -> int:
        return sum(one.threads for one in self.processes)


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure every system at every rate.

    Raises:
        BenchError: something could not be measured, or events are missing in the results.
        BrokerError: no Java, or the broker did not start.
    """
    size = options.size
    found: list[PlainPoint] = []
    with stage_for(options.work, bars) as stage:
        apps.create(stage, *TOPICS)
        for name in loops():
            bars.say(f"{name}: starting")
            with running_loop(stage, name, TOPICS) as loop:
                found += _measured(stage, name, loop, size, bars)
        bars.say("borealis: starting 2 replicas and 2 ingresses")
        with running_app(stage, TOPICS) as ours:
            found += _measured(stage, OURS, ours, size, bars)
    return outcome(found)


def _measured(stage: Stage, name: str, system: System, size: Size, bars: Bars) -> Iterator[PlainPoint]:
    """One point for each rate, the busiest first. Raises BenchError: not every event is in the results."""
    sent = 0
    for rate in RATES[size]:
        bars.say(f"{name}: {rate:,} events/s")
        with _feeding(stage, f"{name.replace(' ', '-')}-{rate}", rate) as fed:
            time.sleep(SETTLE_S[size])
            yield _point(stage, name, system, rate, SECONDS[size])
        sent += fed[0]
        if name == OURS:  # the others say nothing of what they drop as late
            _wait_counted(stage, system, sent)


def _point(stage: Stage, name: str, system: System, rate: int, seconds: float) -> PlainPoint:
    broker = psutil.Process(stage.broker.status().pid)
    roles = {**system.processes, broker: ""}
    before = {process: at for process in roles if (at := cpu_s(process)) is not None}
    began, began_us = time.monotonic(), wall_us()
    time.sleep(seconds)
    took_s, ended_us = time.monotonic() - began, wall_us()
    spent = {process: 100 * ((cpu_s(process) or at) - at) / took_s for process, at in before.items()}
    processes = tuple(
        ProcessCost(
            role=roles[process],
            cpu_percent=percent,
            pss_mb=process.memory_full_info().pss / MB,
            threads=process.num_threads(),
        )
        for process, percent in spent.items()
        if process != broker
    )
    time.sleep(1.0 if rate else 0.0)  # the last window's result is on its way
    judged = range(-(-began_us // WINDOW_US) * WINDOW_US, ended_us - WINDOW_US, WINDOW_US)
    delays, tentative = system.delays_us, system.tentative
    if rate and not all(start in delays for start in judged):
        raise BenchError(f"{name}, {rate} events/s: {sum(s not in delays for s in judged)} windows had no result")
    return PlainPoint(
        system=name,
        rate_per_s=rate,
        processes=processes,
        broker_percent=spent[broker],
        delay=percentiles([delays[start] for start in judged]) if rate else None,
        windows=len(judged),
        tentative=len(tentative & set(judged)),
    )


@contextmanager
def _feeding(stage: Stage, name: str, rate: int) -> Iterator[list[int]]:
    """Events are written meanwhile. At its end the list has their number. Raises BenchError."""
    fed: list[int] = []
    if not rate:
        yield fed
        fed.append(0)
        return
    out = stage.work / f"{name}-fed"
    process = stage.module(
        f"{name}-feeding", "benchmarks.plain.feeding", stage.log.bootstrap, str(rate), str(out), *TOPICS
    )
    deadline = time.monotonic() + READY_S
    while not out.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"nothing is written; see {name}-feeding.log")
        time.sleep(LOOK_S)
    yield fed
    process.send_signal(signal.SIGTERM)
    if process.wait(END_S):
        raise BenchError(f"not all events were written; see {name}-feeding.log")
    fed.append(int(out.read_text()))


def _wait_counted(stage: Stage, system: System, sent: int) -> None:
    deadline = time.monotonic() + END_S
    while system.counted + (late := len(stage.read(deadletter(APP)))) != sent:
        if time.monotonic() > deadline:
            raise BenchError(f"{sent} events were sent, {system.counted} are in results, {late} are dead letters")
        time.sleep(LOOK_S)


def outcome(found: Sequence[PlainPoint]) -> Outcome:
    """Table and figures of what was measured."""
    by = {(point.system, point.rate_per_s): point for point in found}
    return Outcome(
        name="plain",
        title="Three topics that any program writes, one JSON record per event",
        published=published("plain"),
        setup=f"Count and sum by 100 keys and second, lateness {LATENESS_MS} ms, X = 3 s, two replicas and two "
        "ingresses as `borealis up --host process` starts them. One process writes all three topics and is not "
        "counted, nor are readers. Delay: from the end of a window to its first result, which waits for the lateness. "
        "Memory is PSS: pages that processes share count once.",
        worse="Two of each process run, so that one may be lost." + _over(by),
        columns=["events/s>", "system", "CPU %>", "by process", "broker %>", "threads>", "PSS MB>", "p50 ms>", "max>"],
        rows=[_cells(point) for point in found],
        ratios=_ratios(by),
        data={"points": [{**asdict(point), "cpu_percent": point.cpu_percent} for point in found]},
        panels=[
            Panel(title="Processor, all processes", x="events/s", y="% of a core", curves=_curves(found), log_x=True)
        ],
    )


def _cells(point: PlainPoint) -> list[str]:
    delay = ["", ""] if point.delay is None else [f"{ms:.0f}" for ms in (point.delay.p50_ms, point.delay.max_ms)]
    each = ", ".join(f"{one.role} {one.cpu_percent:.1f}" for one in point.processes) if len(point.processes) > 1 else ""
    return [
        f"{point.rate_per_s:,}",
        point.system,
        f"{point.cpu_percent:.1f}",
        each,
        f"{point.broker_percent:.1f}",
        f"{point.threads}",
        f"{point.pss_mb:.0f}",
        *delay,
    ]


def _over(by: Mapping[tuple[str, int], PlainPoint]) -> str:
    """The goals that were missed."""
    ours, loop, pathway = (by.get((name, GOAL_RATE)) for name in (OURS, HAND_LOOP, PATHWAY))
    if ours is None or loop is None or ours.delay is None:
        return ""
    limit = CPU_GOAL if pathway is None else min(CPU_GOAL, 1.5 * pathway.cpu_percent)
    found = {
        f"CPU {ours.cpu_percent:.0f} % ({limit:.0f})": ours.cpu_percent > limit,
        f"broker {ours.broker_percent:.0f} % ({BROKER_GOAL * loop.broker_percent:.0f})": (
            ours.broker_percent > BROKER_GOAL * loop.broker_percent
        ),
        f"threads {ours.threads} ({THREADS_GOAL})": ours.threads > THREADS_GOAL,
        f"memory {ours.pss_mb:.0f} MB ({PSS_GOAL_MB:.0f})": ours.pss_mb > PSS_GOAL_MB,
        f"p50 {ours.delay.p50_ms:.0f} ms ({P50_GOAL_MS:.0f})": ours.delay.p50_ms > P50_GOAL_MS,
        f"longest delay {ours.delay.max_ms:.0f} ms ({MAX_GOAL_MS:.0f})": ours.delay.max_ms > MAX_GOAL_MS,
    }
    over = [what for what, missed in found.items() if missed]
    return f" Over the goal at {GOAL_RATE} events/s: {', '.join(over)}." if over else ""


def _ratios(by: Mapping[tuple[str, int], PlainPoint]) -> dict[str, float]:
    found: dict[str, float] = {}
    for (system, rate), ours in by.items():
        loop = by.get((HAND_LOOP, rate))
        if system != OURS or loop is None:
            continue
        at = f"{rate:,}/s"
        found[f"{at}: hand loop's CPU to ours"] = loop.cpu_percent / ours.cpu_percent
        found[f"{at}: broker's CPU beside the hand loop to that beside ours"] = (
            loop.broker_percent / ours.broker_percent
        )
        if loop.delay is not None and ours.delay is not None:
            found[f"{at}: hand loop's delay to ours, p50"] = loop.delay.p50_ms / ours.delay.p50_ms
    return found


def _curves(found: Sequence[PlainPoint]) -> list[Curve]:
    curves = []
    for name in dict.fromkeys(point.system for point in found):
        own = sorted((p.rate_per_s, p.cpu_percent) for p in found if p.system == name and p.rate_per_s)
        curves.append(Curve(label=name, x=[float(rate) for rate, _ in own], y=[percent for _, percent in own]))
    return curves
