"""Runs seeds, each a separate world, on all cores, and shrinks those that fail."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.coverage import CoverageCell, total
from borealis_py.simulation.parallel import in_parallel
from borealis_py.simulation.quiet import quiet
from borealis_py.simulation.runner.generator import draw
from borealis_py.simulation.runner.shrink import Edits, shrink
from borealis_py.simulation.runner.simulation import Simulation, lives
from borealis_py.simulation.runner.story import tell
from borealis_py.simulation.scenario import Scenario
from borealis_py.simulation.violation import Violation

TWICE_EVERY = 20
"""One seed in this many is run twice, and must give the same history."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a seed.

    Attributes:
        twice: run it again and compare the histories.
        trace: record what happens, as lines.
        digest: compute the history's hash.
        seconds: how long the world lives until it heals (None: drawn).
        edits: make it smaller.
    """

    twice: bool = False
    trace: bool = False
    digest: bool = True
    seconds: float | None = None
    edits: Edits = field(default_factory=Edits)


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The outcome of one seed. `oracle` is None if all held. `asked`: number of buckets to which the delay bound
    applied.
    """

    seed: int
    oracle: str | None
    detail: str
    scenario: str
    digest: str = ""
    simulated_s: float = 0.0
    seconds: float = 0.0
    asked: int = 0
    worst_us: int = 0
    bound_us: int = 0
    tentative: int = 0
    reconciliations: int = 0
    adoptions: int = 0
    overlap_us: int = 0
    healed_us: int = 0
    named_error: str | None = None
    cells: Mapping[CoverageCell, int] = field(default_factory=dict)
    trace: tuple[str, ...] = ()
    bucket: int | None = None
    story: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.oracle is None

    def failure(self) -> str:
        """What to print about a failure."""
        lines = [f"seed {self.seed}: oracle {self.oracle!r} failed: {self.detail}", self.scenario]
        if self.story:
            lines += [f"the story of bucket {self.bucket}:", *self.story]
        return "\n".join(lines)


def run_seed(seed: int, options: RunOptions | None = None) -> SeedResult:
    """Run one seed's world."""
    options = options or RunOptions()
    scenario = options.edits.apply(draw(seed, seconds=options.seconds))
    result = run_scenario(scenario, options.trace, options.digest or options.twice)
    if options.twice and result.ok:
        again = run_scenario(scenario)
        if again.digest != result.digest:
            return SeedResult(seed, "determinism", f"digests {result.digest} and {again.digest}", str(scenario))
    return result


def run_scenario(scenario: Scenario, trace: bool = False, digest: bool = True) -> SeedResult:
    """Run a world from any scenario."""
    began = time.perf_counter()
    lived: list[Simulation] = []
    failed = None
    with quiet(), _rarely_collected():
        try:
            for life in lives(scenario, trace):
                lived.append(life)
                life.run()
        except Violation as exc:
            failed = exc
        except Exception as exc:  # the product must not raise, whatever happens to it
            failed = Violation("exception", f"{type(exc).__name__}: {exc}\n{traceback.format_exc()}")
    return _result(scenario, lived, failed, time.perf_counter() - began, digest)


def _result(
    scenario: Scenario, lived: list[Simulation], failed: Violation | None, seconds: float, digest: bool
) -> SeedResult:
    """The result over the lives of an app in one world: counts are summed; everything else is of the last life."""
    oracle, detail = (None, "") if failed is None else (failed.oracle, failed.detail)
    if not lived:
        return SeedResult(scenario.seed, oracle, detail, str(scenario), seconds=seconds)
    bucket = None if failed is None else failed.bucket
    last, worlds = lived[-1], [each.world for each in lived]
    world = last.world
    return SeedResult(
        seed=scenario.seed,
        oracle=oracle,
        detail=detail,
        scenario=str(scenario),
        digest=last.observer.digest() if failed is None and digest else "",
        simulated_s=(world.scheduler.now_us - worlds[0].start_us) / 1e6,
        seconds=seconds,
        asked=sum(each.asked for each in worlds),
        worst_us=max(each.worst_us for each in worlds),
        bound_us=scenario.threshold_max_us,
        tentative=sum(each.picture.tentative_seen for each in worlds),
        reconciliations=sum(each.observer.watch.reconciliations for each in lived),
        adoptions=sum(redos.adopted for each in worlds for redos in each.wiring.redos),
        overlap_us=max(each.observer.overlap_us for each in lived),
        healed_us=last.healed_us or 0,
        named_error=world.ended_by_retention,
        cells=dict(total(each.observer.coverage.hits for each in lived)),
        trace=tuple(line for each in worlds for line in _told(each)),
        bucket=bucket,
        story=() if bucket is None else tuple(tell(world, bucket)),
    )


def _told(world: SimulatedWorld) -> list[str]:
    """The trace. Times of each life count from its beginning."""
    lines, life = world.lines or [], world.wiring.life
    return [f"life {life + 1} of the app", *lines] if life and lines else lines


def minimise(result: SeedResult, options: RunOptions) -> Edits:
    """The smallest edits with which the seed still fails the same oracle."""
    scenario = draw(result.seed, seconds=options.seconds)
    return shrink(scenario, lambda smaller: run_scenario(smaller, digest=False).oracle == result.oracle, options.edits)


def run_seeds(
    n: int,
    first: int = 1,
    processes: int | None = None,
    seconds: float | None = None,
    twice_every: int = TWICE_EVERY,
) -> Iterator[SeedResult]:
    """Results of seeds [first, first + n) as they complete. One in `twice_every` is run twice.

    Args:
        processes: None: one per core.
    """
    jobs = [
        (seed, RunOptions(twice=bool(twice_every) and seed % twice_every == 0, digest=False, seconds=seconds))
        for seed in range(first, first + n)
    ]
    return in_parallel(run_seed, jobs, processes)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Look seldom for unreachable cycles: a world is many small objects that are freed together. By default that takes
    an eighth of its time."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
