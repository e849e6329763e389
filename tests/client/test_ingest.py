"""Rows out of CSV and JSON lines: types, times, and lines that are none."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.client.ingest import BadLine, IngestError, InputRow, open_rows, parse_stime, read_csv, read_jsonl
from borealis_py.client.rows import BadRow, RowSchema

SCHEMA = {"carrier": "string", "n": "int64", "delay": "double", "late": "bool"}
HEADER = b"carrier,n,delay,late,sched\n"


def csv_rows(text: bytes, stime: str | None = None) -> list[InputRow | BadLine]:
    return list(read_csv(io.BytesIO(HEADER + text), SCHEMA, stime))


def jsonl_rows(text: bytes, stime: str | None = None) -> list[InputRow | BadLine]:
    return list(read_jsonl(io.BytesIO(text), stime))


def bad(items: list[InputRow | BadLine]) -> BadLine:
    (found,) = [item for item in items if isinstance(item, BadLine)]
    return found


def test_csv_values_are_typed_by_the_schema_and_empty_is_null() -> None:
    first, second = csv_rows(b'"A, B",7,-1.5,true,x\n,,,,\n')
    assert first.values == {"carrier": "A, B", "n": 7, "delay": -1.5, "late": True}
    assert second.values == dict.fromkeys(SCHEMA)
    assert [(r.position, r.line, r.at_us) for r in (first, second)] == [(0, 2, None), (1, 3, None)]


@pytest.mark.parametrize(("text", "value"), [(b"1", True), (b"0", False), (b"TRUE", True), (b"False", False)])
def test_a_bool_is_spelled_in_words_or_digits(text: bytes, value: bool) -> None:
    (only,) = csv_rows(b"UA,1,2," + text + b",\n")
    assert isinstance(only, InputRow)
    assert only.values["late"] is value


def test_csv_may_start_with_a_byte_order_mark_and_end_lines_as_windows_does() -> None:
    text = b"\xef\xbb\xbfcarrier,n,delay,late\r\nUA,1,2,0\r\n"
    (only,) = read_csv(io.BytesIO(text), SCHEMA)
    assert only.values == {"carrier": "UA", "n": 1, "delay": 2.0, "late": False}
    assert only.raw == b"UA,1,2,0"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"UA,1.5,0,true,", "field `n`: '1.5' is not a whole number"),
        (b"UA,1,NA,true,", "field `delay`: 'NA' is not a number"),
        (b"UA,1,0,yes,", "field `late`: 'yes' is not true or false"),
        (b"UA,1,0", "3 fields, the header has 5"),
        (b"UA,1,0,true,x,y", "6 fields, the header has 5"),
        (b"U\xffA,1,0,true,", "not UTF-8"),
        (b"UA,1,0,true,tomorrow", "stime 'tomorrow' is neither"),
    ],
)
def test_a_bad_csv_line_is_told_with_its_number_and_text_and_the_others_keep_theirs(line: bytes, reason: str) -> None:
    good = b"UA,1,0,true,5\n"
    items = csv_rows(good + line + b"\n" + good, stime="sched")
    found = bad(items)
    assert (found.position, found.line, found.raw) == (1, 3, line)
    assert found.reason.startswith("malformed: ")
    assert reason in found.reason
    assert [(i.position, i.line) for i in items] == [(0, 2), (1, 3), (2, 4)]


def test_a_quoted_field_over_several_lines_is_one_row_and_raw_holds_all_of_it() -> None:
    items = csv_rows(b'"a\nb",x,0,true,\n"c\nd",2,0,true,\n')
    assert bad(items) == BadLine(0, 2, "malformed: field `n`: 'x' is not a whole number", b'"a\nb",x,0,true,')
    assert items[1] == InputRow(
        1, 4, {"carrier": "c\nd", "n": 2, "delay": 0.0, "late": True}, None, b'"c\nd",2,0,true,'
    )


def test_a_csv_field_over_any_limit_is_a_bad_line_and_not_the_end() -> None:
    csv.field_size_limit(131_072)  # Python's own, whatever has been read in this process
    items = csv_rows(b"x" * 8_000_000 + b",1,0,true,\nUA,1,0,true,\n")
    assert "limit" in bad(items).reason
    assert items[-1].position == 1
    assert isinstance(items[-1], InputRow)


@pytest.mark.parametrize("size", [131_072, 131_073, 1_000_000])
def test_a_csv_value_may_be_as_large_as_a_row_quoted_or_not(size: int) -> None:
    items = csv_rows(f'{"x" * size},1,0,true,\n"{"x" * size}",2,0,true,\n'.encode())
    assert [len(str(i.values["carrier"])) for i in items if isinstance(i, InputRow)] == [size, size]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_header_line_again_is_a_bad_line(mark: bytes, whole: bool) -> None:
    lines = [b"s,t\n", b"a,b\n", mark + b"s,t\n", b"s,b\n"]
    items = list(read_csv(io.BytesIO(b"".join(lines)) if whole else lines, {"s": "string", "t": "string"}))
    assert [i.values for i in items if isinstance(i, InputRow)] == [{"s": "a", "t": "b"}, {"s": "s", "t": "b"}]
    found = bad(items)
    assert (found.position, found.line, found.raw) == (1, 3, mark + b"s,t")
    why = "a byte order mark in the middle of the input" if mark else "the header line again"
    assert found.reason == f"malformed: {why}: files seem to have been put together. Leave this line out"


def test_a_byte_order_mark_in_the_middle_is_a_bad_line_and_within_a_value_part_of_it() -> None:
    text = 'x,1\n\ufeffy,2\n"a\n\ufeffb",3\n\ufeff\n'.encode()
    items = list(read_csv(io.BytesIO(b"s,n\n" + text), {"s": "string", "n": "int64"}))
    assert [i.values["s"] for i in items if isinstance(i, InputRow)] == ["x", "a\n\ufeffb"]
    assert [i.line for i in items if isinstance(i, BadLine)] == [3, 6]


@pytest.mark.parametrize("whole", [True, False])
def test_values_that_mean_null_are_null_also_as_times(whole: bool) -> None:
    lines = [HEADER, b'NA,"NA",NULL,NA,NULL\n', b"na,1,2,true,5\n"]
    source = io.BytesIO(b"".join(lines)) if whole else lines
    first, second = read_csv(source, SCHEMA, "sched", nulls=["NA", "NULL"])
    assert isinstance(first, InputRow)
    assert isinstance(second, InputRow)
    assert (first.values, first.at_us) == (dict.fromkeys(SCHEMA), None)
    assert (second.values["carrier"], second.at_us) == ("na", 5)


def test_json_lines_take_no_null_markers(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    with (
        pytest.raises(IngestError, match="null markers such as 'NA' are for CSV; JSON lines have null"),
        open_rows(str(tmp_path / "a.jsonl"), {"n": "int64"}, nulls=["NA"]),
    ):
        pass


def test_a_column_that_is_not_there_is_told_at_once_with_the_nearest() -> None:
    with pytest.raises(IngestError, match=r"no column 'carrier'; it has carier, n\. Did you mean 'carier'\?"):
        read_csv(io.BytesIO(b"carier,n\n"), {"carrier": "string"})
    with pytest.raises(IngestError, match=r"no column 'schd'.*'sched'"):
        read_csv(io.BytesIO(HEADER), SCHEMA, "schd")
    with pytest.raises(IngestError, match="the input is empty"):
        read_csv(io.BytesIO(b""), SCHEMA)
    with pytest.raises(IngestError, match="the first line is blank"):
        read_csv(io.BytesIO(b"\n" + HEADER), SCHEMA)
    for text, by in ((b"carrier;n", "semicolons"), (b"carrier\tn", "tabs"), (b"carrier|n", "vertical bars")):
        with pytest.raises(IngestError, match=f"is separated by {by}: write commas"):
            read_csv(io.BytesIO(text + b"\n"), {"n": "int64"})


def test_a_column_that_is_there_twice_is_refused_if_it_is_read() -> None:
    text = b"n,x,n,x\n1,2,3,4\n"
    with pytest.raises(IngestError, match="2 columns 'n': which one is meant"):
        read_csv(io.BytesIO(text), {"n": "int64"})
    with pytest.raises(IngestError, match="2 columns 'n'"):
        read_csv(io.BytesIO(b"carrier," + text), {"carrier": "string"}, "n")
    (only,) = read_csv(io.BytesIO(b"carrier,x,x\nUA,2,4\n"), {"carrier": "string"})
    assert only.values == {"carrier": "UA"}


def test_json_lines_may_start_with_a_byte_order_mark_and_end_as_windows_ends_them() -> None:
    items = jsonl_rows(b'\xef\xbb\xbf{"n": 1}\r\n{"n": 2}\r\n')
    assert [i.values for i in items if isinstance(i, InputRow)] == [{"n": 1}, {"n": 2}]
    assert bad(jsonl_rows(b'{"n": 1}\n\xef\xbb\xbf{"n": 2}\n')).line == 2


def test_json_lines_keep_their_values_and_line_numbers() -> None:
    items = jsonl_rows(b'{"n": 1, "x": [2]}\n\n  \r\n{"n": null}', None)
    assert [(i.position, i.line, i.values) for i in items if isinstance(i, InputRow)] == [
        (0, 1, {"n": 1, "x": [2]}),
        (3, 4, {"n": None}),
    ]


@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"n": NaN}', b"7", b'{"n": "\xff"}', b'{"a":1} {"a":2}'])
def test_a_line_that_is_no_json_object_is_told_and_the_next_one_is_read(line: bytes) -> None:
    items = jsonl_rows(line + b"\n" + b'{"n": 1}\n')
    found = bad(items)
    assert (found.position, found.line, found.raw) == (0, 1, line)
    assert found.reason.startswith("malformed: ")
    assert isinstance(items[1], InputRow)


def test_the_stime_column_of_json_lines_may_be_missing_in_a_row() -> None:
    items = jsonl_rows(b'{"t": 5}\n{"t": "1970-01-01T00:00:01"}\n{}\n{"t": null}\n{"t": 1.5}\n', "t")
    assert [i.at_us for i in items if isinstance(i, InputRow)] == [5, 1_000_000, None, None]
    assert "1.5" in bad(items).reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-02 00:00:00", 86_400_000_000),
        ("1970-01-01T00:00:00.000001", 1),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("2013-01-01T05:15:00", 1_357_017_300_000_000),
        (" 42 ", 42),
        ("-1", -1),
        ("", None),
        (None, None),
        (7, 7),
    ],
)
def test_times_are_microseconds_or_iso_and_without_a_zone_utc(text: object, expected: int | None) -> None:
    assert parse_stime(text) == expected


@pytest.mark.parametrize("value", [1.5, True, "yesterday", [1], "1e3", "12:00"])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="neither"):
        parse_stime(value)


@given(st.datetimes())
def test_iso_times_are_exact_to_the_microsecond(moment) -> None:
    import datetime

    parsed = parse_stime(moment.isoformat())
    assert parsed is not None
    assert datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=parsed) == moment


@given(st.lists(st.tuples(st.text(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))))
def test_what_python_writes_as_csv_is_read_back(rows: list[tuple[str, int, float]]) -> None:
    import csv

    rows = [(s.replace("\r", " "), n, d) for s, n, d in rows]  # a bare CR ends no line of a file
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("s", "n", "d"), *rows])
    items = list(read_csv(io.BytesIO(out.getvalue().encode()), {"s": "string", "n": "int64", "d": "double"}))
    assert [(i.values["s"] or "", i.values["n"], i.values["d"]) for i in items if isinstance(i, InputRow)] == rows
    assert [i.position for i in items] == list(range(len(rows)))


def test_files_are_opened_by_their_names_also_packed(tmp_path: Path) -> None:
    line = json.dumps({"n": 1}).encode() + b"\n"
    (tmp_path / "a.jsonl").write_bytes(line)
    (tmp_path / "b.csv").write_bytes(b"n\n1\n")
    (tmp_path / "c.ndjson.gz").write_bytes(gzip.compress(line))
    (tmp_path / "d.txt").write_bytes(line)
    for name, chosen in (("a.jsonl", None), ("b.csv", None), ("c.ndjson.gz", None), ("d.txt", "jsonl")):
        with open_rows(str(tmp_path / name), {"n": "int64"}, format=chosen) as rows:
            assert [r.values for r in rows if isinstance(r, InputRow)] == [{"n": 1}]
    with (
        pytest.raises(IngestError, match="say --format csv or --format jsonl"),
        open_rows(str(tmp_path / "d.txt"), {"n": "int64"}),
    ):
        pass
    with pytest.raises(IngestError, match="unknown format 'xml'"), open_rows("a", {"n": "int64"}, format="xml"):
        pass
    with pytest.raises(IngestError, match="cannot be read"), open_rows(str(tmp_path / "no.csv"), {"n": "int64"}):
        pass


def test_what_is_wrong_with_a_whole_input_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    for text, why in (("", "the input is empty"), ("m\n1\n", "the CSV header has no column 'n'")):
        file.write_text(text)
        with pytest.raises(IngestError, match=f"a.csv: {why}"), open_rows(str(file), {"n": "int64"}):
            pass


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b'{"n": 1}\n'))
    monkeypatch.setattr("sys.stdin", stdin)
    with open_rows("-", {"n": "int64"}) as rows:
        assert [r.values for r in rows if isinstance(r, InputRow)] == [{"n": 1}]
    assert not stdin.closed


@pytest.mark.parametrize("text", ["1_000", "1_0.5", "0x10", "１２", "1e", ".", "--1", "1 2"])
@pytest.mark.parametrize("kind", ["int64", "double"])
def test_csv_numbers_are_not_those_of_pythons_source(text: str, kind: str) -> None:
    (item,) = read_csv([b"n\n", f"{text}\n".encode()], {"n": kind})
    assert isinstance(item, BadLine)
    assert "field `n`" in item.reason


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), (" -1.5 ", -1.5), (".5", 0.5), ("2.", 2.0), ("1E-3", 0.001)])
def test_csv_doubles(text: str, value: float) -> None:
    (item,) = read_csv([b"n\n", f"{text}\n".encode()], {"n": "double"})
    assert isinstance(item, InputRow)
    assert item.values == {"n": value}


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity"])
def test_csv_doubles_that_are_not_finite_are_refused_as_such(text: str) -> None:
    (item,) = read_csv([b"n\n", f"{text}\n".encode()], {"n": "double"})
    assert isinstance(item, InputRow)
    with pytest.raises(BadRow, match="not a number that JSON can carry"):
        RowSchema({"n": "double"}).encode(item.values)


def test_digits_of_any_number_are_looked_at_once() -> None:
    bad, good = csv_rows(b"UA,1," + b"1" * 120_000 + b"x,true,x\nUA,1,1,true,x\n")  # else it takes minutes
    assert isinstance(bad, BadLine)
    assert isinstance(good, InputRow)
