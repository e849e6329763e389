"""The time of a row by a path to a field that is no column, and by an SQL expression over the columns."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.app.foreign import check_foreign
from borealis_py.ingress.decoder import Decoded
from borealis_py.ingress.decoders import decoder_for
from borealis_py.log.base import Feed, Record
from borealis_py.protocol.settings import Timing
from borealis_py.query.spec import AppSpec
from borealis_py.testing import TopicRecord, run
from tests.examples import examples

AT_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z."""
SCHEMA = {"day": "string", "clock": "string", "n": "int64"}
SQL = "CAST(day || ' ' || clock AS TIMESTAMP)"


def app_of(schema: dict[str, Any] | None = None, **more: Any) -> AppSpec:
    app = App("p")
    app.query("q", app.topic("t", topic="x", schema=schema or SCHEMA, partitions=1, **more).map(n="n"))
    return app.describe()


def decoded(spec: AppSpec, *values: object, keys: tuple[bytes | None, ...] = ()) -> Decoded:
    decoder = decoder_for("t", spec.ingresses["t"], spec.sources["t"], 100_000)
    raws = [
        None if value is None else value if isinstance(value, bytes) else msgspec.json.encode(value) for value in values
    ]
    some = keys or (None,) * len(raws)
    records = [
        Record(Feed("x"), n, 1_700_000_000_000, key, raw) for n, (raw, key) in enumerate(zip(raws, some, strict=True))
    ]
    return decoder.decode(records)


def described(**more: Any) -> str:
    return app_of(**more).hash


FORMS: list[tuple[dict[str, Any], object, int | str]] = [
    ({}, AT_US, AT_US),
    ({"stime_unit": "ms"}, AT_US // 1_000, AT_US),
    ({"stime_unit": "s"}, 1_767_225_600.5, AT_US + 500_000),
    ({}, str(AT_US), AT_US),
    ({}, "2026-01-01T00:00:00Z", AT_US),
    ({}, "2026-01-01T02:00:00+02:00", AT_US),
    ({"stime_format": "%d.%m.%Y"}, "01.01.2026", AT_US),
    ({}, 1_767_225_600, "looks like seconds and is read as microseconds"),
    ({}, "soon", "is neither integer microseconds nor an ISO 8601"),
    ({}, None, "stime missing: the record has no $.meta.at, or null there"),
    ({}, True, "stime true is neither a number nor a text"),
    ({}, {"a": 1}, 'stime {"a":1} is neither a number nor a text'),
    ({}, -5, "times of rows begin after 1970"),
    ({}, 10**30, "is beyond all times"),
]


@pytest.mark.parametrize(("more", "value", "meant"), FORMS)
def test_a_path_is_read_as_a_column_is(more: dict[str, Any], value: object, meant: int | str) -> None:
    spec = app_of(stime="$.meta.at", **more)
    found = decoded(spec, {"n": 1, "meta": {"at": value}}, {"n": 2})
    assert found.rows.schema.names == list(SCHEMA)
    reasons = dict(found.bad)
    assert reasons[1] == "stime missing: the record has no $.meta.at, or null there"
    if isinstance(meant, int):
        assert (found.stimes.tolist(), found.rows.column("n").to_pylist()) == ([meant], [1])
    else:
        assert meant in reasons[0]
        assert found.rows.num_rows == 0


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.integers(-(2**62), 2**62),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(max_size=8),
        ),
        max_size=6,
    )
)
def test_a_path_gives_what_a_column_of_texts_or_numbers_gives(values: list[object]) -> None:
    by_path = decoded(app_of(stime="$.meta.at"), *({"n": n, "meta": {"at": value}} for n, value in enumerate(values)))
    rows = iter(zip(by_path.stimes.tolist(), by_path.rows.column("n").to_pylist(), strict=True))
    told = {n: stime for stime, n in rows}
    for n, value in enumerate(values):
        kind = "int64" if isinstance(value, int) else "double" if isinstance(value, float) else "string"
        column = decoded(app_of({"n": "int64", "at": kind}, stime="at"), {"n": n, "at": value})
        assert told.get(n) == (column.stimes.tolist() or [None])[0]


def test_a_path_within_a_json_column_and_beside_tombstones() -> None:
    spec = app_of({"n": "int64", "meta": "json", "k": "string"}, stime="$.meta.at", key="k")
    found = decoded(spec, {"n": 1, "meta": {"at": AT_US}}, None, keys=(b'"a"', b'"b"'))
    assert found.bad == ()
    assert found.stimes.tolist() == [AT_US, 1_700_000_000_000_000]
    assert found.rows.column("k").to_pylist() == ["a", "b"]


def test_a_path_whose_heartbeats_are_no_rows() -> None:
    spec = app_of(stime="$.meta.at", heartbeat="n = 0")
    found = decoded(spec, {"n": 0, "meta": {"at": AT_US}}, {"n": 1, "meta": {"at": AT_US}}, {"n": 0})
    assert (found.pings_at.tolist(), found.at.tolist(), found.bad) == ([0, 2], [1], ())


