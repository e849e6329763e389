"""How many rows a turn runs (R4.5, "Pace")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from unittest.mock import Mock

import pytest

from borealis_py.protocol.input_state import InputState, LogEnds
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import Append, Turn
from sunion.model import Input, TentativeBucket
from sunion.units import Bucket, MonotonicUs
from tests.protocol.chain_node import Node
from tests.protocol.toy import TIMING as TOY
from tests.sunion.lists import W as WIDTH
from tests.sunion.lists import batch, claim
from tests.support.managers import toy_config

MS = 1_000
W = 100 * MS
TIMING = Timing(slice_rows=20_000, slice_us=100 * MS, slice_least_us=500 * MS)


def turns(pace: Pace, rows: int, row_us: float, fixed_us: int = 0, count: int = 20) -> Iterator[tuple[int, int]]:
    """Buckets and microseconds of turns that have more buckets of `rows` rows than they can run."""
    elapsed = 0
    for _ in range(count):
        pace.turn(elapsed, waited=False)
        ran = next(n for n in range(1000) if not pace.takes(n, rows, 100, n))
        elapsed = round(ran * rows * row_us) + fixed_us
        yield ran, elapsed


@pytest.mark.parametrize(("row_us", "ran"), [(0.1, 100), (2.0, 100), (5.0, 100), (20.0, 25), (100.0, 5)])
def test_a_turn_lasts_a_tenth_of_a_second_however_slow_a_row_is(row_us: float, ran: int) -> None:
    found = list(turns(Pace(TIMING, W), 200, row_us))
    assert found[-1][0] == ran
    assert found[0][1] < TIMING.gap_us
    assert max(us for _, us in found[1:]) <= 100 * MS


def test_half_a_second_of_the_streams_runs_on_a_machine_where_each_turn_is_slow() -> None:
    assert [ran for ran, _ in turns(Pace(TIMING, W), 1_000, 2.0, fixed_us=300 * MS)][-3:] == [5, 5, 5]
    assert [ran for ran, _ in turns(Pace(TIMING, W // 4), 1_000, 2.0, fixed_us=300 * MS)][-3:] == [20, 20, 20]
    assert [ran for ran, _ in turns(Pace(TIMING, 10 * W), 1_000, 2.0, fixed_us=300 * MS)][-3:] == [1, 1, 1]


def test_half_a_second_counts_buckets_without_rows_too() -> None:
    """Simulator, seed 95004370: five busy buckets were two seconds of a stream, their turn took 600 ms, longer than a
    gap, and nothing ran live until the backlog was done."""
    node = InputState(toy_config(Input.source("s"), timing=TOY), 0, None)
    busy = [batch(1 + b, b, [(b * WIDTH, b)], boundary=(b + 1) * WIDTH) for b in range(0, 40, 4)]
    node.read(Turn(0, inputs={0: [claim(0), *busy]}), 0, 1_000)
    pace = Pace(replace(TIMING, slice_us=1 * MS), W)
    list(turns(pace, 1, 10_000.0))
    pace.turn(0, waited=True)
    assert node.slice(Bucket(0), Bucket(37), pace, 100) == (8, 2)


def test_a_bucket_of_any_size_runs_but_no_second_one_beside_it() -> None:
    assert [ran for ran, _ in turns(Pace(TIMING, W), 15_000, 0.1)] == [1] * 20
    assert [ran for ran, _ in turns(Pace(TIMING, W), 50_000, 0.1)] == [1] * 20


def test_a_turn_that_came_late_for_another_reason_says_nothing_and_one_slow_turn_is_forgotten() -> None:
    pace = Pace(TIMING, W)
    list(turns(pace, 200, 1.0))
    pace.turn(10_000 * MS, waited=True)
    assert pace.rows == 20_000
    assert pace.takes(0, 200, 100, 0)
    pace.turn(10_000 * MS, waited=False)
    assert pace.rows == 20_000, "all that there was has run"
    list(turns(pace, 200, 1.0, fixed_us=1_000 * MS, count=3))
    assert pace.rows < 2_000
    list(turns(pace, 200, 1.0, count=9))
    assert pace.rows > 15_000


def test_buckets_that_are_overdue_run_half_a_second_of_them_a_turn_however_narrow_they_are() -> None:
    """Simulator, seed 50017789: five of 50 ms a turn, and a replica that had been away was 20 ms too late with one."""
    node = Node(Input.source("b"), Input.source("c"), timing=replace(TOY, slice_least_us=20 * WIDTH))
    now = 100 * WIDTH
    node.manager.handle(Turn(0, inputs={1: [claim(0), batch(1, 0, [(1, 0)], boundary=50 * WIDTH)]}))
    node.manager.handle(Turn(now, read_to=0))
    node.manager.handle(Turn(now + 1, read_to=now, acked=10**9))
    assert node.manager.f_l == 20
    node.manager.handle(Turn(now + 2, acked=10**9))
    assert node.manager.f_l == 40


@pytest.mark.parametrize(
    ("row_us", "fixed_us", "expected"), [(1.0, 0, 1.0), (2.0, 1_000, 2.05), (50.0, 1_000, 51.0), (0.1, 0, 0.1)]
)
def test_what_rows_cost_is_known_once_a_turn_grows_no_more(row_us: float, fixed_us: int, expected: float) -> None:
    pace = Pace(TIMING, W)
    told = []
    for _ in turns(pace, 200, row_us, fixed_us):
        told.append(pace.expected_us(1))
    assert told[0] == 1.0
    assert told[-1] == pytest.approx(expected, rel=0.02)
    pace.forget()
    assert pace.expected_us(7) == 7.0


def test_a_turn_of_few_rows_says_nothing_of_what_rows_cost() -> None:
    pace = Pace(TIMING, W)
    assert pace.takes(0, 100, 100, 0)
    assert not pace.takes(1, 20_000, 100, 1)
    pace.turn(5 * MS, waited=False)
    assert (pace.rows, pace.expected_us(1)) == (200, 1.0)


def test_a_turn_runs_no_more_buckets_than_it_may() -> None:
    assert [ran for ran, _ in turns(Pace(TIMING, W), 1, 1.0)][-1] == 100


def test_turns_of_small_buckets_say_only_that_they_are_not_too_long() -> None:
    pace = Pace(TIMING, W)
    list(turns(pace, 200, 1.0))
    for rows in (0, 1, 50):
        list(turns(pace, rows, 1.0, fixed_us=10 * MS))
        assert (pace.rows, pace.expected_us(1)) == (20_000, 1.0)
    list(turns(pace, 50, 1.0, fixed_us=300 * MS))
    assert pace.rows == 20_000, "fewer would not make it shorter"
    list(turns(pace, 50, 1.0, fixed_us=500 * MS))
    assert pace.rows < 2_000, "it may be the rows"


def test_turns_grow_to_what_fits_by_doubling_at_most() -> None:
    pace, found = Pace(TIMING, W), []
    for elapsed_us in (1, 1, 1, 1, 1, 1, 1, 1, 200 * MS, 1):
        found.append(pace.rows)
        assert pace.takes(0, pace.rows, 100, 0)
        assert not pace.takes(1, 20_000, 100, 1)
        pace.turn(elapsed_us, waited=False)
    assert found[:-1] == [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 20_000]
    assert 10_000 <= found[-1] < 16_000
    assert pace.rows == 20_000


def test_a_machine_on_which_each_turn_is_slow_runs_more_of_the_streams_in_each() -> None:
    """As on one busy core: 150 ms a turn, in which 40 s of the demo's streams took 22 s with five buckets in each."""
    rng = Random(1)
    pace, elapsed, ran = Pace(TIMING, W), 0, list[int]()
    for _ in range(30):
        pace.turn(elapsed, waited=False)
        ran.append(next(n for n in range(1000) if not pace.takes(n, 9, 100, n)))
        elapsed = round(rng.uniform(60, 240) * MS + ran[-1] * 300)
    assert min(ran[-10:]) >= 50


