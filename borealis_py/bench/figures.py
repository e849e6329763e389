"""Measurements as values, and the arithmetic on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from borealis_py.demo.measure import Arrival, percentile


class BenchError(Exception):
    """A measurement failed, or a computed result is wrong; the message says which."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds. `count`: number of values; below 100 of them p99 is the largest."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class DelayFigures:
    """Failure-free delay at the live subscriber, from the end of a bucket to the arrival of the change that covers it.

    `windows`: buckets that end a window, hence carry results. `buckets`: all. `tentative`: buckets that did not wait
    for their input (0 on a machine that keeps up). `silent`: buckets that nothing covered. `tuples`: published,
    including the start-up phase, which does not count.
    """

    tuples_per_s: int
    sources: int
    replicas: int
    seconds: int
    tuples: int
    results: int
    windows: Percentiles
    buckets: Percentiles
    tentative: int
    silent: int


@dataclass(frozen=True, slots=True)
class RunFigures:
    """One program over the whole backlog. `seconds`: wall; `cpu_s`: processor time of its process, all threads."""

    program: str
    seconds: float
    cpu_s: float
    events_per_s: float


@dataclass(frozen=True, slots=True)
class ThroughputFigures:
    """One replica against the raw loop. `ratio`: of events/s, to the fastest raw run; `cpu_ratio`: the same of events a
    second of processor time, which other programs on the machine disturb less. `ready_s`: from the start of the
    replica's process to the beginning of its work, which is not counted."""

    events: int
    results: int
    per_record: int
    record_bytes: int
    raw: tuple[RunFigures, ...]
    replica: RunFigures
    ready_s: float
    ratio: float
    cpu_ratio: float


@dataclass(frozen=True, slots=True)
class RedoFigures:
    """One job of `rows` rows in `buckets` buckets (`what`: which), run `runs` times; medians.

    `memory`: the step on rows that the replica still holds (a redo inline). `thread`: the rows read again from the log
    by the replica's own process. `spark`: a warm Spark job. Tuples a second.
    """

    what: str
    rows: int
    buckets: int
    runs: int
    memory_per_s: float
    thread_per_s: float
    spark_per_s: float | None
    spark_to_memory: float | None
    spark_to_thread: float | None


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Megabytes (10^6 bytes). `pss_mb` counts shared pages once; None: the system does not report it."""

    process: str
    pid: int
    rss_mb: float
    pss_mb: float | None


@dataclass(frozen=True, slots=True)
class FirstTestFigures:
    """A user's first tests in a new process, medians of `runs`. Seconds: of the imports (`import_s`), of the first
    `testing.run` (`run_s`), and of a first `testing.World` that loses an input for 8 s (`world_s`)."""

    runs: int
    import_s: float
    run_s: float
    world_s: float


def percentiles(delays_us: Sequence[int]) -> Percentiles:
    """Raises BenchError for no delays."""
    if not delays_us:
        raise BenchError("nothing arrived at the live subscriber, so there is no delay to tell")
    p50, p99 = (percentile(delays_us, p) / 1000 for p in (50, 99))
    return Percentiles(len(delays_us), p50, p99, max(delays_us) / 1000)


def first_delays(arrivals: Iterable[Arrival], first: int, end: int, bucket_us: int) -> dict[int, tuple[int, str]]:
    """Bucket of [first, end) -> delay past its end in microseconds, and kind, of whatever spoke for it first."""
    earliest: dict[int, Arrival] = {}
    for arrival in arrivals:
        if first <= arrival.bucket < end:
            best = earliest.get(arrival.bucket)
            if best is None or arrival.wall_us < best.wall_us:
                earliest[arrival.bucket] = arrival
    return {b: (a.wall_us - (b + 1) * bucket_us, a.kind) for b, a in sorted(earliest.items())}


def window_ends(buckets: Iterable[int], bucket_us: int, window_us: int) -> list[int]:
    """The buckets with which a window ends."""
    return [b for b in buckets if (b + 1) * bucket_us % window_us == 0]


def run_figures(program: str, events: int, seconds: float, cpu_s: float) -> RunFigures:
    """Raises BenchError for a run that took no time."""
    if seconds <= 0 or cpu_s <= 0:
        raise BenchError(f"{program}: took {seconds} s and {cpu_s} s of processor time; the clocks are wrong")
    return RunFigures(program, seconds, cpu_s, events / seconds)


def compared(raw: Sequence[RunFigures], replica: RunFigures) -> tuple[float, float]:
    """(events/s, events a second of processor time) of the replica, as a share of the best raw run's."""
    fastest = max(run.events_per_s for run in raw)
    return replica.events_per_s / fastest, min(run.cpu_s for run in raw) / replica.cpu_s


def redo_figures(
    what: str, rows: int, buckets: int, memory_s: Sequence[float], thread_s: Sequence[float], spark_s: Sequence[float]
) -> RedoFigures:
    """From the seconds of each run; `spark_s` is empty where there is no Spark."""
    memory, thread = rows / median(memory_s), rows / median(thread_s)
    spark = rows / median(spark_s) if spark_s else None
    return RedoFigures(
        what,
        rows,
        buckets,
        len(memory_s),
        memory,
        thread,
        spark,
        None if spark is None else spark / memory,
        None if spark is None else spark / thread,
    )