def test_an_expression_gives_the_time_of_each_row() -> None:
    rows = [{"day": "2026-01-01", "clock": f"0{n}:00:00+02:00", "n": n} for n in range(3)]
    found = decoded(app_of(stime_sql=SQL), *rows)
    assert found.stimes.tolist() == [AT_US + (n - 2) * 3_600_000_000 for n in range(3)]
    assert decoded(app_of(stime_sql="CAST(day AS DATE)"), rows[0]).stimes.tolist() == [AT_US]
    assert decoded(app_of(stime_sql="epoch_ms(n)"), {"n": AT_US // 1_000}).stimes.tolist() == [AT_US]
    assert decoded(app_of(stime_sql=SQL), b"5").bad != ()


@pytest.mark.parametrize(
    ("expression", "row", "reason"),
    [
        (
            SQL,
            {"day": "2026-01-01", "clock": None, "n": 1},
            r"stime missing: stime_sql=.*with day='2026-01-01', clock=None",
        ),
        (
            SQL,
            {"day": "soon", "clock": "x", "n": 1},
            r"in stime_sql: CAST\(day \|\| .*with day='soon', clock='x'; TRY_CAST",
        ),
        ("epoch_ms(n)", {"n": -5}, r"stime_sql is 1969-12-31T23:59:59.*stime_sql='epoch_ms\(n\)' with n=-5"),
        ("epoch_ms(n)", {"n": 2**62}, r"stime: .*in stime_sql: epoch_ms\(n\), with n="),
        ("epoch_ms(n * n)", {"n": 2**40}, "Overflow in multiplication"),
    ],
)
def test_a_row_without_a_time_is_a_dead_letter_that_says_what_to_do(
    expression: str, row: dict[str, Any], reason: str
) -> None:
    good = {"day": "2026-01-01", "clock": "00:00", "n": 1_000}
    found = decoded(app_of(stime_sql=expression), good, row, good)
    assert found.at.tolist() == [0, 2]
    ((at, told),) = found.bad
    assert at == 1
    assert re.search(reason, told), told


def test_tombstones_and_heartbeats_need_no_time_of_the_expression() -> None:
    spec = app_of(stime_sql=SQL, key="clock", key_format="text", heartbeat="n = 0")
    found = decoded(spec, {"day": "2026-01-01", "n": 1}, None, {"n": 0}, keys=(b"00:00", b"01:00", b"x"))
    assert (found.stimes.tolist(), found.pings_at.tolist(), found.bad) == ([AT_US, 1_700_000_000_000_000], [2], ())


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"stime": "$.n"}, "is the field of column 'n': write stime='n'"),
        ({"stime": "$.n.at"}, "within column 'n', which can then only be json, not int64"),
        ({"stime": "$.tags[0]"}, "an element of a list"),
        ({"stime": "$"}, "it is the whole record"),
        ({"stime": "$.meta.at", "format": "csv"}, "has no fields: name a column"),
        ({"stime": "$.meta.at", "stime_unit": "h"}, "stime_unit='h'"),
        ({"stime": "$.meta.at", "stime_unit": "s", "stime_format": "%Y-%m-%d"}, "leave one out"),
        ({"stime": "$.meta.at", "stime_format": "%H"}, "leaves year, month or day open"),
        ({"stime_sql": " "}, "give an SQL expression over day, clock, n"),
        ({"stime_sql": SQL, "stime": "day"}, "leave them out"),
        ({"stime_sql": SQL, "stime_unit": "s"}, "leave them out"),
        ({"stime_sql": "n"}, "a row's time is a timestamp or a date, this is int64: write"),
        ({"stime_sql": "CAST(dya AS DATE)"}, "dya"),
        ({"stime_sql": "now()"}, "now"),
        ({"stime_sql": "CAST(max(day) AS DATE)"}, "max"),
        ({"stime_sql": "timezone('Europe/Berlin', CAST(day AS TIMESTAMPTZ))"}, "what a clock in a zone shows"),
        ({"stime_sql": "CAST(day AS"}, "stime_sql of topic 't'"),
    ],
)
def test_what_gives_no_time_is_refused_at_check(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(QueryError, match=re.escape(reason)):
        check_foreign(app_of(**more), Timing())


def test_what_check_takes_runs() -> None:
    for more in ({"stime": "$.meta.at"}, {"stime_sql": "make_timestamp(n)"}):
        app = App("p")
        rows = app.topic("t", topic="x", schema=SCHEMA, partitions=1, **more)  # type: ignore[arg-type]
        app.query("q", rows.window("1s").agg(total="sum(n)"))
        check_foreign(app.describe(), Timing())
        found = run(app, {"t": [TopicRecord({"n": AT_US, "meta": {"at": "2026-01-01"}})]})
        assert [(row["window_start"], row["total"]) for row in found["q"]] == [(AT_US, AT_US)]


def test_another_time_is_another_app() -> None:
    hashes = [described(), described(stime="$.meta.at"), described(stime_sql=SQL), described(stime_sql="epoch_ms(n)")]
    assert len(set(hashes)) == 4
    assert AppSpec.from_json(app_of(stime_sql=SQL).to_json()) == app_of(stime_sql=SQL)
