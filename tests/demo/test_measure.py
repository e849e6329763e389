import pytest

from borealis_py.demo.measure import Arrival, NothingMeasured, measure, percentile

W = 100_000
FIRST = 17_000_000_000


def at(bucket: int, delay_us: int, kind: str = "STABLE") -> Arrival:
    """`bucket` counts from FIRST."""
    return Arrival(FIRST + bucket, (FIRST + bucket + 1) * W + delay_us, kind)


def judge(arrivals: list[Arrival], end: int, failure_at_bucket: int, startup_us: int = 0):
    return measure(arrivals, W, FIRST, FIRST + end, (FIRST + failure_at_bucket) * W, startup_us)


def test_added_is_raw_less_the_median_before_the_failure() -> None:
    delays = judge([at(0, 10_000), at(1, 12_000), at(2, 11_000), at(3, 2_900_000, "TENTATIVE")], 4, 3)
    assert delays.median_us == 11_000
    assert [d.added_us for d in delays.buckets] == [-1_000, 1_000, 0, 2_889_000]
    assert delays.buckets[-1].kind == "TENTATIVE"
    assert delays.max_added_us == 2_889_000
    assert delays.within(3_000_000)
    assert not delays.within(2_888_999)


def test_only_the_first_to_speak_for_a_bucket_counts_whatever_the_order() -> None:
    correction = at(1, 9_000_000, "STABLE")
    delays = judge([at(0, 5_000), correction, at(1, 20_000, "TENTATIVE")], 2, 1)
    assert [(d.kind, d.raw_us) for d in delays.buckets] == [("STABLE", 5_000), ("TENTATIVE", 20_000)]


def test_a_bucket_that_nothing_spoke_for_breaks_every_bound() -> None:
    delays = judge([at(0, 5_000), at(2, 5_000)], 4, 2)
    assert delays.silent == (FIRST + 1, FIRST + 3)
    assert not delays.within(10**12)


def test_start_up_is_left_out_of_median_and_maximum_but_listed() -> None:
    slow = [at(b, 1_000_000) for b in range(30)]
    delays = judge([*slow, *(at(b, 10_000) for b in range(30, 40))], 40, 40, startup_us=3_000_000)
    assert delays.median_us == 10_000
    assert delays.max_added_us == 0
    assert delays.buckets[0].added_us == 990_000


def test_what_ends_after_the_failure_began_is_not_failure_free() -> None:
    arrivals = [at(0, 10_000), at(1, 10_000), at(2, 70_000)]
    inside = measure(arrivals, W, FIRST, FIRST + 3, (FIRST + 3) * W - 1, 0)
    after = measure(arrivals, W, FIRST, FIRST + 3, (FIRST + 3) * W, 0)
    assert (inside.p99_ms, after.p99_ms) == (10.0, 70.0)


def test_buckets_out_of_the_run_are_ignored() -> None:
    delays = judge([at(-1, 50), at(0, 5_000), at(1, 10**9)], 1, 1)
    assert [d.bucket for d in delays.buckets] == [FIRST]


def test_nothing_to_compare_with_is_said() -> None:
    with pytest.raises(NothingMeasured, match="between start-up and failure"):
        judge([at(5, 1)], 6, 3)


def test_percentile_is_a_value_of_the_list() -> None:
    values = list(range(1, 101))
    assert [percentile(values, p) for p in (50, 99, 100)] == [50, 99, 100]
    assert percentile([7], 50) == 7
    with pytest.raises(ValueError, match="of 0 values"):
        percentile([], 50)
