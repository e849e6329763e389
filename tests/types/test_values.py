"""Every value has one normal form in JSON; what a publisher takes is made of it, what a source reads is it alone."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from borealis_py.types.spelling import parse_type
from borealis_py.types.values import JSON_LEVELS_MAX, Misfit, Rules, nesting, normal_json, rules, sent


def of(spelling: str) -> Rules:
    found = rules(parse_type(spelling))
    assert found is not None
    return found


def form(rule: Rules, value: object) -> Any:
    made = sent(rule, value)
    return bytes(made) if isinstance(made, msgspec.Raw) else made


@st.composite
def decimals(draw: st.DrawFn) -> tuple[int, int, Decimal]:
    """Precision, scale and a value of theirs, with a scale of its own where that changes nothing."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    unscaled = draw(st.integers(1 - 10**precision, 10**precision - 1))
    value = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    return precision, scale, value


@given(decimals())
@example((1, 0, Decimal("-0")))
@example((38, 38, Decimal("0E-38")))
def test_a_decimal_has_all_its_digits_and_no_other(made: tuple[int, int, Decimal]) -> None:
    precision, scale, value = made
    rule = of(f"decimal({precision},{scale})")
    text = form(rule, value)
    whole, _, after = text.lstrip("-").partition(".")
    assert (len(after), whole == "0" or whole[0] != "0") == (scale, True)
    read = rule.read(text)
    assert read == value
    assert rule.said(read) == text
    assert form(rule, str(value)) == form(rule, f"{value:f}") == text
    assert form(rule, msgspec.Raw(str(value).encode())) == text, "a number in JSON, read as text"
    assert form(rule, msgspec.Raw(b'"%s"' % text.encode())) == text


@given(decimals(), st.integers(0, 38))
def test_equal_decimals_are_one_key_whatever_digits_their_columns_have(
    made: tuple[int, int, Decimal], more: int
) -> None:
    precision, scale, value = made
    wider = of(f"decimal({min(38, precision + more)},{min(38 - precision + scale, scale + more)})")
    other = wider.read(form(wider, value))
    assert wider.key(other) == of(f"decimal({precision},{scale})").key(value)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_never_rounded(value: Decimal) -> None:
    try:
        text = form(of("decimal(10,3)"), value)
    except Misfit:
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        kept = "".join(map(str, digits)).rstrip("0")
        gone = len(digits) - len(kept)
        assert exponent + gone < -3 or value.adjusted() >= 7
    else:
        assert Decimal(text) == value


@given(st.datetimes(timezones=st.just(UTC) | st.integers(-1400, 1400).map(lambda m: timezone(timedelta(minutes=m)))))
@example(datetime.min.replace(tzinfo=UTC))
@example(datetime.max.replace(tzinfo=UTC))
def test_a_timestamp_is_the_moment_in_utc(moment: datetime) -> None:
    rule = of("timestamp")
    try:
        text = form(rule, moment)
    except Misfit:
        assert moment - timedelta(days=1) < datetime.min.replace(tzinfo=UTC) or moment.year == 9999
        return
    assert (len(text), text[10], text[-1]) == (27, "T", "Z")
    read = rule.read(text)
    assert isinstance(read, datetime)
    assert read.replace(tzinfo=UTC) == moment
    assert rule.said(read) == text
    assert form(rule, moment.isoformat()) == text == form(rule, msgspec.Raw(json.dumps(moment.isoformat()).encode()))


@given(st.datetimes(), st.datetimes())
def test_timestamps_are_in_the_order_of_their_forms(one: datetime, other: datetime) -> None:
    rule = of("timestamp")
    assert (one < other) == (rule.said(one) < rule.said(other))


@given(st.dates())
def test_a_date_is_its_iso_form(day: date) -> None:
    rule = of("date")
    assert rule.read(form(rule, day)) == day
    assert form(rule, day) == form(rule, day.isoformat()) == day.isoformat()


