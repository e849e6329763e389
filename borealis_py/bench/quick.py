"""`borealis bench quick`: delay, throughput, redo speed, memory and a first test, in under three minutes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from rich.console import Console

from borealis_py.bench import catchup, delay, first_test, redo
from borealis_py.bench.catchup import RAW_LOOP, Prepared, needs_raw_loop
from borealis_py.bench.console import Bars
from borealis_py.bench.events import Backlog
from borealis_py.bench.figures import (
    BenchError,
    DelayFigures,
    FirstTestFigures,
    ProcessMemory,
    RedoFigures,
    ThroughputFigures,
)
from borealis_py.bench.machine import BenchMachine, Measured
from borealis_py.bench.processes import memory_of
from borealis_py.bench.stage import Running, Sizes, Stage, on_stage
from borealis_py.demo.measure import STARTUP_US


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickOptions(Sizes):
    """`seconds`: of the delays; `events`: the backlog of the throughput, `redo_rows` of it are redone."""

    seconds: int = 20
    events: int = 1_000_000
    redo_rows: int = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickReport(Measured):
    """Everything that was measured."""

    delay: DelayFigures
    throughput: ThroughputFigures
    redo: list[RedoFigures]
    memory: list[ProcessMemory]
    first_test: FirstTestFigures


def run(options: QuickOptions, console: Console) -> QuickReport:
    """Measure everything.

    Args:
        options: that passed `check`.
        console: progress goes here.

    Raises:
        BenchError: something could not be measured, or what was computed is wrong.
        BrokerError, LaunchError, LogError, SparkUnavailable: what it was to be measured on did not start.
    """
    started, load = time.monotonic(), os.getloadavg()[0]
    with on_stage(options, console) as (bars, stage):
        running, delays, processes = _delay(stage, options, bars)
        prepared, throughputs = _backlog(stage, options, bars)
        bars.say("redo, inline and on Spark" if options.spark else "redo, inline")
        cases = [redo.lived(running, delays.tuples), redo.backlog(prepared, options.redo_rows)]
        redos = redo.measure(stage, cases, options.spark)
        bars.say("a first test of an app")
        tests = first_test.measure()
    return QuickReport(
        machine=BenchMachine.now(load),
        seconds=time.monotonic() - started,
        delay=delays,
        throughput=throughputs,
        redo=redos,
        memory=processes,
        first_test=tests,
    )


def check(options: QuickOptions) -> None:
    """Everything that is needed is there. Raises BenchError."""
    needs_raw_loop()
    try:
        backlog = Backlog(options.events, options.per_record)
    except ValueError as exc:
        raise BenchError(str(exc)) from exc
    if options.redo_rows % backlog.per_bucket or not 0 < options.redo_rows <= backlog.events:
        raise BenchError(f"a redo of {options.redo_rows} rows is not whole records of {backlog.per_bucket} events")


def _delay(stage: Stage, options: QuickOptions, bars: Bars) -> tuple[Running, DelayFigures, list[ProcessMemory]]:
    bars.say(f"starting {delay.REPLICAS} replicas" + (", each a Spark application" if options.spark else ""))
    running = delay.start_app(stage, "spark" if options.spark else "process")
    length_s = options.seconds + STARTUP_US // 1_000_000
    with bars.bar(f"delay: {delay.RATE} tuples/s for {length_s} s", length_s) as at:
        figures = delay.measure(stage, running, options.seconds, at)
    processes = memory_of(stage, running)
    running.processes.stop()
    return running, figures, processes


def _backlog(stage: Stage, options: QuickOptions, bars: Bars) -> tuple[Prepared, ThroughputFigures]:
    backlog = Backlog(options.events, options.per_record)
    written = 0
    with bars.bar(f"writing {backlog.events} events, twice", 2 * backlog.events) as at:

        def tick(more: int) -> None:
            nonlocal written
            written += more
            at(written)

        prepared = catchup.prepare(stage, backlog, tick)
    return prepared, catchup.measure(stage, RAW_LOOP, prepared, lambda what: bars.say(f"throughput: {what}"))
