"""docs/reference/forms.md is what the code does, and each reason names the column, the value, and what to do."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("fastavro", reason="fastavro is not installed: pip install 'borealis-py[avro]'")

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.formats.avro import AvroFormat
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.protobuf import ProtobufFormat
from borealis_py.types.explained import explained, shown_value, what_to_do
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import short
from tests.ingress.formats import forms

ADVICE = ("make the column ", "let the ", "make it ", "say CSV(")
CASES = [(title, *case) for title, _, lines in forms.cases() for case in lines]
ALL_TAKEN = (("CSV", "string"), ("Protobuf", "json"))
REFUSED = [case for case in CASES if not forms.outcome(case[3], case[4])[0]]


def test_the_page_is_made_of_what_the_code_does() -> None:
    assert forms.PAGE.read_text() == forms.page(), "write it: python -m tests.ingress.formats.forms"


@pytest.mark.parametrize(("title", "kind", "shown", "form", "record"), REFUSED)
def test_each_reason_names_the_column_the_value_and_what_to_do(
    title: str, kind: str, shown: str, form: RecordFormat, record: bytes
) -> None:
    reason = forms.outcome(form, record)[1]
    assert reason.startswith("column 'c': "), (title, kind, shown)
    assert any(advice in reason for advice in ADVICE), reason
    value = shown.partition(": ")[2] if title.startswith(("Avro", "Debezium", "Protobuf")) else shown
    text = value.strip("`").strip("\"'[]")
    word = rf"(?<!\w){re.escape(text)}(?!\w)"
    assert re.search(word, reason, re.IGNORECASE) or (
        isinstance(form, AvroFormat | ProtobufFormat) and "bytes " in reason
    ), reason


def test_each_type_is_there_with_something_taken_and_something_refused() -> None:
    for title, _, lines in forms.cases():
        if title.startswith("Debezium"):
            continue
        for kind in forms.IN_JSON:
            outcomes = {forms.outcome(form, record)[0] for k, _, form, record in lines if k == kind}
            assert outcomes >= ({True} if (title, kind) in ALL_TAKEN else {True, False}), (title, kind)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.integers())


@given(st.sampled_from(list(forms.IN_JSON)), VALUES)
def test_any_value_can_be_explained_and_a_long_one_is_shortened(kind: str, value: object) -> None:
    reason = explained("c", parse_type(kind), value, "it is wrong")
    assert reason.startswith("column 'c': it is wrong")
    assert len(reason) < 250
    assert len(shown_value(value)) <= 200
    assert what_to_do(parse_type(kind), value) in reason


def test_a_long_value_in_a_record_is_shortened() -> None:
    ((_, reason),) = JsonFormat({"c": "int64"}).rows([b'{"c":"' + b"x" * 100_000 + b'"}']).bad
    assert short("x" * 100_000) in reason
    assert len(reason) < 200