@given(st.binary())
def test_bytes_are_base64(value: bytes) -> None:
    rule = of("binary")
    assert form(rule, value) == base64.b64encode(value).decode() == form(rule, memoryview(value))
    assert rule.read(form(rule, value)) == value == rule.from_csv(form(rule, value))


texts = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner),
    max_leaves=12,
)


@given(JSON.filter(lambda value: value is not None), st.sampled_from([None, 0, 3]), st.booleans())
def test_json_is_its_text_without_white_space(value: Any, indent: int | None, escaped: bool) -> None:
    written = json.dumps(value, indent=indent, ensure_ascii=escaped).encode()
    text = form(of("json"), msgspec.Raw(written))
    assert text == json.dumps(value, ensure_ascii=escaped, separators=(",", ":")).encode()
    assert normal_json(text) == text
    assert form(of("json"), value) == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def test_a_json_value_is_nested_as_deeply_as_a_row_allows() -> None:
    deepest = b"[" * JSON_LEVELS_MAX + b"]" * JSON_LEVELS_MAX
    assert normal_json(deepest) == deepest
    assert normal_json(b'{"a":' + deepest[1:-1] + b"}")
    with pytest.raises(Misfit, match="nested more than 99 levels deep"):
        normal_json(b"[" + deepest + b"]")
    with pytest.raises(Misfit, match="nested more than 99 levels deep"):
        form(of("json"), json.loads(b"[" + deepest + b"]"))
    assert normal_json(json.dumps("[" * 500).encode()), "brackets in a text are none"


@pytest.mark.parametrize(
    ("text", "depth"), [(b"1", 0), (b"[]", 1), (b'{"a":[{"]":"["}]}', 3), (rb'["\"[[", []]', 2), (rb'["\\", [[]]]', 3)]
)
def test_nesting_counts_brackets_outside_of_strings(text: bytes, depth: int) -> None:
    assert nesting(text) == depth


@pytest.mark.parametrize(
    ("spelling", "value", "reason"),
    [
        ("decimal(5,2)", 1.5, "a float holds no decimal fraction exactly"),
        ("decimal(5,2)", True, "a value of type bool is no decimal"),
        ("decimal(5,2)", Decimal("NaN"), "NaN is no number"),
        ("decimal(5,2)", Decimal("Infinity"), "Infinity is no number"),
        ("decimal(5,2)", Decimal("1E+999999"), "more than 3 digits before the point"),
        ("decimal(5,2)", 10**400, "more than 3 digits before the point"),
        ("decimal(5,2)", Decimal("1E-999999"), "more than 2 digits after the point, and none is cut off"),
        ("decimal(5,2)", "1,5", "'1,5' is no decimal number"),
        ("decimal(5,2)", "1_0", "'1_0' is no decimal number"),
        ("decimal(5,2)", "\uff11", "is no decimal number"),
        ("decimal(5,2)", "", "'' is no decimal number"),
        ("decimal(5,2)", "1" * 501, "is no decimal number"),
        ("decimal(5,2)", msgspec.Raw(b"true"), "'true' is no decimal number"),
        ("decimal(5,2)", msgspec.Raw(b'{"a":1}'), "is no decimal number"),
        ("timestamp", datetime(2026, 1, 1), "a datetime without a time zone may be of any place"),
        ("timestamp", date(2026, 1, 1), "a value of type date is no timestamp"),
        ("timestamp", 1_795_274_726, "a value of type int is no timestamp"),
        ("timestamp", "1795274726000000", "is a number, whose unit nobody knows"),
        ("timestamp", "yesterday", "'yesterday' is no ISO 8601 date-time"),
        ("timestamp", "2026-02-30T00:00:00Z", "is no ISO 8601 date-time"),
        ("timestamp", msgspec.Raw(b"1795274726"), "1795274726 is no text; of a number nobody knows the unit"),
        ("date", datetime(2026, 1, 1, tzinfo=UTC), "a datetime is no date: give .date() of it"),
        ("date", "20260101", "'20260101' is not a date such as"),
        ("date", "2026-02-30", "'2026-02-30' is not a date such as"),
        ("date", 5, "a value of type int is no date"),
        ("binary", "abc", "give bytes; encode() text"),
        ("binary", [1, 2], "a value of type list is no binary value"),
        ("binary", msgspec.Raw(b'"AP8"'), "'AP8' is not base64"),
        ("binary", msgspec.Raw(b'"AP9="'), "'AP9=' is not base64"),
        ("binary", msgspec.Raw(b'"\xc3\xbc"'), "'\u00fc' is not base64"),
        ("json", {"a": float("nan")}, "a value of type dict cannot be written as JSON"),
        ("json", {1, 2}, "a value of type set cannot be written as JSON"),
        ("json", "\ud800", "cannot be written as JSON"),
        ("json", msgspec.Raw(b'"\\ud800"'), "not JSON"),
        ("json", msgspec.Raw(b'"\xff"'), "not JSON"),
        ("json", msgspec.Raw(b"1e400"), "not JSON: Number out of range"),
        ("json", msgspec.Raw(b"[1,]"), "not JSON"),
        ("json", msgspec.Raw(b""), "not JSON"),
    ],
)
def test_what_a_type_does_not_have_is_refused_with_the_reason(spelling: str, value: object, reason: str) -> None:
    with pytest.raises(Misfit) as told:
        form(of(spelling), value)
    assert reason in str(told.value)


