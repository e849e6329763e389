"""`make bench NAME=trimming`: what is compared with what. The runs are those of `make bench NAME=throughput`."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.experiments import trimming
from benchmarks.experiments.throughput import CatchUp, Caught, KeptUp, Load
from benchmarks.experiments.trimming import Compared
from borealis_py.bench import events
from borealis_py.bench.events import KEPT


def compared(kept: str, seconds: float, cpu_us: float, deleted: int = 0, run: int = 1) -> Compared:
    point = CatchUp(host="process", replicas=1, per_record=33, kept=kept, run=run)
    load = Load(host="process", replicas=1, rate=900, seconds=4, kept=kept, run=run)
    caught = Caught(point=point, events=1_000, own_s=seconds, published_s=seconds, cpu_s=cpu_us * 1e-3)
    fed = KeptUp(load=load, lag_s=0.2, fed_lag_s=0.1, tentative=0, cpu_percent=9.0, cpu_us=2 * cpu_us)
    return Compared(caught, fed, deleted)


FOUND = [
    *(compared("all", seconds, 10, run=n) for n, seconds in enumerate((1.0, 9.0, 2.0))),
    compared("default", 2.5, 10),
    compared("needed", 4.0, 20, 700),
]


def test_ratios_are_of_medians_to_all_kept_and_more_is_better() -> None:
    found = trimming.outcome(FOUND, 900, "process")
    assert found.ratios == {
        "default, catching up: events/s": 0.8,
        "default, catching up: CPU us an event": 1.0,
        "default, live: CPU us an event": 1.0,
        "needed, catching up: events/s": 0.5,
        "needed, catching up: CPU us an event": 0.5,
        "needed, live: CPU us an event": 0.5,
    }
    assert "needed, live: CPU us an event 0.50" in found.worse


def test_the_table_has_medians_with_least_and_most() -> None:
    found = trimming.outcome(FOUND, 900, "process")
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert found.rows[0][:2] == ["all", "500 (111 to 1,000)"]
    assert [row[-1] for row in found.rows] == ["0", "0", "700"]
    assert len(msgspec.json.decode(msgspec.json.encode(found.data))["runs"]) == 5


def test_each_is_first_in_turn() -> None:
    order = list(trimming.order(3))
    assert [kept for kept, _ in order[::3]] == list(KEPT)
    assert {run for _, run in order} == {1, 2, 3}
    assert sorted(order) == sorted((kept, run) for kept in KEPT for run in (1, 2, 3))


@pytest.mark.parametrize(
    ("kept", "stream", "source"), [("all", None, None), ("default", 3_600_000_000, None), ("needed", 0, 0)]
)
def test_what_is_compared_is_what_is_kept(kept: str, stream: int | None, source: int | None) -> None:
    spec = events.app("x", 2, 1, kept=kept).describe()
    assert (spec.keeps(events.QUERY), spec.keeps("s1")) == (stream, source)
    usual = events.app("x", 2, 1).describe()
    assert (usual.keeps(events.QUERY), usual.keeps("s1")) == (3_600_000_000, None)  # what an app has by default
