"""What becomes of foreign values: rows, heartbeats, or dead letters with a reason; a bad one costs only itself."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.decoder import Decoded, TopicDecoder
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.log.base import Feed, Record
from borealis_py.query.units import TIME_UNITS

COLUMNS = {"s": "string", "n": "int64", "x": "double", "b": "bool", "at": "int64"}
AT = 1_700_000_000_000_000


def records(values: Sequence[bytes | None], timestamp_ms: int = AT // 1_000) -> list[Record]:
    return [Record(Feed("t"), 100 + i, timestamp_ms, None, value) for i, value in enumerate(values)]


def decoder(stime: str | None = "at", unit: str = "us", row_max: int = 1_000, **more: object) -> TopicDecoder:
    return TopicDecoder(JsonFormat(COLUMNS), stime, unit, row_max, **more)  # type: ignore[arg-type]


def one(value: object, **options: object) -> tuple[dict[str, object], int] | str:
    """The row and stime of a value, or why it is none."""
    found = decoder(**options).decode(records([value if isinstance(value, bytes) else json.dumps(value).encode()]))  # type: ignore[arg-type]
    return (found.rows.to_pylist()[0], int(found.stimes[0])) if len(found.at) else found.bad[0][1]


def test_a_value_as_the_schema_says_is_a_row() -> None:
    row = {"s": "ä", "n": -5, "x": 0.5, "b": True, "at": AT}
    assert one(row) == (row, AT)


def test_missing_fields_are_null_unknown_ones_ignored_and_an_integer_is_a_double() -> None:
    assert one({"x": 3, "at": AT, "more": [1, {}]}) == ({"s": None, "n": None, "x": 3.0, "b": None, "at": AT}, AT)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"n": 1.5, "at": AT}, "malformed: column 'n': Expected `int | null`, got `float`"),
        ({"n": "1", "at": AT}, "malformed: column 'n': Expected `int | null`, got `str`"),
        ({"n": 2**63, "at": AT}, "malformed: column 'n'"),
        ({"b": 1, "at": AT}, "malformed: column 'b'"),
        ({"s": 1, "at": AT}, "malformed: column 's'"),
        ([], "malformed: Expected `object`, got `array`"),
        (b"{", "malformed: not JSON"),
        (b"", "malformed: not JSON"),
        (b'{"at":1},{"at":2}', "malformed: not JSON"),
        (b'{"s":"\xff"}', "malformed: not JSON"),
        (b'{"s":"\\ud800"}', "malformed: not JSON"),
        (b'{"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "malformed: nested more than 100 levels deep"),
        (b'{"x":NaN}', "malformed: not JSON"),
        ({"s": "x" * 1_000, "at": AT}, "malformed: a row of more than 1000 bytes"),
        ({}, "stime missing"),
        ({"at": None}, "stime missing"),
        ({"at": 0}, "stime='at' is 1970-01-01T00:00:00Z, and times of rows begin after 1970-01-01T00:00:00Z"),
        ({"at": -5}, "stime='at' is 1969-12-31T23:59:59.999995Z, and times of rows begin after"),
        ({"at": 2**62}, "stime 4611686018427387904 is beyond all times in microseconds"),
    ],
)
def test_anything_else_is_a_dead_letter_that_says_why(value: object, reason: str) -> None:
    found = one(value)
    assert isinstance(found, str)
    assert found.startswith(reason)


def test_a_tombstone_is_a_dead_letter() -> None:
    found = decoder().decode(records([b'{"at":5}', None, b"?", None, b'{"at":6}']))
    assert [position for position, _ in found.bad] == [1, 2, 3]
    assert "tombstone" in found.bad[0][1]
    assert found.at.tolist() == [0, 4]
    assert found.stimes.tolist() == [5, 6]


@pytest.mark.parametrize(("unit", "value"), [("s", 500), ("ms", 500_000), ("us", 500_000_000)])
def test_units_of_the_time_column(unit: str, value: int) -> None:
    assert one({"at": value}, unit=unit)[1] == 500_000_000


def test_nanoseconds_are_cut_to_microseconds() -> None:
    assert one({"at": 1_700_999}, unit="ns")[1] == 1_700


def test_a_time_that_overflows_in_its_unit_is_none() -> None:
    assert one({"at": 2**60}, unit="s") == (
        '1152921504606846976 looks like nanoseconds and is read as seconds: set stime_unit="ns"'
    )
    assert one({"at": 2**62}, unit="s") == "stime 4611686018427387904 is beyond all times in seconds"


def test_without_a_column_the_records_time_counts() -> None:
    found = decoder(stime=None).decode(records([b"{}", b"?"], timestamp_ms=7))
    assert found.stimes.tolist() == [7_000]
    assert decoder(stime=None).decode(records([b"{}"], timestamp_ms=-1)).bad == (
        (0, "stime missing: the record has no timestamp, and no stime= names a column"),
    )


def test_a_heartbeat_is_neither_row_nor_dead_letter_and_needs_no_time() -> None:
    def pings(rows: pa.RecordBatch) -> np.ndarray:
        return np.asarray([value == "ping" for value in rows.column("s").to_pylist()])

    found = decoder(is_heartbeat=pings).decode(records([b'{"s":"ping"}', b'{"s":"x","at":5}', b'{"s":"ping","at":6}']))
    assert found.at.tolist() == [1]
    assert found.bad == ()


VALUES = st.one_of(
    st.builds(
        lambda n, s: json.dumps({"n": n, "s": s, "at": AT}).encode(),
        st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.none(),
        st.text(max_size=5),
    ),
    st.binary(max_size=12),
    st.none(),
)


def said(found: Decoded) -> list[object]:
    """What became of each record."""
    what: dict[int, object] = dict(found.bad)
    what |= dict(zip(found.at.tolist(), found.rows.to_pylist(), strict=True))
    return [what.get(i) for i in range(len(found))]


@given(st.lists(VALUES, max_size=12), st.integers(0, 12))
def test_together_cut_or_one_by_one_is_the_same(values: list[bytes | None], count: int) -> None:
    whole = decoder().decode(records(values))
    alone = [said(decoder().decode([record]))[0] for record in records(values)]
    assert said(whole) == alone
    first, rest = whole.cut(min(count, len(values)))
    assert [*said(first), *said(rest)] == alone
    assert [*first.records, *rest.records] == records(values)
    assert [*first.stimes, *rest.stimes] == list(whole.stimes)


@pytest.mark.parametrize("meant", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("said", ["s", "ms", "us", "ns"])
def test_a_time_in_another_unit_is_recognised_by_its_number(said: str, meant: str) -> None:
    number = AT * TIME_UNITS[meant][1] // 1_000_000
    found = decoder(unit=said).decode(records([json.dumps({"at": number}).encode()]))
    told = decoder(unit=said).misread(int(found.stimes[0]), 0) if len(found.at) else found.misread
    if said == meant:
        assert told == ""
    else:
        assert told.endswith(
            f'looks like {TIME_UNITS[meant][0]} and is read as {TIME_UNITS[said][0]}: set stime_unit="{meant}"'
        )
        assert told.split(" ")[0] == str(number)


def test_a_time_of_another_century_in_no_unit_of_ours_is_told_by_its_year() -> None:
    year = 31_556_952_000_000
    assert (
        decoder().misread(25 * year, 31 * year)
        == f"{25 * year} is of the year 1995: check stime='at' and its stime_unit="
    )
    assert decoder().misread(25 * year, year) == ""
    assert decoder(stime=None).misread(1, 31 * year) == "1 is of the year 1970: check what stime= names"
