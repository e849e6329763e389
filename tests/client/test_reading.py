"""Reading what a corrected stream holds now: it ends, and has values as Python has them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import api
from borealis_py.app.state import AppState
from borealis_py.client.reading import EPOCH, TypedRow, extent_of, read_extent, typed
from borealis_py.client.subscriber import CorrectedGap, Row
from borealis_py.log.base import NewRecord
from borealis_py.log.corrected import LostRange
from borealis_py.log.corrected import _gap as gap_records
from borealis_py.log.messages import Description
from borealis_py.query import App
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import rules
from tests.client.by_hand import BUCKETS, FIRST, ROWS, CorrectedByHand


@pytest.fixture
def world() -> CorrectedByHand:
    return CorrectedByHand()


def now(world: CorrectedByHand) -> list[Row | CorrectedGap]:
    return list(read_extent(world.client, extent_of(world.client, "app", "a1", ["q"])))


def test_of_a_query_without_results_there_is_nothing_and_it_ends(world: CorrectedByHand) -> None:
    assert now(world) == []


def test_rows_up_to_the_call_are_there_although_no_source_has_ended(world: CorrectedByHand) -> None:
    world.row(FIRST, 0, b'{"n": 1}')
    world.row(FIRST + 1, 0, b'{"n": 2}')
    world.progress(FIRST + 2)
    world.after(1)
    extent = extent_of(world.client, "app", "a1", ["q"])
    world.row(FIRST + 2, 0, b'{"n": 3}')
    world.after(1)
    rows = list(read_extent(world.client, extent))
    assert [row.value for row in rows if isinstance(row, Row)] == [{"n": 1}, {"n": 2}]
    assert len(now(world)) == 3


def test_rows_of_a_transaction_that_has_not_ended_are_not_read(world: CorrectedByHand) -> None:
    now_us = BUCKETS.start(FIRST)
    world.row(FIRST, 0, b'{"n": 1}')
    world.after(1)
    rows = world.log.broker.partition(ROWS)
    rows.append(NewRecord(ROWS, b'{"n": 2}', None, now_us // 1000, ()), now_us, "w")
    assert [row.value for row in now(world) if isinstance(row, Row)] == [{"n": 1}]
    rows.finish("w", commit=False, now_us=now_us)
    assert [row.value for row in now(world) if isinstance(row, Row)] == [{"n": 1}]


def test_what_is_lost_of_this_life_is_named(world: CorrectedByHand) -> None:
    world.row(FIRST, 0, b'{"n": 1}')
    for life in ("a0", "a1"):
        for record in gap_records("app", "q", LostRange(life, FIRST + 1, FIRST + 4)):
            world.append(record)
    world.after(1)
    assert now(world) == [CorrectedGap(FIRST + 1, FIRST + 4), Row(f"{FIRST}:0", BUCKETS.start(FIRST), {"n": 1})]


COLUMNS = {
    "window_start": "int64",
    "window_end": "int64",
    "n": "int64",
    "euros": "decimal(38,2)",
    "at": "timestamp",
    "day": "date",
    "raw": "binary",
    "any": "json",
    "name": "string",
    "share": "double",
    "sure": "bool",
    "amounts": "list of decimal(12,2)",
    "stime": "int64",
}


def test_values_are_those_of_python() -> None:
    value = {
        "window_start": 1_000_000,
        "window_end": 2_000_000,
        "n": 2**62,
        "euros": "2.50",
        "at": "2026-11-21T15:25:26.978485Z",
        "day": "2026-11-21",
        "raw": "AP8=",
        "any": {"at": "2026-11-21", "n": 1},
        "name": "2.50",
        "share": 0.5,
        "sure": True,
        "amounts": ["1.00", None],
    }
    (row,) = typed(iter([Row("1:0", 1_999_999, value, 3)]), COLUMNS)
    assert row == TypedRow(
        "1:0",
        EPOCH + timedelta(microseconds=1_999_999),
        {
            **value,
            "window_start": EPOCH + timedelta(seconds=1),
            "window_end": EPOCH + timedelta(seconds=2),
            "euros": Decimal("2.50"),
            "at": datetime(2026, 11, 21, 15, 25, 26, 978485, tzinfo=UTC),
            "day": date(2026, 11, 21),
            "raw": b"\0\xff",
            "amounts": [Decimal("1.00"), None],
        },
        3,
    )


def test_nulls_stay_null_and_gaps_gaps() -> None:
    empty = dict.fromkeys(COLUMNS)
    gap = CorrectedGap(1, 2)
    found = list(typed(iter([gap, Row("1:0", 0, empty)]), COLUMNS))
    assert found == [gap, TypedRow("1:0", EPOCH, empty)]


def test_a_column_of_its_own_called_like_a_windows_is_read_by_its_type() -> None:
    (row,) = typed(iter([Row("1:0", 0, {"window_start": "2026-11-21"})]), {"window_start": "date"})
    assert isinstance(row, TypedRow)
    assert row.value == {"window_start": date(2026, 11, 21)}


moments = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5))])).filter(
    lambda at: 1 < at.year < 9999
)


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    moments,
    st.dates(),
    st.binary(max_size=20),
)
def test_what_was_sent_is_what_is_read(euros: Decimal, at: datetime, day: date, raw: bytes) -> None:
    kinds = {"euros": "decimal(20,3)", "at": "timestamp", "day": "date", "raw": "binary"}
    sent = {"euros": euros, "at": at, "day": day, "raw": raw}
    forms = {}
    for name, kind in kinds.items():
        rule = rules(parse_type(kind))
        assert rule is not None
        forms[name] = rule.sent(sent[name])
    assert base64.b64decode(str(forms["raw"])) == raw
    (row,) = typed(iter([Row("1:0", 0, json.loads(json.dumps(forms)))]), kinds)
    assert isinstance(row, TypedRow)
    assert row.value == sent


def test_columns_of_a_result_are_known_from_the_description() -> None:
    app = App("a")
    source = app.source("s", schema={"item": "string", "euros": "decimal(12,2)", "moment": "timestamp"})
    app.query("q", source.window("1s").group_by("item").agg(euros="sum(euros)", all="list(euros)", last="max(moment)"))
    spec = app.describe()
    state = AppState("a", spec, Description(spec.to_json(), spec.hash, 17_000_000, "", "a1"))
    assert api.columns_of(state, "q") == {
        "window_start": "int64",
        "window_end": "int64",
        "item": "string",
        "euros": "decimal(38,2)",
        "all": "list of decimal(12,2)",
        "last": "timestamp",
        "stime": "int64",
    }
