"""Debezium's change events: what was written is a row, a delete one only where its operation has a column."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.base import FormatRows
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.log.base import Feed, Record

COLUMNS = {"id": "int64", "euros": "decimal(9,2)"}


def event(op: str | None = "c", after: Any = None, before: Any = None, schema: bool = False) -> bytes:
    change = {"before": before, "after": after, "source": {"table": "orders"}, "ts_ms": 1, "op": op}
    return json.dumps({"schema": {"type": "struct"}, "payload": change} if schema else change).encode()


def said(found: FormatRows) -> list[Any]:
    what: dict[int, Any] = dict(zip(found.at, found.rows.to_pylist(), strict=True)) | dict(found.bad)
    return [what[i] for i in sorted(what)]


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_what_was_written_is_the_row(op: str, schema: bool) -> None:
    value = event(op, after={"id": 7, "euros": "1.50", "note": "x"}, before={"id": 7, "euros": "9.00"}, schema=schema)
    assert said(DebeziumFormat(COLUMNS, None).rows([value])) == [{"id": 7, "euros": Decimal("1.50")}]


def test_with_a_column_for_the_operation_a_delete_is_the_row_before_it() -> None:
    form = DebeziumFormat({"what": "string", **COLUMNS}, "what")
    values = [event("c", after={"id": 1}), event("d", before={"id": 1}), event("u", after={"id": 2, "what": "x"})]
    assert [(row["what"], row["id"]) for row in said(form.rows(values))] == [("c", 1), ("d", 1), ("u", 2)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (event("d", before={"id": 1}), "a delete: name a column with op= to have deletes as rows"),
        (event("c"), "a change with op 'c' without `after`"),
        (event("t"), "not a change event: its op is 't'"),
        (event(""), "not a change event: it has no op"),
        (event(None, after={"id": 1}), "not a change event: Expected `str`, got `null`"),
        (b'{"id":1}', "not a change event: it has no op"),
        (b"[]", "not a change event: Expected `object`"),
        (b"", "not a change event: Input data was truncated"),
        (b'{"payload":7}', "not a change event: Expected `object`"),
        (event("c", after={"id": "1"}), "column 'id': Expected `int | null`"),
        (event("c", after={"euros": "AJY="}), "column 'euros': 'AJY=' is no decimal number"),
        (event("c", after=[1]), "Expected `object`, got `array`"),
        (b'{"op":"c","after":{"id":1},"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}", "not a change event"),
    ],
)
def test_anything_else_is_a_dead_letter_that_says_why(value: bytes, reason: str) -> None:
    good = event(after={"id": 1})
    found = DebeziumFormat(COLUMNS, None).rows([good, value, good])
    assert list(found.at) == [0, 2]
    ((at, why),) = found.bad
    assert at == 1
    assert why.startswith(reason)


def test_a_delete_without_the_row_before_it_is_a_dead_letter() -> None:
    found = DebeziumFormat({"what": "string", **COLUMNS}, "what").rows([event("d")])
    assert found.bad == [(0, "a change with op 'd' without `before`")]


def test_a_tombstone_says_nothing_new_and_is_passed_over() -> None:
    values = [event(after={"id": 1}), None, event("u", after={"id": 2})]
    records = [Record(Feed("t"), i, 1_700_000_000_000, None, value) for i, value in enumerate(values)]
    found = TopicDecoder(DebeziumFormat(COLUMNS, None), None, "us", 1_000).decode(records)
    assert (found.at.tolist(), found.bad) == ([0, 2], ())


STATES = st.sampled_from([None, {"id": 1}, {"id": "x"}])
EVENTS = st.builds(event, st.sampled_from("curdt"), STATES, STATES, st.booleans())


@given(st.lists(st.binary(max_size=6) | EVENTS, max_size=6))
def test_events_are_decoded_together_as_they_are_one_by_one(values: list[bytes]) -> None:
    form = DebeziumFormat({"what": "string", **COLUMNS}, "what")
    found = form.rows(values)
    assert sorted([*found.at, *(at for at, _ in found.bad)]) == list(range(len(values)))
    assert said(found) == [said(form.rows([value]))[0] for value in values]
