"""One query with one lost source, run in the simulator: what its client saw. For experiments with many points.

The product runs unchanged on simulated clocks and a simulated log (`borealis_py.simulation`): a point gives the same
result every time and on every machine. Every oracle of the simulator judges each world; only whether the bound was kept
is reported instead.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from statistics import fmean

from benchmarks.report.outcome import Curve
from borealis_py.bench.console import At
from borealis_py.bench.figures import BenchError
from borealis_py.demo.measure import AddedDelays, Arrival, measure
from borealis_py.protocol.settings import DelayPolicy, Delays, Timing
from borealis_py.simulation.cluster.client_model import ClientPicture
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.quiet import quiet
from borealis_py.simulation.runner.simulation import Simulation
from borealis_py.simulation.scenario import SECOND, Fault, Scenario, SimulatedNode
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from sunion.model import Kind
from sunion.view import Change

SOURCES = 3
WIDTH_US = 100_000
SPAN = 10
"""Buckets in a window of the toy query."""
FAILS_US = 6 * SECOND
"""When the source is lost: three seconds of start-up are ignored, the next three show the usual delay."""
ROWS_PER_S = 45_000
"""Speed of replicas and redo jobs: that of one Spark slot with a query of 21 us per row (docs/explanation/costs.md)."""
PROCESSES = 2
MESSAGE_US, TURN_US = (500, 2_500), (1_000, 5_000)

PROCESS, DELAY, SUSPEND = DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND
Variant = tuple[DelayPolicy, DelayPolicy]
"""The policies for failure, and for stabilization."""
PUBLISHED: tuple[Variant, ...] = ((PROCESS, PROCESS), (DELAY, DELAY), (PROCESS, SUSPEND))
"""The variants of the chain of 2005 (DPC, SIGMOD 2005)."""
VARIANTS: tuple[Variant, ...] = (*PUBLISHED, (DELAY, PROCESS), (PROCESS, DELAY), (DELAY, SUSPEND))
"""All six (DPC, SIGMOD 2005)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPoint:
    """One world. `threshold_s`: X, end to end. `rate`: rows per second of each of three sources. `depth`: nodes in a
    row, with `replicas` each. The first source is cut off from the log for `failure_s` and then sends what it kept.
    """

    depth: int
    failure_s: int
    threshold_s: float
    variant: Variant = (PROCESS, PROCESS)
    replicas: int = 2
    rate: int = 334
    rows_per_s: int = ROWS_PER_S
    seed: int = 1

    @property
    def heals_us(self) -> int:
        """When the source is back."""
        return FAILS_US + self.failure_s * SECOND

    @property
    def name(self) -> str:
        return name_of(self.variant)

    def scenario(self) -> Scenario:
        """Its world. When the source is back, each node gets time for the backlog before everything must be well."""
        names = [*(f"n{i}" for i in range(1, self.depth)), QUERY]
        sources = tuple(f"s{i}" for i in range(SOURCES))
        nodes = [SimulatedNode(n, (names[i - 1],) if i else sources, self.replicas) for i, n in enumerate(names)]
        redo_us = 2 * SECOND * self.failure_s * self.rate * SOURCES // self.rows_per_s
        return Scenario(
            seed=self.seed,
            sources=SOURCES,
            nodes=tuple(nodes),
            width_us=WIDTH_US,
            span=SPAN,
            rate=self.rate,
            delays=Delays(round(self.threshold_s * SECOND), *self.variant),
            timing=Timing(),
            message_us=MESSAGE_US,
            turn_us=TURN_US,
            poll_records_max=None,
            heal_us=self.heals_us + 2 * SECOND + self.depth * redo_us,
            ends=False,
            latecomer=False,
            faults=(Fault("source_cut", 0, FAILS_US, self.heals_us),),
            part_rows=SOURCES * self.rate,
            rows_per_s=self.rows_per_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointOutcome:
    """What the client of a point's world saw.

    Attributes:
        usual_ms: from the end of a bucket to its first word, without failure; the median.
        added_ms: largest additional delay of a bucket's first word. added_at_s: of the end of that bucket, since the
            source was lost.
        silent: buckets that it received nothing about, in the period examined.
        tentative_rows, tentative_buckets: everything that was tentative.
        corrected_s: from when the source was back until nothing was tentative.
        over_time: (end of the bucket in seconds since the source was lost, added milliseconds).
        broken: the simulator's own verdict on the bound.
    """

    point: SimulatedPoint
    usual_ms: float
    added_ms: float
    added_at_s: float
    silent: int
    tentative_rows: int
    tentative_buckets: int
    corrected_s: float
    over_time: list[tuple[float, float]]
    broken: str | None

    @property
    def within(self) -> bool:
        """Whether the bound X was kept for every bucket."""
        return self.broken is None and not self.silent and self.added_ms <= self.point.threshold_s * 1000

    def data(self) -> dict[str, object]:
        """The outcome as JSON values."""
        p = self.point
        return {
            "depth": p.depth, "failure_s": p.failure_s, "threshold_s": p.threshold_s, "variant": p.name,
            "replicas": p.replicas, "rows_per_s_each_source": p.rate, "rows_per_s_run": p.rows_per_s, "seed": p.seed,
            "usual_ms": self.usual_ms, "added_max_ms": self.added_ms, "added_max_at_s": self.added_at_s,
            "silent_buckets": self.silent, "tentative_rows": self.tentative_rows,
            "tentative_buckets": self.tentative_buckets, "corrected_s": self.corrected_s, "within_x": self.within,
            "oracle": self.broken,
        }  # fmt: skip


class CountingPicture(ClientPicture):
    """A picture that counts tentative rows. `corrected_us`: when nothing tentative was left, last."""

    def __init__(self, origin: int) -> None:
        super().__init__(origin)
        self.tentative_rows = 0
        self.corrected_us = 0

    def apply(self, now_us: int, changes: Sequence[Change]) -> None:
        for change in changes:
            before = len(self.tentative)
            super().apply(now_us, [change])
            if change.kind is Kind.TENTATIVE:
                self.tentative_rows += len(self.rows.get(change.bucket, ()))
            if before and not self.tentative:
                self.corrected_us = now_us


def name_of(variant: Variant) -> str:
    """The variant's name in the papers."""
    return " & ".join(policy.value for policy in variant)


def see(point: SimulatedPoint) -> PointOutcome:
    """Run a point's world.

    Raises:
        BenchError: an oracle failed: the results are wrong, or it did not heal. Late results do not raise.
    """
    simulation, broken = Simulation(point.scenario()), None
    world = simulation.world
    recorder = CountingPicture(world.origin)
    world.picture = recorder
    with quiet():
        try:
            simulation.run()
        except Violation as exc:
            if exc.oracle != "availability":
                raise BenchError(f"{point}: oracle {exc.oracle!r} failed: {exc}") from exc
            broken = str(exc)
    return seen_of(point, world, recorder, broken)


def seen_of(
    point: SimulatedPoint, world: SimulatedWorld, recorder: CountingPicture, broken: str | None
) -> PointOutcome:
    """What the client of a finished world saw."""
    fails_us = world.start_us + FAILS_US
    arrivals = [Arrival(bucket, at_us, "") for bucket, at_us in recorder.arrival.items()]
    end = world.buckets.of(world.start_us + world.scenario.heal_us)
    found = measure(arrivals, WIDTH_US, world.origin, end, fails_us)
    corrected_us = max(0, recorder.corrected_us - world.start_us - point.heals_us)
    tentative = recorder.tentative_rows, recorder.tentative_seen
    return outcome_of(point, found, WIDTH_US, fails_us, tentative, corrected_us, broken)


def outcome_of(
    point: SimulatedPoint,
    found: AddedDelays,
    width_us: int,
    fails_us: int,
    tentative: tuple[int, int],
    corrected_us: int,
    broken: str | None = None,
) -> PointOutcome:
    """What a client saw, by the delays that it measured.

    Args:
        width_us: of a bucket. fails_us: when the source was lost. tentative: rows and buckets. corrected_us: from when
            it was back until nothing was tentative.
    """

    def since(bucket: int) -> float:
        return ((bucket + 1) * width_us - fails_us) / SECOND

    judged = [b for b in found.buckets if since(b.bucket) > -2]
    worst = max(judged, key=lambda b: b.added_us)
    rows, buckets = tentative
    return PointOutcome(
        point=point,
        usual_ms=found.median_us / 1000,
        added_ms=worst.added_us / 1000,
        added_at_s=since(worst.bucket),
        silent=len(found.silent),
        tentative_rows=rows,
        tentative_buckets=buckets,
        corrected_s=corrected_us / SECOND,
        over_time=[(since(b.bucket), b.added_us / 1000) for b in judged],
        broken=broken,
    )


@dataclass(frozen=True, slots=True)
class GridCell:
    """A point, over all its seeds: the largest delay in seconds, means of the rest."""

    added_s: float
    tentative_rows: float
    corrected_s: float
    within: bool


class PointResults:
    """The outcomes of many points. Points that differ only in the seed are combined."""

    def __init__(self, seen: Sequence[PointOutcome]) -> None:
        self._seen: dict[SimulatedPoint, list[PointOutcome]] = {}
        for one in seen:
            self._seen.setdefault(_of_seed(one.point), []).append(one)

    def get(self, point: SimulatedPoint) -> GridCell | None:
        """None: it was not measured."""
        seen = self._seen.get(_of_seed(point))
        if seen is None:
            return None
        return GridCell(
            max(one.added_ms for one in seen) / 1000,
            fmean(one.tentative_rows for one in seen),
            fmean(one.corrected_s for one in seen),
            all(one.within for one in seen),
        )

    def at(self, point: SimulatedPoint) -> GridCell:
        """Raises KeyError."""
        cell = self.get(point)
        if cell is None:
            raise KeyError(point)
        return cell

    @property
    def failures_s(self) -> list[int]:
        """All lengths of a failure."""
        return sorted({point.failure_s for point in self._seen})

    @property
    def rates(self) -> str:
        """Rows a second of each source."""
        return " and ".join(str(rate) for rate in sorted({point.rate for point in self._seen}))

    def lines(self) -> list[SimulatedPoint]:
        """One point of each set that differs only in the length of the failure."""
        return list(dict.fromkeys(replace(point, failure_s=0) for point in self._seen))

    def points(self) -> list[SimulatedPoint]:
        """All of them, of any seed."""
        return list(self._seen)

    def broken(self) -> list[SimulatedPoint]:
        """The points where the bound was not kept."""
        return [point for point in self._seen if not self.at(point).within]

    def data(self, without: Collection[str] = ()) -> list[dict[str, object]]:
        """For programs. `without`: names of what is not told."""
        each = [one.data() for seen in self._seen.values() for one in seen]
        return [{name: value for name, value in one.items() if name not in without} for one in each]

    def curves(
        self, lines: Iterable[Sequence[SimulatedPoint]], what: str, x: Callable[[SimulatedPoint], float], how: str = ""
    ) -> list[Curve]:
        """A curve for each line with measurements; `what`: a field of `GridCell`; `how`: ends its label, and makes it
        points."""
        found = []
        for line in lines:
            cells = [(x(point), self.get(point)) for point in line]
            there = [(at, getattr(cell, what)) for at, cell in cells if cell is not None]
            if there:
                xs, ys = [at for at, _ in there], [y for _, y in there]
                found.append(Curve(label=_label(line[0]) + how, x=xs, y=ys, style="points" if how else "line"))
        return found

    def over_time(self, points: Iterable[SimulatedPoint]) -> list[Curve]:
        """The added delay of each bucket, in seconds, of the first seed."""
        there = [self._seen[point][0] for point in points if point in self._seen]
        return [
            Curve(
                label=_label(one.point),
                x=[at for at, _ in one.over_time],
                y=[ms / 1000 for _, ms in one.over_time],
                style="points",
            )
            for one in there
        ]


def _of_seed(point: SimulatedPoint) -> SimulatedPoint:
    return replace(point, seed=1)


def _label(point: SimulatedPoint) -> str:
    return point.name + ("" if point.replicas > 1 else ", one replica")


def see_with(bar: At, points: Sequence[SimulatedPoint], processes: int) -> list[PointOutcome]:
    """The same, telling a bar how many are done. Raises BenchError."""
    seen = []
    for done, one in see_all(points, processes):
        seen.append(one)
        bar(done)
    return seen


def see_all(points: Sequence[SimulatedPoint], processes: int = PROCESSES) -> Iterator[tuple[int, PointOutcome]]:
    """(how many are done, what was seen), in the order of `points`. Raises BenchError."""
    processes = min(processes, os.cpu_count() or 1, len(points))
    if processes <= 1:
        yield from enumerate(map(see, points), 1)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin) as pool:
        try:
            yield from enumerate(pool.map(see, points), 1)
        finally:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Initialise each worker: worlds are many small objects that are freed together."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
