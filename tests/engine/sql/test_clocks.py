"""A timestamp is an instant: offsets of texts count, and what a clock in a zone shows is not taken for one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.testing import run
from tests.examples import examples

SCHEMA = {"k": "string", "t": "timestamp", "d": "date", "j": "json", "i": "int64"}
ZONE = "Europe/Berlin"
HERE = f"timezone('{ZONE}', CAST(t AS TIMESTAMPTZ))"


def values(expression: str, rows: Sequence[dict[str, object]]) -> list[object]:
    app = App("p")
    app.query("q", app.source("s", schema=SCHEMA).map(y=expression))
    results = run(app, {"s": [{**dict.fromkeys(SCHEMA), **row} for row in rows]})
    assert not results.dead_letters, results.dead_letters
    return [row["y"] for row in results["q"]]


def of_text(expression: str, *texts: str) -> list[object]:
    return values(expression, [{"k": text} for text in texts])


def normal(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 30))
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@st.composite
def spelled(draw: st.DrawFn) -> tuple[str, str]:
    """A text with or without an offset, as people write it; and the instant that it means."""
    moment = draw(MOMENTS)
    of = draw(st.none() | OFFSETS)
    text = moment.isoformat(
        sep=draw(st.sampled_from("T ")), timespec=draw(st.sampled_from(("seconds", "microseconds")))
    )
    if "." not in text:
        moment = moment.replace(microsecond=0)
    if of is None:
        return text + draw(st.sampled_from(("", "Z"))), normal(moment.replace(tzinfo=UTC))
    minutes = int(of.utcoffset(None) / timedelta(minutes=1))  # type: ignore[operator]
    colon = draw(st.sampled_from((":", "")))
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    short = rest == 0 and draw(st.booleans())
    told = f"{sign}{hours:02}" if short else f"{sign}{hours:02}{colon}{rest:02}"
    return text + told, normal(moment.replace(tzinfo=of))


CASTS = ("CAST(k AS TIMESTAMP)", "TRY_CAST(k AS TIMESTAMP)", "k::DATETIME", "CAST(k AS TIMESTAMPTZ)",
         "CAST(CAST(k AS TIMESTAMPTZ) AS TIMESTAMP)", "coalesce(t, CAST(k AS TIMESTAMP))")  # fmt: skip


@settings(max_examples=examples(10))
@given(st.lists(spelled(), min_size=1, max_size=20), st.sampled_from(CASTS))
def test_text_read_as_a_timestamp_is_the_instant_that_it_is_in_a_column(
    some: list[tuple[str, str]], expression: str
) -> None:
    texts, meant = zip(*some, strict=True)
    assert of_text(expression, *texts) == list(meant)
    assert values("t", [{"t": text} for text in texts]) == list(meant)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"])
def test_every_kind_of_the_engine_keeps_the_offset(kind: str) -> None:
    meant = "2025-12-31T22:00:00.000000Z"
    assert of_text(f"CAST(k AS {kind})", "2026-01-01T00:00:00+02:00") == [meant]
    assert of_text(f"CAST('2026-01-01 00:00:00+02' AS {kind})", "") == [meant]
    assert of_text(f"CAST(concat('2026-01-01 00:00:00', '+02') AS {kind})", "") == [meant]


def test_a_literal_keeps_its_offset_and_text_of_a_zone_is_of_there() -> None:
    assert of_text("TIMESTAMP '2026-01-01 00:00:00+02'", "") == ["2025-12-31T22:00:00.000000Z"]
    assert of_text(f"CAST(k || ' {ZONE}' AS TIMESTAMPTZ)", "2026-07-01 12:00:00") == ["2026-07-01T10:00:00.000000Z"]


def test_what_is_no_time_is_a_dead_letter_or_null_as_before() -> None:
    app = App("p")
    source = app.source("s", schema=SCHEMA)
    app.query("q", source.map(y="CAST(k AS TIMESTAMP)"))
    app.query("tried", source.map(y="TRY_CAST(k AS TIMESTAMP)"))
    results = run(app, {"s": [{**dict.fromkeys(SCHEMA), "k": text} for text in ("soon", None)]})
    assert [row["y"] for row in results["q"]] == [None]
    assert [row["y"] for row in results["tried"]] == [None, None]
    assert len(results.dead_letters) == 1


REFUSED = {
    "a clock time as a column": (HERE, "what a clock in a zone shows"),
    "AT TIME ZONE": (f"CAST(t AS TIMESTAMPTZ) AT TIME ZONE '{ZONE}'", "what a clock in a zone shows"),
    "cut": (f"date_trunc('day', {HERE})", "what a clock in a zone shows"),
    "moved": (f"{HERE} + INTERVAL 1 DAY", "what a clock in a zone shows"),
    "in a list": (f"[{HERE}]", "what a clock in a zone shows"),
    "out of a list": (f"[{HERE}][1]", "what a clock in a zone shows"),
    "out of a struct": (f"struct_extract({{'a': {HERE}}}, 'a')", "what a clock in a zone shows"),
    "of another type": (f"CAST({HERE} AS TIMESTAMP_MS)", "what a clock in a zone shows"),
    "chosen": (f"CASE WHEN i > 0 THEN {HERE} ELSE TIMESTAMP '2026-01-01' END", "what a clock in a zone shows"),
    "beside an instant": (f"{HERE} > t", "stands beside an instant"),
    "between instants": (f"t BETWEEN {HERE} AND make_timestamp(i)", "stands beside an instant"),
    "among instants": (f"coalesce(t, {HERE})", "stands beside an instant"),
    "from an instant": (f"(t - {HERE})::VARCHAR", "stands beside an instant"),
    "a difference": (f"date_diff('hour', t, {HERE})", "stands beside an instant"),
    "as an instant": (f"CAST({HERE} AS TIMESTAMPTZ)", "is no instant"),
    "since 1970": (f"epoch({HERE})", "epoch of a clock time"),
    "extracted since 1970": (f"extract(epoch FROM {HERE})", "epoch of a clock time"),
    "its zone": (f"strftime({HERE}, '%H:%M %z')", "does not know its zone"),
    "an instant as a clock time": (f"timezone('{ZONE}', t)", "would take an instant"),
    "a number as a clock time": (f"timezone('{ZONE}', make_timestamp(i))", "would take an instant"),
    "text as a clock time": (f"timezone('{ZONE}', CAST(k AS TIMESTAMP))", "would take an instant"),
    "text with an offset as a clock time": (f"timezone('{ZONE}', TIMESTAMP '2026-01-01 00:00+02')", "take an instant"),
    "text with an offset beside a time": ("t > '2026-01-01 00:00:00+02'", "would leave out the offset"),
    "among such": ("t IN ('2026-01-01 00:00:00Z', '2026-01-01T00:00:00+02:00')", "would leave out the offset"),
    "the latest": ("greatest(t, '2026-01-01 00:00:00 +02')", "would leave out the offset"),
    "of JSON": ("CAST(j AS TIMESTAMP)", "a CAST to TIMESTAMP takes text"),
    "of texts in a list": ("CAST([k] AS TIMESTAMP[])", "a CAST to TIMESTAMP takes text"),
    "of literals in a list": ("CAST(['2026-01-01 00:00+02'] AS TIMESTAMP[])", "a CAST to TIMESTAMP takes text"),
    "in a text": ("CAST(k AS TIMESTAMP[])", "a CAST to TIMESTAMP takes text"),
    "in a structure": ("from_json(k, '{\"a\": \"TIMESTAMP\"}').a", "take such values as VARCHAR"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_hours_wrong_is_refused_with_what_to_write(case: str) -> None:
    expression, why = REFUSED[case]
    app = App("p")
    app.query("q", app.source("s", schema=SCHEMA).map(y=expression))
    with pytest.raises(QueryError, match=why):
        run(app, {})


def test_aggregates_of_clock_times_are_clock_times() -> None:
    app = App("p")
    windows = app.source("s", schema=SCHEMA).window("1s")
    app.query("q", windows.agg(y=f"max({HERE})"))
    with pytest.raises(QueryError, match="what a clock in a zone shows"):
        run(app, {})


INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC))
ZONES = st.sampled_from((ZONE, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"))


@settings(max_examples=examples(6))
@given(st.lists(INSTANTS, min_size=1, max_size=20), ZONES)
def test_the_clock_of_a_zone_by_the_forms_that_are_taken(moments: list[datetime], zone: str) -> None:
    rows: list[dict[str, object]] = [{"t": one} for one in moments]
    here = f"timezone('{zone}', CAST(t AS TIMESTAMPTZ))"
    there = [one.astimezone(ZoneInfo(zone)) for one in moments]
    assert values(f"hour({here})", rows) == [one.hour for one in there]
    assert values(f"CAST({here} AS DATE)", rows) == [one.date().isoformat() for one in there]
    assert values(f"strftime({here}, '%Y-%m-%d %H:%M')", rows) == [one.strftime("%Y-%m-%d %H:%M") for one in there]
    assert values(f"{here} >= TIMESTAMP '2000-06-01'", rows) == [
        one.replace(tzinfo=None) >= datetime(2000, 6, 1) for one in there
    ]


WRITTEN = {
    "strptime": f"timezone('{ZONE}', strptime(k, '%d.%m.%Y %H:%M'))",
    "parts": f"timezone('{ZONE}', make_timestamp(2026, 7, 1, 12, 0, 0.0))",
    "a literal": f"timezone('{ZONE}', TIMESTAMP '2026-07-01 12:00:00')",
    "a date": f"timezone('{ZONE}', CAST(CAST('2026-07-01' AS DATE) AS TIMESTAMP)) + INTERVAL 12 HOUR",
    "the day there": f"timezone('{ZONE}', date_trunc('day', timezone('{ZONE}', TIMESTAMPTZ '2026-07-01 20:00:00Z')))"
    " + INTERVAL 12 HOUR",
}


@pytest.mark.parametrize("case", WRITTEN)
def test_what_is_written_without_a_zone_is_of_the_zone_that_is_named(case: str) -> None:
    assert of_text(WRITTEN[case], "01.07.2026 12:00") == ["2026-07-01T10:00:00.000000Z"]


def test_what_is_written_without_a_zone_is_utc_where_none_is_named() -> None:
    noon = ["2026-07-01T12:00:00.000000Z"]
    assert of_text("strptime(k, '%d.%m.%Y %H:%M')", "01.07.2026 12:00") == noon
    assert of_text("CAST(k AS TIMESTAMP)", "2026-07-01 12:00") == noon
    assert of_text("strptime(k, '%d.%m.%Y %H:%M %z')", "01.07.2026 14:00 +0200") == noon


@pytest.mark.parametrize("expression", ["t = k", "t IN (k)", "CASE t WHEN k THEN true ELSE false END"])
def test_text_that_is_read_without_a_cast_keeps_its_offset_too(expression: str) -> None:
    row = {"t": "2025-12-31T22:00:00Z", "k": "2026-01-01T00:00:00+02:00"}
    assert values(expression, [row]) == [True]
