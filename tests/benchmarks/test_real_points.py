"""Points of `make bench NAME=chain` and `policies` that run for real: what runs, and what is made of what came."""

from __future__ import annotations

import pytest

from benchmarks.experiments import chain, policies
from benchmarks.experiments.points import real
from benchmarks.experiments.points.simulated import SOURCES, VARIANTS, SimulatedPoint
from borealis_py.bench.events import BUCKET_US, QUERY
from borealis_py.bench.figures import BenchError
from borealis_py.client.subscriber import LiveChange

T0_US = 1_800_000_000_000_000
POINT = SimulatedPoint(depth=2, failure_s=2, threshold_s=1.0, rate=50)
PLAN = real.plan_of(POINT, T0_US)
FIRST, END = T0_US // BUCKET_US, (T0_US + PLAN.seconds * 1_000_000) // BUCKET_US
LOST = PLAN.silent_from_us // BUCKET_US
BACK = PLAN.silent_until_us // BUCKET_US
USUAL_US = 20_000


def word(kind: str, bucket: int, end: int | None = None, rows: int = 0) -> LiveChange:
    return LiveChange(kind, bucket, bucket + 1 if end is None else end, [{}] * rows)


def closed(bucket: int, late_us: int = USUAL_US) -> int:
    return (bucket + 1) * BUCKET_US + late_us


def told() -> list[tuple[int, LiveChange]]:
    """A life in which the lost buckets are tentative after half a second, and corrected at once a second after."""
    heard = [(closed(b), word("STABLE", b, rows=3)) for b in range(FIRST, LOST)]
    heard += [(closed(b, 500_000), word("TENTATIVE", b, rows=2)) for b in range(LOST, BACK)]
    heard.append((closed(BACK), word("UNDO", LOST, BACK)))
    heard.append((PLAN.silent_until_us + 1_000_000, word("STABLE", LOST, BACK, rows=9)))
    heard += [(closed(b), word("BOUNDARY", b)) for b in range(BACK, END)]
    return heard


def test_delay_tentative_rows_and_time_to_correct_are_told() -> None:
    found = real.outcome(POINT, PLAN, told(), PLAN.silent_until_us)
    assert found.usual_ms == USUAL_US / 1000
    assert found.added_ms == pytest.approx(480.0)
    assert 0 < found.added_at_s <= POINT.failure_s + 0.1
    assert (found.tentative_buckets, found.tentative_rows) == (BACK - LOST, 2 * (BACK - LOST))
    assert found.corrected_s == pytest.approx(1.0)
    assert found.silent == 0
    assert found.within
    assert [at for at, _ in found.over_time] == sorted(at for at, _ in found.over_time)


def test_a_bucket_without_a_word_is_not_within_x() -> None:
    heard = [(at, change) for at, change in told() if change.bucket != BACK + 3]
    found = real.outcome(POINT, PLAN, heard, PLAN.silent_until_us)
    assert found.silent == 1
    assert not found.within


def test_what_stays_tentative_is_no_figure() -> None:
    heard = [(at, word("STABLE", LOST, BACK - 1) if change.end == BACK and change.kind == "STABLE" else change)
             for at, change in told()]  # fmt: skip
    with pytest.raises(BenchError, match="1 buckets stayed tentative"):
        real.outcome(POINT, PLAN, heard, PLAN.silent_until_us)


def test_without_a_usual_delay_nothing_can_be_said() -> None:
    heard = [(at, change) for at, change in told() if change.bucket >= LOST]
    with pytest.raises(BenchError, match="no bucket arrived between start-up and failure"):
        real.outcome(POINT, PLAN, heard, PLAN.silent_until_us)


def test_a_delay_over_x_is_not_within_it() -> None:
    slow = ("TENTATIVE", LOST)
    late = [(at + (600_000 if (change.kind, change.bucket) == slow else 0), change) for at, change in told()]
    assert not real.outcome(POINT, PLAN, sorted(late, key=lambda each: each[0]), PLAN.silent_until_us).within


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_app_has_the_points_nodes_policies_and_threshold(variant: tuple[object, object]) -> None:
    point = SimulatedPoint(depth=3, failure_s=5, threshold_s=9.0, variant=variant)  # type: ignore[arg-type]
    spec = real.app("real", point).describe()
    assert list(spec.nodes) == ["n1", "n2"]
    query = spec.queries[QUERY]
    assert (query.on_failure, query.on_stabilization) == tuple(policy.value for policy in point.variant)
    assert query.threshold_us == 9_000_000
    assert {spec.node(name).replicas for name in ("n1", "n2", QUERY)} == {2}
    assert len(spec.sources) == SOURCES


@pytest.mark.parametrize("module", [chain, policies])
def test_points_that_run_for_real_are_simulated_too(module: type) -> None:
    for size in ("short", "usual", "full"):
        for_real, simulated = module.real_points(size), module.points(size)  # type: ignore[attr-defined]
        assert len(for_real) == len(set(for_real))
        assert set(for_real) <= set(simulated)
    assert {p.variant for p in module.real_points("usual")} >= set(chain.PUBLISHED)  # type: ignore[attr-defined]
