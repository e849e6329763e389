"""The ways to survive a crash on a real broker, beside what `borealis explain` predicts: `make bench NAME=recovery`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.experiments.recovery import beyond, tables, ways
from benchmarks.experiments.recovery.cases import MEASURED, WINDOWS_S, WayBytes, WayCores, WayStills, windows_of
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench.console import Bars
from borealis_py.bench.stage import stage_for

KILLS = {"short": 1, "usual": 8, "full": 30}
BEYOND = {"short": 0, "usual": 4, "full": 8}
"""Kills whose recovery takes longer than readers wait."""
AGAIN = [way for way in MEASURED if way.value in tables.CPU_MOST]
"""Ways whose processor time has a goal, so that it is measured twice: other work on the machine adds to it at times."""
SECONDS = {"short": 3.0, "usual": 15.0, "full": 60.0}
WINDOWS = {"short": WINDOWS_S[:1], "usual": WINDOWS_S, "full": WINDOWS_S}


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure everything.

    Raises:
        BenchError: something could not be measured. CannotRead: results cannot be read back.
        BrokerError, LaunchError, LogError: something to be measured did not start.
    """
    kills = KILLS[options.size] if options.kills is None else max(1, options.kills)
    windows_s, seconds = WINDOWS[options.size], SECONDS[options.size]
    stills: list[WayStills] = []
    with stage_for(options.work, bars) as stage:
        written: list[WayBytes] = ways.bytes_alone(stage, windows_s, seconds, bars.say)
        for way in MEASURED:
            of, by = ways.killed(stage, way, windows_of(way, windows_s), kills, seconds, bars.say)
            stills += of
            written += by
        beyond_x = beyond.killed(stage, BEYOND[options.size], bars.say) if BEYOND[options.size] else None
        busy = [ways.cores(stage, way, seconds, bars.say) for some in (MEASURED, AGAIN) for way in (None, *some)]
    return tables.outcome(stills, written, least(busy), beyond_x)


def least(busy: Sequence[WayCores]) -> list[WayCores]:
    """Of each way the measurement in which it took least."""
    found: dict[str, WayCores] = {}
    for one in busy:
        if one.way not in found or one.cores < found[one.way].cores:
            found[one.way] = one
    return list(found.values())