def test_rows_that_begin_to_cost_more_shorten_a_turn_at_once() -> None:
    pace = Pace(TIMING, W)
    list(turns(pace, 200, 1.0, fixed_us=60 * MS))
    (_, first), (_, second), *_ = turns(pace, 200, 40.0, fixed_us=60 * MS, count=2)
    assert first > TIMING.gap_us
    assert second < TIMING.gap_us


@pytest.mark.parametrize(("elapsed_us", "worked"), [(400 * MS, True), (401 * MS, False)])
def test_a_turn_that_took_up_to_twice_what_its_rows_take_has_worked(elapsed_us: int, worked: bool) -> None:
    pace = Pace(TIMING, W)
    list(turns(pace, 200, 50.0))
    pace.turn(0, waited=True)
    assert pace.takes(0, 4_000, 100, 0)
    assert pace.worked(elapsed_us) is worked


def test_a_long_turn_that_its_rows_explain_is_no_absence() -> None:
    """Simulator, seed 95004370: after each turn of a backlog all ends were asked for again before a bucket ran live."""
    for worked in (True, False):
        ends = LogEnds()
        ends.turn(MonotonicUs(0), 0, TIMING.gap_us, worked=False)
        ends.answered(MonotonicUs(10))
        assert not ends.unread(MonotonicUs(5))
        assert ends.turn(MonotonicUs(500 * MS), 500 * MS, TIMING.gap_us, worked), "the gap counts for all else"
        assert ends.unread(MonotonicUs(5)) is not worked


