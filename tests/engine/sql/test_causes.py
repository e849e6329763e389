"""Reasons of dead letters name the expression that failed, its values, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from borealis_py import App
from borealis_py.engine.sql import causes
from borealis_py.query import Stream
from borealis_py.testing import run

COLUMNS = {"k": "string", "i": "int64", "j": "int64", "m": "decimal(18,2)"}
MOST = 2**63 - 1
ROW = {"k": "abc", "i": MOST, "j": -MOST, "m": "9999999999999999.99"}
WHOLE = "an int64 holds no more than 9223372036854775807: write CAST(i AS DECIMAL(38,0)) in it"


def told(build: Callable[[Stream], Stream], *rows: dict[str, Any]) -> tuple[list[dict[str, object]], list[str]]:
    app = App("p")
    app.query("q", build(app.source("s", COLUMNS)))
    found = run(app, {"s": list(rows)})
    return found["q"], [letter.reason for letter in found.dead_letters]


@pytest.mark.parametrize(
    ("expression", "value", "advice"),
    [
        ("i + 1", "i=9223372036854775807", WHOLE),
        ("abs(i - 1 + j - j + j + j)", "j=-9223372036854775807", "write CAST(i AS DECIMAL(38,0)) or CAST(j AS"),
        ("i * 2", "(9223372036854775807 * 2)", WHOLE),
        ("CAST(CAST(i AS HUGEINT) * 2 AS BIGINT)", "18446744073709551614", WHOLE),
        ("CAST(i AS HUGEINT) * 2", "18446744073709551614", WHOLE),
        ("list_sum([i, i])", "18446744073709551614", WHOLE),
        ("CAST(m * 1000 AS BIGINT) * i", "m='9999999999999999.99'", "write CAST(i AS DECIMAL(38,0)) or CAST(m AS"),
        ("CAST(i AS INTEGER)", "with i=9223372036854775807", "CAST to BIGINT, or TRY_CAST gives null instead"),
        ("i << 2", "(9223372036854775807 << 2)", "shift fewer places"),
        ("m * m", "with m='9999999999999999.99'", "write CAST(m AS DECIMAL(38,2)) in it"),
        ("CAST(m AS DECIMAL(38,30))", "9999999999999999.99", "CAST to a DECIMAL of more digits, or TRY_CAST"),
        ("CAST(k AS INT)", "with k='abc'", "TRY_CAST gives null instead"),
        ("CAST(k AS TIMESTAMP)", "with k='abc'", "TRY_CAST gives null instead"),
        ("strptime(k, '%Y')", "with k='abc'", "try_strptime(...) gives null instead"),
        ("json_extract(k, '$.a')", "with k='abc'", "filter with json_valid(...)"),
        ("make_timestamp(i)", "9223372036854775807", "filter(...) such rows out, or give null with CASE WHEN"),
        ("repeat(k, i)", "k='abc', i=9223372036854775807", "shorten the text with left(...)"),
        ("make_timestamp(1) + INTERVAL 9000 YEAR", "before the year 1", "filter(...) such times out"),
        ("decode(unhex('ff'))", "decode", "filter(...) such rows out"),
    ],
)
def test_a_row_that_fails_names_expression_values_and_what_to_write(expression: str, value: str, advice: str) -> None:
    other = {"k": "", "i": 1, "j": 0, "m": "1.00"}
    written = f"CASE WHEN m > 1 THEN {expression} END"
    rows, reasons = told(lambda s: s.map(w="i", v=written, x="k"), ROW, other)
    assert [row["v"] for row in rows] == [None]
    (reason,) = reasons
    shown = written if len(written) <= 60 else written[:57] + "..."
    assert f"; in map(v): {shown}" in reason
    assert value in reason
    assert advice in reason


def test_numbers_of_the_least_int64_have_no_opposite() -> None:
    rows, reasons = told(lambda s: s.map(v="-i + abs(i)"), {**ROW, "i": -(2**63)})
    assert rows == []
    assert "with i=-9223372036854775808; an int64 holds no more than" in reasons[0]


@pytest.mark.parametrize("aggregate", ["sum(i)", "sum(i) + count(*)", "sum(DISTINCT i - k.len)", "list_sum(list(i))"])
def test_a_sum_beyond_int64_names_the_users_expression(aggregate: str) -> None:
    aggregate = aggregate.replace("k.len", "length(k)")
    rows, reasons = told(lambda s: s.window("1s").agg(n="count(*)", total=aggregate), ROW, {**ROW, "i": MOST - 1})
    assert rows == []
    (reason,) = reasons
    assert f"; in agg(total): {aggregate}; an int64 holds no more than 9223372036854775807: write CAST(i AS" in reason
    assert "18446744073709551" in reason
    assert "__" not in reason


def test_what_it_says_to_write_gives_the_sum() -> None:
    rows, reasons = told(lambda s: s.window("1s").agg(total="sum(CAST(i AS DECIMAL(38,0)))"), ROW, ROW)
    assert (rows[0]["total"], reasons) == (str(2 * MOST), [])


BUILDS: dict[str, tuple[Callable[[Stream], Stream], str]] = {
    "filter": (lambda s: s.filter("CAST(i + 1 AS VARCHAR) <> ''"), "filter: CAST(i + 1 AS VARCHAR) <> '', with i="),
    "second map": (lambda s: s.map(n="i", k="k").map(z="n + 1"), "map(z): n + 1"),
    "before a window": (lambda s: s.window("1s").group_by("k").agg(t="max(i + 1)"), "agg(t): max(i + 1), with i="),
    "rows of a window": (lambda s: s.window("1s").group_by("k").agg(t="list(i)[1] + 1"), "agg(t): list(i)[1] + 1"),
    "over": (lambda s: s.over("k", last=2, within="1s").map(t="sum(i) + 1", k="k"), "map(t): sum(i) + 1"),
    "over's arguments": (lambda s: s.over("k", last=2, within="1s").map(t="max(i + 1)"), "map(t): "),
    "top": (lambda s: s.window("1s").top(1, by="i + 1"), "top(): i + 1, with i="),
}


@pytest.mark.parametrize("name", BUILDS)
def test_operators_of_every_kind_name_the_expression(name: str) -> None:
    build, where = BUILDS[name]
    _, reasons = told(build, ROW, ROW)
    assert reasons
    for reason in reasons:
        assert f"; in {where}" in reason
        assert WHOLE.partition(":")[0] in reason
        assert "__" not in reason


def test_a_wide_map_is_searched_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    whole = causes.culprit
    monkeypatch.setattr(
        "borealis_py.engine.sql.duck_statement.culprit",
        lambda stages, feed, fails: whole(stages, feed, lambda select: asked.append(select) or fails(select)),
    )
    columns = {f"c{n}": "i" for n in range(100)}
    _, reasons = told(lambda s: s.map(**{**columns, "c77": "i + 1"}), ROW)
    assert "; in map(c77): i + 1" in reasons[0]
    assert len(asked) <= 10


def test_every_message_has_an_advice() -> None:
    """Each pattern of the list fits what it is for, and none is dead."""
    part = causes.NamedExpression("map(v)", "i + 1", "i + 1", ("i",))
    stage = causes.ExpressionStage(str, (part,), {})
    messages = (
        "destination type INT32", "Overflow in multiplication of DECIMAL(18)", "Overflow in left shift",
        "Overflow in x", "Casting value 1 to type DECIMAL(2,1) failed", "Could not convert string 'a' to INT32",
        "Malformed JSON at 1", "Could not parse string", "the text is longer than 1000 bytes",
        "before the year 1 or after 9999", "the result is not valid UTF-8", "the path has more", "the format asks",
        "Invalid escape string", "a hundred combining characters", "larger than row_max", "anything else",
    )  # fmt: skip
    assert len(messages) == len(causes._ADVICE) + 1
    advices = [causes.advice(message, stage, part) for message in messages]
    assert len(set(advices)) == len(advices)
    assert duckdb.__version__.startswith("1.5"), "look whether its messages are still these"
