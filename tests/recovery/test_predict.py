"""What each way of recovery is predicted to cost, and what it guarantees."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.recovery.formula import load_of, recovery_ms
from benchmarks.recovery.operators import QueryNetwork
from benchmarks.recovery.runs import WAYS, PaperCase, measure
from benchmarks.recovery.setting import PaperReading, PaperSetting
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.query.recovery import Guarantee, RecoveryWay
from borealis_py.recovery.predict import NodeLoad, changed_bytes, predict
from borealis_py.recovery.ways import guarantee

ACTIVE, STANDBY, PASSIVE, UPSTREAM, AMNESIA = RecoveryWay
CONVERGENT = OperatorClass.CONVERGENT
LOAD = NodeLoad(
    rows_per_s=1_000,
    row_us=20,
    window_s=10,
    state_bytes=100_000,
    keys=100,
    result_bytes_per_s=5_000,
    sync_s=0.5,
    position_bytes=50,
    detect_s=0.4,
    start_s=0.03,
    delay_s=0.01,
    switch_s=0.05,
    bytes_per_core_s=1_000_000,
    computing_cores=0.005,
    waiting_cores=0.001,
)
LOADS = st.builds(
    NodeLoad,
    rows_per_s=st.floats(0, 30_000),
    row_us=st.floats(0, 30),
    window_s=st.floats(0.1, 600),
    state_bytes=st.floats(0, 1e8),
    keys=st.integers(0, 10_000),
    result_bytes_per_s=st.floats(0, 1e7),
    sync_s=st.floats(0.1, 60),
    position_bytes=st.floats(0, 1_000),
    detect_s=st.floats(0.1, 5),
    start_s=st.floats(0, 1),
    delay_s=st.floats(0, 1),
    switch_s=st.floats(0, 0.1),
    bytes_per_core_s=st.floats(1e6, 1e9),
)


@pytest.mark.parametrize(
    ("way", "still_s", "replayed", "bytes_per_s", "cores"),
    [
        (ACTIVE, 0.05, 0, 5_000, 0.025),
        (STANDBY, 0.4, 0, 100, 0.025),
        (PASSIVE, 0.44 + 250 * 20e-6, 250, 100 + 10_000, 0.011),
        (UPSTREAM, 0.44 + 10_520 * 20e-6, 10_520, 100, 0.001),
        (AMNESIA, 0.44, 0, 0, 0.001),
    ],
)
def test_by_hand(way: RecoveryWay, still_s: float, replayed: float, bytes_per_s: float, cores: float) -> None:
    found = predict(way, LOAD, CONVERGENT)
    assert found.still_s == pytest.approx(still_s)
    assert found.replayed_rows == pytest.approx(replayed)
    assert found.bytes_per_s == pytest.approx(bytes_per_s)
    assert found.cores == pytest.approx(cores)
    assert found.lost_rows == pytest.approx(440 if way is AMNESIA else 0)


@given(LOADS)
def test_who_has_more_waits_less(load: NodeLoad) -> None:
    still = [predict(way, load, CONVERGENT).still_s for way in (ACTIVE, STANDBY, AMNESIA, PASSIVE, UPSTREAM)]
    assert still == sorted(still)


@given(LOADS, st.floats(1, 10), st.sampled_from([way for way in RecoveryWay if way is not UPSTREAM]))
def test_a_longer_window_makes_upstream_backup_alone_slower(load: NodeLoad, times: float, way: RecoveryWay) -> None:
    longer = replace(load, window_s=load.window_s * times)
    assert predict(way, longer, CONVERGENT).still_s == predict(way, load, CONVERGENT).still_s
    more_s = predict(UPSTREAM, longer, CONVERGENT).still_s - predict(UPSTREAM, load, CONVERGENT).still_s
    assert more_s == pytest.approx((longer.window_s - load.window_s) * load.cores)


@pytest.mark.parametrize(("way", "more_s"), [(UPSTREAM, 0.01), (PASSIVE, 0.01), (STANDBY, 0.0), (ACTIVE, 0.0)])
def test_reading_again_takes_time_however_few_rows_there_are(way: RecoveryWay, more_s: float) -> None:
    again_s = LOAD.sync_s / 2 if way is PASSIVE else LOAD.window_s + LOAD.sync_s + 2 * LOAD.delay_s
    slow, quick = (predict(way, replace(LOAD, again_s_per_s=s), CONVERGENT).still_s for s in (0.01, 0.0))
    assert slow - quick == pytest.approx(more_s * again_s)


@given(LOADS)
def test_what_was_missed_is_caught_up_with_the_time_that_is_left(load: NodeLoad) -> None:
    found = predict(UPSTREAM, load, CONVERGENT)
    assume(1e-3 < load.cores < 0.99)
    computed = (found.behind_s - found.still_s) * 1_000_000 / load.row_us
    assert computed == pytest.approx(load.rows_per_s * found.behind_s, rel=1e-6), "all that came from the crash on"


def test_who_cannot_keep_up_is_never_there_again() -> None:
    busy = replace(LOAD, rows_per_s=50_000)
    behind = {way: predict(way, busy, CONVERGENT).behind_s for way in RecoveryWay}
    assert [way for way in RecoveryWay if behind[way] == inf] == [PASSIVE, UPSTREAM]


def test_readers_see_a_crash_only_beyond_what_they_wait() -> None:
    found = predict(UPSTREAM, replace(LOAD, window_s=100), CONVERGENT)
    assert found.tentative_s(wait_s=3.0) == 0
    assert found.tentative_s(wait_s=1.0) == pytest.approx(found.still_s - 1.0)


# What changes in a state ----------------------------------------------------------------------------------------------


@given(LOADS)
def test_no_more_than_the_state_changes(load: NodeLoad) -> None:
    assert 0 <= changed_bytes(load) <= load.state_bytes
    assert 0 <= changed_bytes(replace(load, window_s=0)) <= load.state_bytes


def test_of_windows_the_interval_does_not_matter_until_it_is_longer_than_they_are() -> None:
    rates = [predict(PASSIVE, replace(LOAD, sync_s=s, position_bytes=0), CONVERGENT).bytes_per_s for s in (0.1, 1, 10)]
    assert rates == pytest.approx([10_000] * 3)
    assert predict(PASSIVE, replace(LOAD, sync_s=20, position_bytes=0), CONVERGENT).bytes_per_s == pytest.approx(5_000)


def test_of_keys_those_count_that_rows_have_touched() -> None:
    table = replace(LOAD, window_s=0, rows_per_s=100, sync_s=1.0)
    assert changed_bytes(table) == pytest.approx(100_000 * (1 - 0.99**100))
    assert changed_bytes(replace(table, keys=1)) == 100_000
    assert changed_bytes(replace(table, keys=0)) == 0
    assert changed_bytes(replace(table, keys=1e9)) == pytest.approx(100_000 * 100 / 1e9, rel=1e-3)


# What is guaranteed ---------------------------------------------------------------------------------------------------


def test_guarantees_are_those_of_the_paper() -> None:
    """Table 2, and section 6: precise where a run from what a standby has comes to the same results."""
    weaker = {
        (way, operators): guarantee(way, operators)
        for way in RecoveryWay
        for operators in OperatorClass
        if guarantee(way, operators) is not Guarantee.PRECISE
    }
    assert weaker == {
        **{(way, OperatorClass.ARBITRARY): Guarantee.ROLLBACK for way in (ACTIVE, STANDBY, PASSIVE, UPSTREAM)},
        (UPSTREAM, OperatorClass.DETERMINISTIC): Guarantee.ROLLBACK,
        **{(AMNESIA, operators): Guarantee.GAP for operators in OperatorClass},
    }
    assert predict(UPSTREAM, LOAD, OperatorClass.DETERMINISTIC).guarantee is Guarantee.ROLLBACK


# Beside the paper -----------------------------------------------------------------------------------------------------


def test_the_papers_parameters_give_the_papers_analysis() -> None:
    """K + Q p of table 3 with table 5: 45 ms, and 25 or 160 tuples of 100 us."""
    found = {way: recovery_ms(PaperCase(way=way)) for way in WAYS}
    assert found == pytest.approx(
        {"passive standby": 47.5, "active standby": 0, "upstream backup": 61.0, "amnesia": 0}, abs=1e-6
    )


@pytest.mark.parametrize("window", [100, 300, 500])
@pytest.mark.parametrize("interval_us", [25_000, 100_000])
@pytest.mark.parametrize("way", ["passive standby", "upstream backup"])
def test_what_the_model_does_was_predicted(way: str, interval_us: int, window: int) -> None:
    """Within a quarter: a window that fills costs half, and receiving, which the analysis has not, costs 25 us."""
    setting = PaperSetting(interval_us=interval_us)
    case = PaperCase(way=way, network=QueryNetwork(window=window), setting=setting)
    load = load_of(case)
    predicted_ms = 1000 * predict(RecoveryWay(way.replace(" ", "-")), load, CONVERGENT).still_s
    seen_ms = 1000 * load.detect_s + measure(case, PaperReading(), 5).recovery_ms
    assert seen_ms == pytest.approx(predicted_ms, rel=0.25)


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["rows_per_s", "row_us", "window_s", "keys", "detect_s", "sync_s"])
@pytest.mark.parametrize("value", [-1, inf, float("nan")])
def test_what_cannot_be_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value}: it must be"):
        replace(LOAD, **{field: value})


@pytest.mark.parametrize("field", ["sync_s", "bytes_per_core_s"])
def test_what_is_divided_by_is_above_zero(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is 0: it must be above 0"):
        replace(LOAD, **{field: 0})
