"""Timings and delay budgets: what cannot hold is refused, with the least that would do."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.config.reference import documented
from borealis_py.protocol.settings import MAY_BE_ZERO, SettingsError, Timing, budget, check_threshold, grow_delta

TIMING = Timing()


@pytest.mark.parametrize("threshold_us", [-1, 0, 1, 374_999])
def test_a_threshold_below_the_least_names_the_least(threshold_us: int) -> None:
    with pytest.raises(SettingsError, match=r"at least 375 ms \(delta 125 \+ slack 250\)"):
        budget(TIMING, threshold_us)


def test_a_node_that_reads_sources_alone_is_what_a_threshold_is_checked_for() -> None:
    check_threshold(TIMING, TIMING.least_threshold_us(1))


@given(st.integers(0, 5), st.integers(0, 10**7))
def test_the_least_threshold_is_just_enough(hops: int, more: int) -> None:
    depth = hops + 1
    least = TIMING.least_threshold_us(depth)
    assert budget(TIMING, least + more, hops, depth) == TIMING.delta_us + more  # the first node, which waits least
    assert budget(TIMING, least + more, 0, depth) == grow_delta(TIMING, depth) + more
    with pytest.raises(SettingsError, match=f"{least / 1000:g} ms"):
        budget(TIMING, least - 1, hops, depth)


@pytest.mark.parametrize(
    ("depth", "parts"), [(1, "slack 250)"), (2, "slack 275 + 1 x 100 for hops)"), (4, "slack 475 + 3 x 100 for hops)")]
)
def test_what_the_least_threshold_is_made_of_is_told(depth: int, parts: str) -> None:
    with pytest.raises(SettingsError) as told:
        budget(TIMING, 0, depth=depth)
    assert str(told.value).endswith(f"(delta 125 + {parts}")


def test_a_node_waits_for_all_but_the_slack_unless_others_follow_it() -> None:
    assert budget(TIMING, 3_000_000) == 3_000_000 - TIMING.slack_us


def test_every_hop_to_a_sink_costs_one_hop() -> None:
    assert budget(TIMING, 3_000_000, 0) - budget(TIMING, 3_000_000, 2) == 2 * TIMING.hop_us


def test_delta_grows_along_the_chain() -> None:
    assert [grow_delta(TIMING, i) for i in (1, 2, 3)] == [125_000, 225_000, 325_000]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta_us": 99_999}, "at least 100000 us"),
        ({"redo_deadline_us": 9_000_000}, "below the stagger time"),
        ({"suspicion_us": 399_999}, "at least two heartbeats: 400000 us"),
        ({"row_max_bytes": 999}, "row_max 999 bytes is out of range: at least 1000"),
        ({"row_max_bytes": 7_500_001}, "at most 7500000"),
    ],
)
def test_timings_that_break_each_other_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Timing(**change).validate()


def setting_of(field: str) -> str:
    """Its name under `timing:`."""
    return "row_max" if field == "row_max_bytes" else field.removesuffix("_us")


@pytest.mark.parametrize("field", [f.name for f in fields(Timing)])
def test_a_negative_value_is_refused_and_named(field: str) -> None:
    with pytest.raises(SettingsError, match=rf"\b{setting_of(field)}\b.* -1") as told:
        Timing(**{field: -1}).validate()
    if field in MAY_BE_ZERO:
        assert "must not be negative;" in str(told.value)
    assert field == "row_max_bytes" or str(told.value).endswith(str(getattr(TIMING, field)) + " us" * ("_us" in field))


@pytest.mark.parametrize("field", [f.name for f in fields(Timing) if f.name not in MAY_BE_ZERO])
def test_zero_is_refused_where_it_has_no_meaning(field: str) -> None:
    said = "at least 1000 bytes" if field == "row_max_bytes" else "must be more than zero; remove it for the default"
    with pytest.raises(SettingsError, match=rf"\b{setting_of(field)}\b.* 0\b.*{said}"):
        Timing(**{field: 0}).validate()


@pytest.mark.parametrize("field", sorted(MAY_BE_ZERO))
def test_zero_is_allowed_where_its_text_says_what_it_means(field: str) -> None:
    Timing(**{field: 0}).validate()
    assert " 0: " in dict(documented(Timing))[field]


def test_no_other_setting_says_what_zero_means() -> None:
    assert {name for name, text in documented(Timing) if " 0: " in text} == MAY_BE_ZERO


@pytest.mark.parametrize("field", [f.name for f in fields(Timing)])
def test_every_setting_says_when_to_change_it(field: str) -> None:
    assert re.search(r"\b([Rr]aise|[Ll]ower)\b", dict(documented(Timing))[field])


@pytest.mark.parametrize(("suspicion", "beats"), [(1_000_000, 5), (1_000_001, 6), (450_000, 3)])
def test_suspicion_is_counted_in_own_heartbeats(suspicion: int, beats: int) -> None:
    assert Timing(suspicion_us=suspicion).suspicion_beats == beats


def test_the_defaults_hold_and_so_do_the_least_allowed() -> None:
    TIMING.validate()
    Timing(suspicion_us=400_000, publish_buckets=1, publish_rows=1, publish_bytes=1).validate()
    Timing(delta_us=TIMING.skew_us + TIMING.turn_us).validate()
    for row_max in (1_000, 7_500_000):
        Timing(row_max_bytes=row_max).validate()
    assert grow_delta(TIMING) == TIMING.delta_us
