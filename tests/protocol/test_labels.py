"""What tentative results say of themselves: over all the buckets that they depend on (B17)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.protocol.labels import Label, Labels, Share


def test_a_window_names_what_its_earlier_buckets_lacked_until_they_have_left_it() -> None:
    """The source is back in bucket 6; windows of four buckets are whole again from bucket 9 on."""
    labels = Labels(3, ("a", "b"))
    said = [labels.on_live_run(b, Share(("a",), ("a",), 0.5) if b < 6 else Share((), (), 1.0)) for b in range(5, 10)]
    assert said == [Label(("a",), 0.5, 5)] * 4 + [Label((), 1.0, 5)]


def test_a_result_without_windows_says_what_its_own_bucket_lacked() -> None:
    labels = Labels(0, ("a", "b"))
    assert labels.on_live_run(5, Share(("b",), ("b",), 0.5)) == Label(("b",), 0.5, 5)
    assert labels.on_live_run(6, Share((), (), 1.0)) == Label((), 1.0, 5)


def test_a_later_divergence_knows_nothing_of_an_earlier_one() -> None:
    labels = Labels(9, ("a", "b"))
    labels.on_live_run(5, Share(("a",), ("a",), 0.5))
    labels.corrected()
    assert labels.on_live_run(6, Share(("b",), ("b",), 0.75)) == Label(("b",), 0.75, 6)


def test_words_that_carry_an_earlier_absence_pass_it_on() -> None:
    labels = Labels(0, ("a",))
    assert labels.on_live_run(8, Share((), (), 1.0, diverged_from=3)) == Label((), 1.0, 3)
    assert labels.on_live_run(9, Share((), (), 1.0, diverged_from=7)) == Label((), 1.0, 3)


shares = st.builds(
    lambda missing, before, completeness: Share(tuple(missing), tuple(missing | before), completeness),
    st.sets(st.sampled_from("abc")),
    st.sets(st.sampled_from("abc")),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)


@given(st.integers(0, 5), st.lists(shares, max_size=20))
def test_labels_are_the_union_and_the_minimum_of_their_windows(lookback: int, found: list[Share]) -> None:
    labels = Labels(lookback, "abc")
    for b, share in enumerate(found):
        window = found[max(0, b - lookback) : b + 1]
        missing_sources = tuple(name for name in "abc" if any(name in one.missing_sources for one in window))
        assert labels.on_live_run(b, share) == Label(missing_sources, min(one.completeness for one in window), 0)
