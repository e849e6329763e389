"""`make bench NAME=scaling`: what partitions and Spark slots gain, and what replicas cost, in about nine minutes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from rich.console import Console

from benchmarks.measure import partitions, slots, volume
from benchmarks.measure.partitions import PartitionSource
from benchmarks.measure.scaling_figures import APPS, KeyedFigures, SlotFigures, VolumeFigures
from borealis_py.bench.figures import BenchError
from borealis_py.bench.machine import BenchMachine, Measured
from borealis_py.bench.stage import Sizes, on_stage

PARTITIONS = SLOTS = (1, 2, 4)
REPLICAS = (1, 2)
HOSTS = ("process", "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingOptions(Sizes):
    """`events`: the backlog of each run; `length`: of the names whose distance is taken; `runs`: how often each."""

    events: int = 300_000
    length: int = 4
    runs: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingReport(Measured):
    """Everything that was measured. Without Spark there are no slots."""

    length: int
    partitions: list[KeyedFigures]
    slots: list[SlotFigures]
    volume: list[VolumeFigures]


def check(options: ScalingOptions) -> PartitionSource:
    """The events to measure with, made ahead. Raises BenchError for numbers that do not fit each other."""
    try:
        source = PartitionSource.of(options.events, options.per_record)
    except ValueError as exc:
        raise BenchError(str(exc)) from exc
    if options.per_record % APPS:
        raise BenchError(
            f"{options.per_record} events a bucket: {APPS} unrelated apps share them, so {APPS} must divide it"
        )
    return source


def run(options: ScalingOptions, source: PartitionSource, console: Console) -> ScalingReport:
    """Measure everything on a broker of its own.

    Args:
        source: what `check` made of the options.
        console: progress goes here.

    Raises:
        BenchError: something could not be measured, or what was computed is wrong.
        BrokerError, LaunchError, LogError, SparkUnavailable: what it was to be measured on did not start.
    """
    started, load = time.monotonic(), os.getloadavg()[0]
    with on_stage(options, console) as (bars, stage):
        hosts = HOSTS if options.spark else HOSTS[:1]
        keyed, state = partitions.measure(stage, source, options.length, PARTITIONS, hosts, options.runs, bars.say)
        redos = []
        if options.spark:
            redos = slots.measure(stage, state, source.backlog, SLOTS, options.runs, bars.say)
        volumes = volume.measure(stage, REPLICAS, options.runs, bars.say)
    return ScalingReport(
        machine=BenchMachine.now(load),
        seconds=time.monotonic() - started,
        length=options.length,
        partitions=keyed,
        slots=redos,
        volume=volumes,
    )
