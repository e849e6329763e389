"""Runs seeds: `python -m borealis_py.sim.run --seeds 200 --seed 1`.

A seed that fails is made smaller (faults are left out while it still fails) and told with what is needed to repeat it.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from borealis_py.sim.oracles import Violation
from borealis_py.sim.scenario import Scenario, draw
from borealis_py.sim.world import World


@dataclass(frozen=True, slots=True)
class Options:
    """`twice`: run it again and compare the histories. `keep`: only these faults of the scenario (None: all)."""

    twice: bool = False
    keep: tuple[int, ...] | None = None
    trace: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """How one seed went. `oracle` is None when all held. `asked`: buckets that the delay bound was asked of."""

    seed: int
    oracle: str | None
    detail: str
    scenario: str
    digest: str
    simulated_s: float
    seconds: float
    asked: int = 0
    worst_us: int = 0
    bound_us: int = 0
    tentative: int = 0
    reconciliations: int = 0
    overlap_us: int = 0
    healed_us: int = 0
    trace: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.oracle is None

    def story(self) -> str:
        """What to print of a failure."""
        return f"seed {self.seed}: oracle {self.oracle!r} failed: {self.detail}\n{self.scenario}"


def run_seed(seed: int, options: Options | None = None) -> Result:
    """Live through one seed's world."""
    options = options or Options()
    scenario = draw(seed)
    if options.keep is not None:
        for i in reversed(range(len(scenario.faults))):
            if i not in options.keep:
                scenario = scenario.without(i)
    result = run_scenario(scenario, options.trace)
    if options.twice and result.ok:
        again = run_scenario(scenario)
        if again.digest != result.digest:
            return _result(scenario, None, "determinism", f"digests {result.digest} and {again.digest}", 0.0)
    return result


def run_scenario(scenario: Scenario, trace: bool = False) -> Result:
    """Live through one world, however its scenario came about."""
    began = time.perf_counter()
    oracle, detail, world = None, "", None
    with _quiet():
        try:
            world = World(scenario, trace)
            world.run()
        except Violation as exc:
            oracle, detail = exc.oracle, exc.detail
        except Exception as exc:  # the product may not raise, whatever happens to it
            oracle, detail = "exception", f"{type(exc).__name__}: {exc}\n{traceback.format_exc()}"
    return _result(scenario, world, oracle, detail, time.perf_counter() - began)


def _result(scenario: Scenario, world: World | None, oracle: str | None, detail: str, seconds: float) -> Result:
    if world is None:
        return Result(scenario.seed, oracle, detail, str(scenario), "", 0.0, seconds)
    return Result(
        scenario.seed,
        oracle,
        detail,
        str(scenario),
        world.digest() if oracle is None else "",
        (world.scheduler.now_us - world.start_us) / 1e6,
        seconds,
        world.asked,
        world.worst_us,
        scenario.threshold_max_us,
        world.picture.tentative_seen,
        world.watch.reconciliations,
        world.watch.overlap_us,
        world.healed_us or 0,
        tuple(world.lines or ()),
    )


@contextmanager
def _quiet() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def minimise(scenario: Scenario, oracle: str) -> Scenario:
    """Leave faults out as long as the same oracle fails."""
    smaller = True
    while smaller:
        smaller = False
        for i in reversed(range(len(scenario.faults))):
            candidate = scenario.without(i)
            if run_scenario(candidate).oracle == oracle:
                scenario, smaller = candidate, True
                break
    return scenario


def run_seeds(n: int, first: int = 1, processes: int = 2, twice_every: int = 20) -> Iterator[Result]:
    """Results of seeds [first, first + n) as they come. Every `twice_every`th is run twice."""
    jobs = [(seed, Options(twice=twice_every > 0 and seed % twice_every == 0)) for seed in range(first, first + n)]
    if processes <= 1:
        for job in jobs:
            yield _run(job)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_run, jobs, chunksize=4)


def _run(job: tuple[int, Options]) -> Result:
    return run_seed(*job)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="borealis sim", description="Run the product in simulated worlds.")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", help="only these faults, e.g. 0,2")
    parser.add_argument("--trace", action="store_true", help="tell what happens (one seed)")
    args = parser.parse_args(argv)
    if args.seeds == 1:
        keep = None if args.keep is None else tuple(int(i) for i in args.keep.split(",") if i)
        results = iter([run_seed(args.seed, Options(keep=keep, trace=args.trace, twice=not args.trace))])
    else:
        print(f"seeds {args.seed} to {args.seed + args.seeds - 1}")
        results = run_seeds(args.seeds, args.seed, args.processes)
    return _tell(results, args.seeds, args.keep)


def _tell(results: Iterator[Result], seeds: int, keep: str | None) -> int:
    began, done, failed = time.perf_counter(), [], []
    for result in results:
        done.append(result)
        for line in result.trace:
            print(line)
        if not result.ok:
            failed.append(result)
            print(result.story())
            small = result.scenario
            if seeds > 1 or keep is None:
                small = str(minimise(draw(result.seed), result.oracle or ""))
                print(f"smallest that fails the same way:\n{small}")
            print(f"repeat: python -m borealis_py.sim.run --seeds 1 --seed {result.seed} --trace\n", flush=True)
    asked = sum(r.asked for r in done)
    simulated = sum(r.simulated_s for r in done)
    print(
        f"{len(done)} seeds, {len(failed)} failed: {sorted(r.seed for r in failed)}; {simulated:.0f} s simulated in "
        f"{time.perf_counter() - began:.1f} s, slowest {max(r.seconds for r in done):.2f} s; bound asked of {asked} "
        f"buckets, {sum(r.tentative for r in done)} tentative, {sum(r.reconciliations for r in done)} reconciliations, "
        f"longest overlap {max(r.overlap_us for r in done) / 1e6:.3f} s, "
        f"longest healing {max(r.healed_us for r in done) / 1e6:.2f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
