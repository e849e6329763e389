"""Lines of CSV: what fits the schema becomes rows, together or one by one, else a reason."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.formats.base import FormatRows
from borealis_py.ingress.formats.delimited import CsvFormat

COLUMNS = {"id": "int64", "k": "string", "x": "double", "b": "bool", "m": "decimal(12,2)", "t": "timestamp",
           "d": "date", "y": "binary", "j": "json"}  # fmt: skip
read = CsvFormat(COLUMNS, tuple(COLUMNS), ",").rows


def said(found: FormatRows) -> list[object]:
    """What became of each value, in order."""
    what: dict[int, object] = dict(zip(found.at, found.rows.to_pylist(), strict=True)) | dict(found.bad)
    return [what[i] for i in sorted(what)]


def test_a_line_becomes_a_row_whose_numbers_keep_their_digits() -> None:
    found = read(
        [b'7,"a,""b""",3,true,1234567890.1,2026-01-01T01:00:00+01:00,2026-01-01,AP8=,"{""a"" : 1.10}"', b",,,,,,,,"]
    )
    assert said(found) == [
        {"id": 7, "k": 'a,"b"', "x": 3.0, "b": True, "m": Decimal("1234567890.10"), "t": datetime(2026, 1, 1),
         "d": date(2026, 1, 1), "y": b"\x00\xff", "j": '{"a":1.10}'},
        dict.fromkeys(COLUMNS),
    ]  # fmt: skip


def test_values_have_the_places_of_the_fields_and_what_no_column_names_is_ignored() -> None:
    form = CsvFormat({"euros": "double", "id": "int64"}, ("id", "note", "euros"), ";")
    assert said(form.rows([b"1;x;2.5", b'2;"y;";3;more', b"3", b"4;z;5\n", b"5;z;6\r\n"])) == [
        {"euros": 2.5, "id": 1}, {"euros": 3.0, "id": 2}, {"euros": None, "id": 3}, {"euros": 5.0, "id": 4},
        {"euros": 6.0, "id": 5},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1.5", "column 'id': '1.5' is not a whole number"),
        (b"9223372036854775808", "column 'id'"),
        (b"1_0", "column 'id': '1_0' is not a whole number"),
        (b"1,a,nan", "column 'x': 'nan' is not finite"),
        (b"1,a,1e999", "column 'x': '1e999' is not finite"),
        (b"1,a,x", "column 'x': 'x' is not a number"),
        (b"1,a,1,perhaps", "column 'b': 'perhaps' is not true or false"),
        (b"1,a,1,1,1.005", "column 'm': it has more than 2 digits after the point"),
        (b"1,a,1,1,1,1767225600", "column 't': '1767225600' is a number, whose unit nobody knows"),
        (b"1,a,1,1,1,,01.01.2026", "column 'd': '01.01.2026' is not a date"),
        (b"1,a,1,1,1,,,%", "column 'y': '%' is not base64"),
        (b"1,a,1,1,1,,,,{", "column 'j': not JSON"),
        (b"", "an empty line"),
        (b"\n", "an empty line"),
        (b"1,a\n2,b", "several lines"),
        (b'1,"a\n', "not CSV"),
        (b'1,"a"b', "not CSV"),
        (b"1,\xff", "not UTF-8: invalid start byte"),
        (b"1,a\0", "not CSV: it has a NUL character"),
    ],
)
def test_a_line_that_cannot_be_used_costs_itself_alone(line: bytes, reason: str) -> None:
    found = read([b"1", line, b"2"])
    assert (found.rows.column("id").to_pylist(), list(found.at)) == ([1, 2], [0, 2])
    ((at, why),) = found.bad
    assert at == 1
    assert why.startswith(reason)


def test_a_quotation_mark_that_is_not_closed_takes_nothing_of_the_next_record() -> None:
    found = CsvFormat({"a": "int64", "b": "string"}, ("a", "b"), ",").rows([b'1,"a', b'b"\n3,4'])
    assert list(found.at) == []
    assert [at for at, _ in found.bad] == [0, 1]


@pytest.mark.parametrize("size", [1_000, 131_072, 131_073, 1_000_000, 8_000_000])
@pytest.mark.parametrize("end", ["", ',"b"'])
def test_a_value_may_be_of_any_size_in_quotation_marks_and_without(size: int, end: str) -> None:
    csv.field_size_limit(131_072)  # Python's own, whatever has been read in this process
    form = CsvFormat({"n": "int64", "s": "string"}, ("n", "s", "t"), ",")
    long = "x" * size
    assert said(form.rows([f"1,{long}{end}".encode(), f'2,"{long}"{end}'.encode(), b'3,"a"'])) == [
        {"n": 1, "s": long}, {"n": 2, "s": long}, {"n": 3, "s": "a"},
    ]  # fmt: skip


def test_a_header_line_is_no_row_wherever_it_comes() -> None:
    form = CsvFormat({"s": "string", "t": "string"}, ("s", "x", "t"), ";")
    lines = [b"s;x;t", b"a;b;c", b'"s";x;t\r\n', BOM_UTF8 + b"s;x;t", b"s;x;c"]
    found = form.rows(lines)
    assert found.rows.to_pylist() == [{"s": "a", "t": "c"}, {"s": "s", "t": "c"}]
    assert list(found.at) == [1, 4]
    assert found.bad == [(i, "the names of the fields, no values: leave the header line out") for i in (0, 2, 3)]


@pytest.mark.parametrize("line", [b"NA,NA,NA,NA,NA,NA,NA,NA,NA", b'-,"NA",,-,"-",NA,,-,NA'])
def test_values_that_mean_null_are_null_in_every_type_quoted_or_not(line: bytes) -> None:
    form = CsvFormat(COLUMNS, tuple(COLUMNS), ",", ["NA", "-"])
    kept = b"7,na,,,,,,,"
    assert said(form.rows([line, kept])) == [dict.fromkeys(COLUMNS), {**dict.fromkeys(COLUMNS), "id": 7, "k": "na"}]
    ((at, why),) = read([line]).bad
    assert (at, why.partition(":")[0]) == (0, "column 'id'")


PIECES = st.sampled_from(
    ["1", "-2", "007", " 3", "1.5", "1e5", "nan", "x", "", "true", "False", '"q"', '"', "\n", "\r\n", "ä", ",", "²"]
)


@given(
    st.lists(st.lists(PIECES, max_size=6).map(lambda some: ",".join(some).encode()) | st.binary(max_size=6), max_size=5)
)
def test_lines_are_decoded_together_as_they_are_one_by_one(lines: list[bytes]) -> None:
    form = CsvFormat({"id": "int64", "x": "double", "k": "string", "b": "bool"}, ("id", "x", "k", "b"), ",")
    found = form.rows(lines)
    assert sorted([*found.at, *(at for at, _ in found.bad)]) == list(range(len(lines)))
    assert said(found) == [said(form.rows([line]))[0] for line in lines]
