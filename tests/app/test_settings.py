"""What is in force for a query, and what may not be asked of it. No broker."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from borealis_py.app.settings import MOST_US, SettingChange, _wanted, checked, in_force, kept_too_short_now
from borealis_py.app.state import AppState, NoSuchApp
from borealis_py.log.messages import Description, Policy
from borealis_py.protocol.settings import DelayPolicy, Delays, SettingsError, Timing
from borealis_py.query import App
from borealis_py.query.errors import QueryError

PROCESS, DELAY, SUSPEND = DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND


def app() -> AppState:
    """`cleaned` is read by `near` and, with another node between, by `far`; `alone` reads a source."""
    built = App("a")
    source = built.source("s", schema={"v": "double"})
    cleaned = source.filter("v > 0").node("cleaned")
    built.query("near", cleaned.filter("v > 1"), delay_threshold="1s")
    built.query("far", cleaned.filter("v > 2").node("middle").filter("v > 3"), delay_threshold="3s", replicas=1)
    built.query("alone", source.filter("v < 0"), delay_threshold="500ms", on_failure="delay")
    spec = built.describe()
    return AppState("a", spec, Description(spec.to_json(), spec.hash, 0, "", "a1"))


def test_the_file_counts_until_something_is_set() -> None:
    state = app()
    assert in_force(state, "alone") == Delays(500_000, DELAY, PROCESS)
    state = replace(state, thresholds={"alone": 700_000}, policies={"alone": Policy("process", "suspend")})
    assert in_force(state, "alone") == Delays(700_000, PROCESS, SUSPEND)


def test_what_replicas_ignore_is_not_in_force() -> None:
    state = replace(app(), thresholds={"alone": 1}, policies={"alone": Policy("never", "process")})
    assert in_force(state, "alone") == Delays(500_000, DELAY, PROCESS)


@pytest.mark.parametrize(
    ("query", "error", "said"),
    [
        ("fra", QueryError, "did you mean 'far'"),
        ("cleaned", NoSuchApp, "is a node of app 'a', not a query: it obeys the queries it serves: near, far"),
        ("s", QueryError, "has no query 's'"),
        ("old", NoSuchApp, "has no query 'old' any more"),
    ],
)
def test_what_is_no_query_is_refused(query: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        in_force(replace(app(), thresholds={"old": 1_000_000}), query)


@pytest.mark.parametrize(
    ("query", "least_ms"),
    [("alone", 125 + 250), ("near", 125 + 275 + 100), ("far", 125 + 375 + 200)],
)
def test_the_least_that_would_do_depends_on_the_chain(query: str, least_ms: int) -> None:
    checked(app(), query, least_ms * 1_000)
    with pytest.raises(SettingsError, match=f"query '{query}': .* at least {least_ms} ms"):
        checked(app(), query, least_ms * 1_000 - 1)


def test_what_can_hold_depends_on_the_timing_of_the_app() -> None:
    hurried = Timing(delta_us=110_000, slack_us=60_000, skew_us=50_000)
    state = replace(app(), thresholds={"alone": 290_000})
    assert in_force(state, "alone").threshold_us == 500_000
    with pytest.raises(SettingsError, match="at least 375 ms"):
        checked(state, "alone", 290_000)
    state = replace(state, description=msgspec.structs.replace(state.description, timing=hurried))
    checked(state, "alone", 290_000)
    assert in_force(state, "alone").threshold_us == 290_000


def test_a_threshold_above_what_is_kept_of_the_query_is_refused_and_one_that_is_lowered_is_not() -> None:
    """Live readers would wait for results that replicas have deleted."""
    state, hour = app(), 3_600_000_000  # all is kept for an hour
    checked(state, "alone", hour)
    with pytest.raises(
        SettingsError,
        match=r"alone: retain='1h' is shorter than its delay threshold, 2h: .*first: `borealis retain alone 2h`",
    ):
        checked(state, "alone", 2 * hour)
    for kept in (None, 0, 2 * hour):
        checked(replace(state, retained={"alone": kept}), "alone", 2 * hour)
    below = replace(state, thresholds={"alone": 2 * hour})
    assert kept_too_short_now(below) == {
        "alone": "alone: retain='1h' is shorter than its delay threshold, 2h: live readers wait that long"
    }
    assert kept_too_short_now(state) == {}
    checked(below, "alone", 2 * hour - 1)


def test_more_than_a_year_is_a_slip() -> None:
    checked(replace(app(), retained={"alone": None}), "alone", MOST_US)
    with pytest.raises(SettingsError, match="more than 366d"):
        checked(app(), "alone", MOST_US + 1)


def test_what_is_not_asked_stays() -> None:
    before = Delays(1_000_000, DELAY, SUSPEND)
    assert SettingChange().applied(before) == before
    assert SettingChange(threshold_us=2).applied(before) == Delays(2, DELAY, SUSPEND)
    assert SettingChange(failure=PROCESS).applied(before) == Delays(1_000_000, PROCESS, SUSPEND)
    assert SettingChange(stabilization=PROCESS).applied(before) == Delays(1_000_000, DELAY, PROCESS)


def test_every_node_that_serves_the_query_is_asked_and_shows_the_strictest_of_its_queries() -> None:
    wanted = _wanted(app(), "far", Delays(800_000, SUSPEND, SUSPEND))
    assert set(wanted) == {("cleaned", 0), ("cleaned", 1), ("middle", 0), ("far", 0)}
    assert wanted["far", 0] == wanted["middle", 0] == Delays(800_000, SUSPEND, SUSPEND)
    assert wanted["cleaned", 0] == Delays(800_000, PROCESS, PROCESS)  # `near` has 1 s, and processes