def test_a_machine_on_which_each_turn_is_longer_than_a_gap_runs_buckets_live() -> None:
    """`make demo` on one busy core: no bucket ran live for 18 s, with X = 3 s. Nothing is read ahead of the ends."""
    node = Node(Input.source("b"), Input.source("c"))
    now, slow = 0, TOY.gap_us + 100 * MS
    node.manager.handle(Turn(0, inputs={1: [claim(0), batch(1, 0, [(1, 0)], boundary=50 * WIDTH)]}))
    for _ in range(20):
        now += slow
        node.manager.handle(Turn(now, read_to=now - slow, acked=10**9))
    assert node.manager.f_l == 51, "all that exist"


def test_who_was_away_reads_the_ends_however_slow_it_was_before() -> None:
    ends, slow = LogEnds(), 500 * MS
    for n in range(3):
        ends.turn(MonotonicUs(n * slow), slow if n else 0, TIMING.gap_us, worked=False)
        ends.answered(MonotonicUs(n * slow))
    assert not ends.unread(MonotonicUs(5))
    ends.turn(MonotonicUs(3 * slow + 2 * slow), 3 * slow, TIMING.gap_us, worked=False)
    assert ends.unread(MonotonicUs(5))


def test_buckets_that_are_overdue_are_one_step_of_the_fragment() -> None:
    """`make demo` on one busy core: a step for each cost four replicas more than the core, and X."""
    node = Node(Input.source("b"), Input.source("c"), timing=replace(TOY, slice_least_us=20 * WIDTH))
    steps, step = list[tuple[int, int]](), node.manager._fragment.step
    fragment = Mock(step=lambda s, first, end, rows: steps.append((first, end)) or step(s, first, end, rows))
    node.manager._fragment = fragment
    now = 100 * WIDTH
    rows = [(b * WIDTH, b) for b in range(10)]
    node.manager.handle(Turn(0, inputs={1: [claim(0), batch(1, 0, rows, boundary=10 * WIDTH)]}))
    node.manager.handle(Turn(now, read_to=0))
    effects = node.manager.handle(Turn(now + 1, read_to=now, acked=10**9))
    assert steps == [(0, 11)]
    said = [e.record for e in effects if isinstance(e, Append)]
    assert [r.bucket for r in said if isinstance(r, TentativeBucket)] == list(range(11))
