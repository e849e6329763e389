"""Text and JSON that are CAST to exact numbers and dates stay what they are, whatever their digits or offset."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.engine.sql.exact import digits_of
from borealis_py.testing import run
from tests.examples import examples

SCHEMA = {"k": "string", "j": "json", "d": "decimal(12,2)", "i": "int64", "day": "date"}


def told(expression: str, texts: list[object], column: str = "k") -> tuple[list[object], list[str]]:
    """The values of an expression, and the reasons of dead letters."""
    app = App("p")
    app.query("q", app.source("s", schema=SCHEMA).map(v=expression))
    rows = [{**dict.fromkeys(SCHEMA), "d": "1.01", "i": 2, "day": "2025-12-31", column: text} for text in texts]
    found = run(app, {"s": rows})
    return [row["v"] for row in found["q"]], [letter.reason for letter in found.dead_letters]


@settings(max_examples=examples(200))
@given(
    st.sampled_from(["", "-", "+"]), st.from_regex(r"[0-9]{0,5}", fullmatch=True),
    st.from_regex(r"(\.[0-9]{0,6})?", fullmatch=True), st.from_regex(r"([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.integers(0, 8),
)  # fmt: skip
def test_the_digits_after_the_point_are_those_of_the_number(
    sign: str, whole: str, fraction: str, exponent: str, kept: int
) -> None:
    text = f" {sign}{whole or '0'}{fraction}{exponent} "
    number = Decimal(text.strip())
    assert (digits_of(text) <= kept) == (number.scaleb(kept) == number.scaleb(kept).to_integral_value())


NUMBERS = ["1.00", "1.005", "15e-1", "1e2", " 1.50 ", "1_0.25", ".5", "0.004", "-2.5e0", "x", None]


@pytest.mark.parametrize(
    ("type_", "exact"),
    [
        ("DECIMAL(12,2)", {0: "1.00", 2: "1.50", 3: "100.00", 4: "1.50", 5: "10.25", 6: "0.50", 8: "-2.50"}),
        ("DECIMAL(12,1)", {0: "1.0", 2: "1.5", 3: "100.0", 4: "1.5", 6: "0.5", 8: "-2.5"}),
        ("DECIMAL", {0: "1.000", 1: "1.005", 2: "1.500", 3: "100.000", 4: "1.500", 5: "10.250", 6: "0.500",
                     7: "0.004", 8: "-2.500"}),
        ("BIGINT", {0: 1, 3: 100}),
        ("INTEGER", {0: 1, 3: 100}),
        ("HUGEINT", {0: 1, 3: 100}),
    ],
)  # fmt: skip
def test_text_is_an_exact_number_or_a_dead_letter(type_: str, exact: dict[int, object]) -> None:
    result = "VARCHAR" if type_ == "HUGEINT" else type_
    found, letters = told(f"CAST(CAST(k AS {type_}) AS {result})", list(NUMBERS))
    wanted = [str(value) if result == "VARCHAR" else value for value in exact.values()]
    assert found == [*wanted, None]
    assert len(letters) == len(NUMBERS) - len(found)
    tried, none = told(f"CAST(TRY_CAST(k AS {type_}) AS {result})", list(NUMBERS))
    assert none == []
    assert tried == [None if n not in exact else wanted[list(exact).index(n)] for n in range(len(NUMBERS))]


def test_the_reason_says_what_to_write_and_that_works() -> None:
    _, (reason,) = told("CAST(k AS DECIMAL(12,2))", ["1.005"])
    assert (
        "'1.005' would be rounded by a CAST to DECIMAL(12,2): write CAST(round(CAST(... AS DECIMAL(38,3)), 2)" in reason
    )
    assert "in map(v): CAST(k AS DECIMAL(12,2)), with k='1.005'" in reason
    assert told("CAST(round(CAST(k AS DECIMAL(38,3)), 2) AS DECIMAL(12,2))", ["1.005"]) == (["1.01"], [])
    assert told("CAST(round(CAST(k AS DECIMAL(38,1)), 0) AS BIGINT)", ["1.5"]) == ([2], [])
    assert told("CAST(k AS DOUBLE)", ["1.005"]) == ([1.005], [])


@pytest.mark.parametrize(("type_", "exact"), [("DECIMAL(38,2)", ["1.00", "12345678901234567.89"]), ("BIGINT", [1])])
def test_numbers_of_json_keep_their_digits(type_: str, exact: list[object]) -> None:
    values = [1, "1.00", Decimal("12345678901234567.89"), 1.005, "1.005", None, [1], "x"]
    rows = [str(value) if isinstance(value, Decimal) else value for value in values]
    found, letters = told(f"CAST(j AS {type_})", list(rows), "j")
    assert found == [exact[0], exact[0], *exact[1:], None]
    assert len(letters) + len(found) == len(values)
    assert told("CAST(CAST(k AS JSON) AS DECIMAL(38,2))", ["12345678901234567.89"]) == (["12345678901234567.89"], [])


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("CAST('1.005' AS DECIMAL(12,2))", "'1.005' would be rounded by a CAST to DECIMAL(12,2)"),
        ("CAST('1.5' AS BIGINT)", "write CAST(round(CAST(... AS DECIMAL(38,1)), 0) AS BIGINT)"),
        ("d = '1.005'", "'1.005' would be rounded to DECIMAL(12,2), like what it stands beside: write 1.005"),
        ("i < '1.5'", "'1.5' would be rounded to BIGINT"),
        ("d IN ('1.00', '1.005')", "'1.005' would be rounded"),
        ("CAST([k] AS DECIMAL(12,2)[])", "take each of them out and CAST it by itself"),
        ("CAST(k AS DECIMAL(12,2)[])", "take each of them out and CAST it by itself"),
        ("CAST(j AS DECIMAL(12,2)[])", "take each of them out and CAST it by itself"),
        ("CAST(j AS STRUCT(a DECIMAL(12,2))).a", "take each of them out and CAST it by itself"),
        ('from_json(k, \'{"a": "DECIMAL(12,2)"}\').a', "take such values as VARCHAR"),
        ('from_json(k, \'{"a": "DATE"}\').a', "take such values as VARCHAR"),
        ("day > '2026-01-01T00:30:00+02:00'", "beside a date: write CAST('2026-01-01T00:30:00+02:00' AS DATE)"),
        ("CAST([k] AS DATE[])", "a CAST to DATE takes text"),
        ("CAST(j AS DATE)", "a CAST to DATE takes text"),
        ("CAST(k AS DATE[])", "a CAST to DATE takes text"),
    ],
)
def test_what_would_be_changed_is_refused_with_what_to_write(expression: str, reason: str) -> None:
    with pytest.raises(QueryError, match=re.escape(reason)):
        told(expression, [])


def test_text_beside_numbers_is_as_exact() -> None:
    assert told("k = d", ["1.01", "1.00"]) == ([True, False], [])
    found, letters = told("k = d", ["1.005"])
    assert found == []
    assert "'1.005' would be rounded" in letters[0]
    assert told("d = '1.0100'", [None]) == ([True], [])
    assert told('from_json(k, \'{"date": "VARCHAR"}\').date', ['{"date":"a"}']) == (["a"], [])


DATES = [
    "2026-01-01T00:30:00+02:00",
    "2026-01-01 00:30:00Z",
    "2026-01-01",
    " 2026-1-1 ",
    "2026-01-01 12:00:00 Europe/Berlin",
]
MEANT = ["2025-12-31", "2026-01-01", "2026-01-01", "2026-01-01", "2026-01-01"]


@pytest.mark.parametrize("expression", ["CAST(k AS DATE)", "TRY_CAST(k AS DATE)", "k::DATE", "coalesce(NULL, k::DATE)"])
def test_the_date_of_text_is_that_of_its_instant(expression: str) -> None:
    assert told(expression, [*DATES, None]) == ([*MEANT, None], [])


def test_a_date_beside_text_is_as_well() -> None:
    assert told("k = day", list(DATES)) == ([True, False, False, False, False], [])
    assert told("CAST('2026-01-01T00:30:00+02:00' AS DATE)", [None]) == (["2025-12-31"], [])
    assert told("DATE '2026-01-01' + 1", [None]) == (["2026-01-02"], [])
    found, letters = told("CAST(k AS DATE)", ["2026-01-01x"])
    assert (found, len(letters)) == ([], 1)
    assert told("TRY_CAST(k AS DATE)", ["2026-01-01x", "soon"]) == ([None, None], [])


def test_a_decimal_becomes_a_whole_number_only_where_it_is_one() -> None:
    found, (reason,) = told("CAST(d AS INTEGER)", ["1.00", "1.50"], "d")
    assert found == [1]
    assert "write CAST(round(d, 0) AS INTEGER)" in reason
    assert told("CAST(round(d, 0) AS INTEGER)", ["1.00", "1.50"], "d") == ([1, 2], [])
    assert told("TRY_CAST(d AS BIGINT)", ["1.00", "1.50"], "d") == ([1, None], [])


TIMES = ["10:00:00", "10:00:00.5", "10:00:00+02:00", "10:00:00 Europe/Berlin", "2026-01-01T10:00:00Z", None]


def test_a_time_of_day_has_no_offset() -> None:
    found, letters = told("CAST(CAST(k AS TIME) AS VARCHAR)", list(TIMES))
    assert found == ["10:00:00", "10:00:00.5", None]
    assert ["CAST(CAST(... AS TIMESTAMP) AS TIME)" in reason for reason in letters] == [True] * 3
    tried = told("CAST(TRY_CAST(k AS TIME) AS VARCHAR)", list(TIMES))
    assert tried == (["10:00:00", "10:00:00.5", None, None, None, None], [])
    assert told("CAST(CAST(CAST(k AS TIMESTAMP) AS TIME) AS VARCHAR)", ["2026-01-01T10:00:00+02:00"])[0] == ["08:00:00"]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("CAST(TIME '10:00:00+02' AS VARCHAR)", "'10:00:00+02' has an offset or a zone"),
        ("len(CAST([k] AS TIME[]))", "a CAST to TIME takes text, but nothing that texts are in"),
        ("len(CAST(j AS TIME[]))", "a CAST to TIME takes text, but nothing that texts are in"),
    ],
)
def test_a_time_of_day_that_would_lose_its_offset_is_refused(expression: str, why: str) -> None:
    with pytest.raises(QueryError, match=re.escape(why)):
        told(expression, [])
