"""Many runs of one case, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

from benchmarks.recovery.operators import QueryNetwork
from benchmarks.recovery.setting import PaperReading, PaperSetting
from benchmarks.recovery.ways import ActiveStandby, Amnesia, PassiveStandby, UpstreamBackup
from benchmarks.recovery.world import PaperWorld, TimerPhases, Way

RUNS = 25
"""Of each point, as in the paper (H 233)."""
COUNTED_US = 1_200_000
"""How long bytes are counted: a whole number of all intervals and advances of the paper."""
WAYS: dict[str, Callable[[bool], Way]] = {
    way.name: way for way in (PassiveStandby, ActiveStandby, UpstreamBackup, Amnesia)
}
STEP = 1.1673039782614187
"""The root of x^5 = x + 1: the powers of its inverse spread points evenly over four dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperCase:
    """What is run. `precise`: else rollback."""

    way: str
    network: QueryNetwork = field(default_factory=QueryNetwork)
    precise: bool = False
    setting: PaperSetting = field(default_factory=PaperSetting)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFigures:
    """Of one case. Recovery is from where N' knows of the failure (H 83); milliseconds are means over the runs.

    Attributes:
        overhead_percent: bytes for high availability to those of tuples from Nu to N.
        recovery_ms: as `PaperReading` has it. output_ms: until the first new output. state_ms: until N' had N's state.
        replayed: tuples that N' processed to get there. again: outputs that Nd got twice. lost: outputs it never got.
        log_most: the most tuples in the output queues of Nu, in any run.
    """

    overhead_percent: float
    recovery_ms: float
    output_ms: float
    state_ms: float
    replayed: float
    again: float
    lost: float
    log_most: int


def measure(
    case: PaperCase, reading: PaperReading, runs: int = RUNS, way: Callable[[bool], Way] | None = None
) -> CaseFigures:
    """Run a case: once without a failure, then `runs` times with one, at moments that are spread evenly.

    Args:
        way: to be used in place of the case's.

    Raises:
        NotRecovered: N' never came so far as N had been.
    """
    make = way or WAYS[case.way]
    broken = [_broken(case, reading, make(case.precise), at, runs) for at in range(runs)]
    output_ms = fmean(((w.recovered_us or 0) - w.detected_us) / 1000 for w in broken)
    state_ms = fmean(((w.state_us or 0) - w.detected_us) / 1000 for w in broken)
    return CaseFigures(
        overhead_percent=_overhead_percent(case, reading, make(case.precise)),
        recovery_ms=output_ms if reading.until_output else state_ms,
        output_ms=output_ms,
        state_ms=state_ms,
        replayed=fmean(w.replayed for w in broken),
        again=fmean(w.downstream.again for w in broken),
        lost=fmean(w.downstream.lost() for w in broken),
        log_most=max(w.log_most for w in broken),
    )


def _warm_us(case: PaperCase) -> int:
    """When states are full, and every queue has been trimmed."""
    span_us = (case.network.spans + case.network.advance) * 1_000_000 // case.setting.rate_per_s
    interval_us = case.setting.interval_us
    return (span_us // interval_us + 5) * interval_us


def _overhead_percent(case: PaperCase, reading: PaperReading, way: Way) -> float:
    world = PaperWorld(case.setting, reading, case.network, way, _phases(reading, 0, 1))
    world.clock.run(_warm_us(case))
    ha_bytes, tuple_bytes = world.ha_bytes, world.tuple_bytes
    world.clock.run(_warm_us(case) + COUNTED_US)
    return 100 * (world.ha_bytes - ha_bytes) / (world.tuple_bytes - tuple_bytes)


def _broken(case: PaperCase, reading: PaperReading, way: Way, run: int, runs: int) -> PaperWorld:
    phases = _phases(reading, run, runs)
    world = PaperWorld(case.setting, reading, case.network, way, phases)
    world.clock.at(_warm_us(case) + round(phases.fails * case.setting.interval_us), world.fail)
    world.run_until_recovered()
    return world


def _phases(reading: PaperReading, run: int, runs: int) -> TimerPhases:
    """Of one run. N's own timer may begin at 0: the failure is spread over its interval."""
    within, source, secondary, downstream = ((0.5 + (run + 1) * STEP**-power) % 1 for power in range(1, 5))
    fails = (run + within) / runs
    if reading.together:
        return TimerPhases(source=source, fails=fails)
    return TimerPhases(source=source, secondary=secondary, downstream=downstream, fails=fails)
