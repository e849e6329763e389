"""A source's schema, and what a dead letter shows of a row that does not fit it."""

from __future__ import annotations

import pytest

from borealis_py.client.rows import RowSchema, raw_json
from borealis_py.types.spelling import NAMES


@pytest.mark.parametrize(
    ("schema", "got"),
    [
        ({"a": "int64", "b": "int", "c": "date", "d": "decimal"}, "{'b': 'int', 'd': 'decimal'}"),
        ({}, "no fields"),
    ],
)
def test_a_schema_that_is_none_is_told_with_the_types_there_are(schema: dict[str, str], got: str) -> None:
    with pytest.raises(ValueError, match="a schema maps fields to") as told:
        RowSchema(schema)
    assert str(told.value) == f"a schema maps fields to {NAMES}; got {got}"


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"n": 1, "z": 1 + 2j}, b'{"n":1,"z":"(1+2j)"}'),
        ({"n": "\ud800"}, b"\"{'n': '\\\\ud800'}\""),
        ({2.5: "a key of no JSON"}, b'{"2.5":"a key of no JSON"}'),
    ],
)
def test_a_row_that_json_has_no_word_for_is_shown_as_well_as_can_be(row: object, shown: bytes) -> None:
    assert raw_json(row) == shown