@pytest.mark.parametrize(
    ("spelling", "text"),
    [
        ("decimal(5,2)", "1"), ("decimal(5,2)", "1.5"), ("decimal(5,2)", "01.50"), ("decimal(5,2)", "+1.50"),
        ("decimal(5,2)", "-0.00"), ("decimal(5,2)", "1000.00"), ("decimal(5,2)", "1.50\n"), ("decimal(5,0)", "1."),
        ("decimal(2,2)", "1.00"), ("decimal(2,2)", ".10"), ("decimal(5,2)", "\u0661.50"),
        ("timestamp", "2026-01-01T00:00:00Z"), ("timestamp", "2026-01-01 00:00:00.000000Z"),
        ("timestamp", "2026-01-01T00:00:00.000000+00:00"), ("timestamp", "2026-01-01T24:00:00.000000Z"),
        ("timestamp", "2026-02-29T00:00:00.000000Z"), ("timestamp", "0000-01-01T00:00:00.000000Z"),
        ("timestamp", "2026-01-01T00:00:00.000000Z\n"), ("timestamp", "2026-01-01T00:00:60.000000Z"),
        ("date", "2026-1-1"), ("date", "2026-02-29"), ("date", "0000-01-01"), ("date", "2026-W01-1"),
        ("binary", "AP8"), ("binary", "AP9="), ("binary", "AP 8="), ("binary", "-_8="), ("binary", "AP8=\n"),
    ],
)  # fmt: skip
def test_a_source_reads_the_normal_form_alone(spelling: str, text: str) -> None:
    with pytest.raises(Misfit):
        of(spelling).read(text)


def test_null_is_no_value_of_any_type() -> None:
    for spelling in ("decimal(5,2)", "timestamp", "date", "binary", "json"):
        assert form(of(spelling), None) is None
        assert form(of(spelling), msgspec.Raw(b"null")) is None
    assert of("json").read(msgspec.Raw(b"null")) is None


def test_what_follows_the_microseconds_is_cut_off() -> None:
    assert form(of("timestamp"), "2026-01-01T00:00:00.123456789Z") == "2026-01-01T00:00:00.123456Z"
    assert form(of("timestamp"), "2026-01-01 01:00") == "2026-01-01T01:00:00.000000Z", "UTC where no zone is named"
    assert form(of("timestamp"), "2026-01-01") == "2026-01-01T00:00:00.000000Z"
