"""A source that is alive and always too late is named; who is silent, catches up or is in time is not (B23)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.protocol.input_state import AGAIN_US, SILENT_US, WATCH_US, Drift, InputState
from borealis_py.protocol.turn import Turn
from sunion.model import Input, SourceRecord
from tests.protocol.toy import MS, TIMING, make_world, source_log
from tests.sunion.lists import W, batch, claim
from tests.support.managers import toy_config

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


WAIT_US = 750 * MS


def beside_a_fast_one(*records: SourceRecord) -> list[str]:
    """What is told while source b sends these records, one at each bucket that source a opens, from the 11th on."""
    state = InputState(toy_config(Input.source("a"), Input.source("b"), timing=TIMING), 0, None)
    told = []
    for n, record in enumerate(records):
        fast = batch(1 + n, 0, boundary=(n + 11) * W)
        state.read(Turn(n * W, inputs={0: [claim(0), fast], 1: [claim(0), record]}), 0, 1_000)
        told += [note.detail for note in state.drift_notes(n * W, WAIT_US)]
    return told


STEPS = WATCH_US // W + 1


def test_it_is_told_by_how_much_the_slow_one_is_behind_and_what_is_allowed() -> None:
    """From what it has closed to the end of the newest bucket."""
    slow = [batch(1 + n, 0, boundary=(n + 1) * W) for n in range(STEPS)]
    assert beside_a_fast_one(*slow[:-1]) == []
    assert beside_a_fast_one(*slow) == ["source b is 1.1 s behind, more than D = 0.75 s"]


def test_a_source_that_sends_rows_and_closes_no_bucket_counts_as_silent() -> None:
    first = batch(1, 0, boundary=W)
    assert beside_a_fast_one(first, *(batch(2 + n, n, [(W + n, n)]) for n in range(2 * STEPS))) == []


def notes(state: InputState, wait: int = WAIT_US) -> list[str]:
    return [note.detail for note in state.drift_notes(0, wait)]


def read(state: InputState, index: int, *records: SourceRecord) -> None:
    state.read(Turn(0, inputs={index: records}), 0, 1_000)


def test_latenesses_that_differ_by_more_than_d_are_named_once_each_time_they_change() -> None:
    state = InputState(toy_config(Input.source("a"), Input.source("b"), timing=TIMING), 0, None)
    read(state, 0, replace(claim(0), lateness_us=1_000 * MS))
    assert notes(state) == [], "nobody owns b yet"
    read(state, 1, replace(claim(0), lateness_us=250 * MS))
    assert notes(state) == [], "they differ by just D"
    read(state, 1, replace(claim(1, epoch=2), lateness_us=200 * MS))
    state.read(Turn(0), 0, 1_000)
    assert notes(state) == [
        "the publisher of a waits 1 s for late rows, that of b 0.2 s: these differ by more than D = 0.75 s, "
        "so buckets run without a"
    ]
    assert notes(state) == []
    read(state, 0, batch(1, 0, boundary=W))
    assert notes(state) == [], "nothing has changed"
    assert len(notes(state, 700 * MS)) == 1, "D has"
    read(state, 1, replace(batch(2, 0, boundary=2**62), epoch=2))
    assert notes(state, 600 * MS) == [], "b has ended"


@pytest.mark.parametrize(("late_ms", "named"), [(700, False), (5_000, True)])
def test_publishers_that_wait_differently_for_late_rows_are_named_at_once(late_ms: int, named: bool) -> None:
    world = make_world()
    late_us = late_ms * MS
    world.sources[1].records[0] = replace(world.sources[1].records[0], lateness_us=late_us)
    world.run(3_000 * MS)
    said = [n.detail for n in world.replicas[0].notes if n.event == "DRIFT"]
    assert len(said) == named
    assert all(f"s1 waits {late_ms / 1e3:g} s" in detail and "that of s0 0 s" in detail for detail in said)
