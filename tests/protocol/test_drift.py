"""A source that is alive and always too late is named; who is silent, catches up or is in time is not (B23)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.protocol.drift import AGAIN_US, SILENT_US, WATCH_US, Drift
from tests.protocol.toy import MS, make_world, source_log

D = 750_000
STEP = 100_000


def told(behind: list[int], step: int = STEP) -> list[int]:
    """Steps at which it is told, of a source that closes a bucket at each."""
    drift = Drift(STEP)
    return [n for n, lag in enumerate(behind) if drift.closed(n * step, lag, D)]


def test_a_source_that_stays_behind_is_named_once_a_minute() -> None:
    first, again = WATCH_US // STEP, AGAIN_US // STEP
    assert told([D + 1] * (first + again + 1)) == [first, first + again]


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param([D] * 300, id="in time"),
        pytest.param([60_000_000 - n * 40_000 for n in range(1_400)], id="catches up"),
        pytest.param([5_000_000 - n * 11_000 for n in range(400)], id="catches up slowly"),
        pytest.param(([D + 1] * 99 + [0]) * 10, id="in time now and then"),
    ],
)
def test_others_are_not(behind: list[int]) -> None:
    assert told(behind) == []


def test_a_bucket_more_or_less_is_no_catching_up() -> None:
    assert told([10 * STEP, 9 * STEP] * 60) == [WATCH_US // STEP]


def test_silence_starts_the_watch_anew() -> None:
    assert told([D + 1] * 30, step=SILENT_US + 1) == []
    assert told([D + 1] * 30, step=SILENT_US) != []


def test_a_replica_names_the_source_whose_clock_is_slow() -> None:
    world = make_world()
    world.sources[1] = source_log(1, 1, 20.0, lag=1_500 * MS)
    world.run(19_000 * MS)
    drifts = [n.detail for n in world.replicas[0].notes if n.event == "DRIFT"]
    assert len(drifts) == 1
    assert drifts[0].startswith("source s1 is 1.")


def test_sources_of_one_clock_are_not_named_nor_one_that_was_lost_for_long() -> None:
    world = make_world()
    world.run(2_000 * MS)
    world.replicas[0].cut = {1}
    world.run(15_000 * MS)
    world.replicas[0].cut = set()
    world.run(19_000 * MS)
    assert not [n for n in world.replicas[0].notes if n.event == "DRIFT"]


@pytest.mark.parametrize(("late_ms", "named"), [(700, False), (5_000, True)])
def test_publishers_that_wait_differently_for_late_rows_are_named_at_once(late_ms: int, named: bool) -> None:
    world = make_world()
    late_us = late_ms * MS
    world.sources[1].records[0] = replace(world.sources[1].records[0], lateness_us=late_us)
    world.run(3_000 * MS)
    said = [n.detail for n in world.replicas[0].notes if n.event == "DRIFT"]
    assert len(said) == named
    assert all(f"s1 waits {late_ms / 1e3:g} s" in detail and "that of s0 0 s" in detail for detail in said)
