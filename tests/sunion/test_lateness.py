"""How late rows come: percentiles of a histogram, and what a source's reader feeds it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunion.bucket import Buckets
from sunion.input_buffers import SourceBuffer
from sunion.lateness import Lateness, _step, _upper
from sunion.model import SourceRecord
from sunion.source import SourceFold
from tests.sunion.lists import ListOps


@given(st.lists(st.integers(0, 86_400_000_000), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_percentile_covers_its_share_and_is_at_most_a_sixteenth_too_high(late: list[int], share: float) -> None:
    of = Lateness()
    for late_us in late:
        of.add(late_us)
    found = of.percentile(share)
    exact = sorted(late)[min(len(late) - 1, max(0, -int(-share * len(late) // 1) - 1))]
    assert exact <= found <= exact + exact // 16 + 1
    assert of.percentile(1) == of.max_us == max(late)
    assert of.rows == len(late)


@given(st.one_of(st.integers(0, 200), st.integers(0, 86_400_000_000)))
def test_the_upper_end_of_a_values_step_is_the_greatest_value_of_that_step(value: int) -> None:
    step = _step(value)
    upper = _upper(step)
    assert value <= upper
    assert (_step(upper), _step(upper + 1)) == (step, step + 1)


def test_nothing_is_not_late_and_early_is_not_either() -> None:
    of = Lateness()
    assert of.percentile(0.5) == 0
    of.add(-7)
    assert (of.rows, of.max_us, of.percentile(1)) == (1, 0, 0)


@given(st.lists(st.integers(-5, 40) | st.integers(-10, 86_400_000_000), max_size=200))
def test_rows_added_together_count_as_they_do_one_by_one(late: list[int]) -> None:
    together, each = Lateness(), Lateness()
    together.add(3)
    together.add_all(late)
    for late_us in [3, *late]:
        each.add(late_us)
    assert together == each


def feed(source: SourceBuffer, record: SourceRecord) -> None:
    source.feed(record, 0, 0, Buckets(1_000), ListOps(), 60_000_000)


def test_a_reader_sees_how_late_rows_came_those_too_late_included() -> None:
    source = SourceBuffer("s", ("s",), 0, fold=SourceFold(10_000, 1, "u", -1, lateness_us=2_000))
    feed(source, SourceRecord(0, 1, "u", False, (0, 1), (10_000, 12_500), [(10_000, 0), (12_500, 1)], late_us=(9_000,)))
    feed(source, SourceRecord(1, 7, "zombie", False, (2,), (1,), [(1, 2)]))
    of = source.lateness
    assert (of.rows, of.max_us, of.percentile(0.3)) == (3, 9_000, 0)
    assert 2_000 <= of.percentile(0.6) <= 2_125


def test_refused_rows_count_as_late_though_all_others_of_their_record_were_in_time() -> None:
    """Without a lateness those that are taken always are: `status` would never tell of any that was late."""
    source = SourceBuffer("s", ("s",), 0, fold=SourceFold(10_000, 1, "u"))
    stimes = (10_000, 10_500)
    feed(source, SourceRecord(0, 1, "u", False, (0, 1), stimes, [(s, 0) for s in stimes], late_us=(9_000, 40)))
    assert (source.lateness.rows, source.lateness.max_us) == (4, 9_000)


@pytest.mark.parametrize(("stime", "late_us", "most"), [(15_500, 0, 0), (15_000, 0, 0), (14_999, 1, 1_000 // 16)])
def test_rows_in_time_are_counted_and_of_large_batches_of_others_some_stand_for_all(
    stime: int, late_us: int, most: int
) -> None:
    source = SourceBuffer("s", ("s",), 0, fold=SourceFold(10_000, 1, "u", lateness_us=5_000))
    n = 1_000
    feed(source, SourceRecord(0, 1, "u", False, range(n), (stime,) * n, [(stime, i) for i in range(n)]))
    assert n <= source.lateness.rows <= n + most
    assert source.lateness.max_us == late_us


@pytest.mark.parametrize("latest", range(0, 1_000, 111))
def test_of_large_batches_the_latest_row_tells_the_lateness_that_all_would_have_needed(latest: int) -> None:
    source = SourceBuffer("s", ("s",), 0, fold=SourceFold(10_000, 1, "u", lateness_us=5_000))
    n = 1_000
    stimes = [14_000] * n
    stimes[latest] = 10_500
    feed(source, SourceRecord(0, 1, "u", False, range(n), tuple(stimes), [(s, i) for i, s in enumerate(stimes)]))
    assert source.lateness.max_us == 4_500
    assert source.lateness.percentile(1.0) == 4_500
    assert source.lateness.percentile(0.5) < 1_100
