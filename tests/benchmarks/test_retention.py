"""Whether sizes stand still is judged by their means, once they are to stand still."""

from __future__ import annotations

import pytest

from benchmarks.experiments.retention import INTERNAL, MINUTES, SEGMENT_BYTES, TopicSizes, hastened, outcome
from benchmarks.measure.volume import CLASSES
from borealis_py.log import topics

SECONDS = 600
AT_S = [float(s) for s in range(0, SECONDS, 5)]


def growth(size: object) -> TopicSizes:
    """Of each internal class, `size(seconds)` bytes; the others grow."""
    assert callable(size)
    sizes = {name: [size(s) if name in INTERNAL else 10_000 + 1_000 * int(s) for s in AT_S] for name in CLASSES}
    return TopicSizes(4_000, SECONDS, AT_S, sizes, 0)


def test_what_fills_and_is_freed_again_stands_still() -> None:
    found = outcome(growth(lambda s: 4_000_000 + 50_000 * (int(s) % 20)), "30s", 1 << 20, "process")
    assert found.worse == ""
    assert found.rows[-1][-1] == "<= 15% met"
    assert found.ratios["internal topics: least mean to the largest"] > 0.99


def test_what_grows_until_it_is_old_enough_counts_from_then_on() -> None:
    assert outcome(growth(lambda s: 1_000_000 + min(int(s), 200) * 100_000), "30s", 1 << 20, "process").worse == ""


def test_what_grows_for_ever_is_named() -> None:
    found = outcome(growth(lambda s: 1_000_000 + int(s) * 10_000), "30s", 1 << 20, "process")
    assert found.worse == "Internal topics vary by 40% once they are to stand still."
    assert found.rows[-1][-1] == "<= 15% MISSED"


def test_classes_that_do_not_stand_still_by_themselves_are_named() -> None:
    """Each fills while the other is freed: what little there is of a class goes up and down with its segments."""
    there = growth(lambda s: 0)
    waves = {n: [4_000_000 + (-1) ** n * 3_900_000 * (s % 300 < 150) for s in AT_S] for n in range(len(INTERNAL))}
    there.sizes.update({name: [int(size) for size in waves[n]] for n, name in enumerate(INTERNAL)})
    worse = outcome(there, "30s", 1 << 20, "process").worse
    assert "Internal topics vary" not in worse
    assert all(f"{name} by " in worse for name in INTERNAL)


def test_a_run_without_a_whole_stretch_says_nothing() -> None:
    with pytest.raises(ValueError, match="60 s are too short"):
        outcome(TopicSizes(4_000, 60, [0.0], {name: [1] for name in CLASSES}, 0), "30s", 1 << 20, "process")


def test_what_would_take_an_hour_is_hastened_and_what_is_kept_by_event_time_is_not() -> None:
    small = {"segment.bytes": SEGMENT_BYTES}
    assert hastened(dict(topics.EVENT_TIME)) == small
    assert hastened(dict(topics.SHORT)) == {**small, "segment.ms": 15_000, "retention.ms": 60_000}
    assert hastened(dict(topics.COMPACTED)).keys() > {"min.compaction.lag.ms", "segment.ms"}


@pytest.mark.parametrize("minutes", MINUTES.values())
def test_every_size_lasts_for_stretches_that_can_be_compared(minutes: int) -> None:
    at_s = [float(s) for s in range(0, 60 * minutes, 5)]
    sizes = {name: [1_000] * len(at_s) for name in CLASSES}
    there = TopicSizes(4_000, 60 * minutes, at_s, sizes, 0)
    assert len(there.means(there.together(INTERNAL))) >= 2
