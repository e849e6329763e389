"""How a value becomes a row's time: the same in topics, tables, files, publishers and tests. The page's table of it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.client.ingest import BadLine, read_csv, read_jsonl
from borealis_py.query.errors import QueryError
from borealis_py.query.times import NoTime, TimeForm, before_1970, time_form
from borealis_py.testing import World, run
from borealis_py.types.times import moment

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "topics.md"
US = 1_767_225_600_500_000
"""2026-01-01T00:00:00.5Z."""
WHOLE = US // 1_000_000 * 1_000_000


@dataclass(frozen=True)
class Case:
    """A value as JSON has it, the column's type, what else is said, and its time in microseconds; None: none."""

    value: Any
    kind: str
    more: dict[str, str] = field(default_factory=dict)
    us: int | None = None
    why: str = ""


TAKEN = [
    Case("2026-01-01T00:00:00.5Z", "timestamp", us=US),
    Case("2026-01-01 01:00:00.5+01:00", "timestamp", us=US),
    Case("2026-01-01t00:00:00.5z", "timestamp", us=US),
    Case("2026/01/01 00:00:00.500", "timestamp", us=US),
    Case("2026-01-01 00:00:00.500 UTC", "timestamp", us=US),
    Case("2026-01-01 00:00:00.5 +0000 UTC", "timestamp", us=US),
    Case("2026-01-01T01:00:00.5+01:00[Europe/Berlin]", "timestamp", us=US),
    Case("2026-01-01T01:00:00.5[Europe/Berlin]", "timestamp", us=US),
    Case("Thu, 01 Jan 2026 00:00:00 GMT", "timestamp", us=WHOLE),
    Case("2026-01-01", "date", us=WHOLE),
    Case(1767225600500000, "int64", us=US),
    Case(1767225600500, "int64", {"stime_unit": "ms"}, US),
    Case(1767225600.5, "double", {"stime_unit": "s"}, US),
    Case("1767225600.5", "decimal(18,3)", {"stime_unit": "s"}, US),
    Case("1767225600500", "string", {"stime_unit": "ms"}, US),
    Case("01.01.2026 00:00", "string", {"stime_format": "%d.%m.%Y %H:%M"}, WHOLE),
    Case("20260101", "string", {"stime_format": "%Y%m%d"}, WHOLE),
    Case("01/Jan/2026:01:00:00 +0100", "string", {"stime_format": "%d/%b/%Y:%H:%M:%S %z"}, WHOLE),
]
REFUSED = [
    Case(1767225600, "int64", why='looks like seconds and is read as microseconds: set stime_unit="s"'),
    Case(1767225600.5, "double", why='looks like seconds and is read as microseconds: set stime_unit="s"'),
    Case("1767225600500", "string", why='looks like milliseconds and is read as microseconds: set stime_unit="ms"'),
    Case(20260101, "int64", why="looks like the date 2026-01-01"),
    Case("20260101120000", "string", why="looks like the date 2026-01-01"),
    Case("01/02/2026 00:00", "string", why="neither integer microseconds nor an ISO 8601 date-time"),
    Case("2026-01-01 00:00 CST", "string", why="neither integer microseconds nor an ISO 8601 date-time"),
    Case("Fri, 01 Jan 2026 00:00:00 GMT", "string", why="that day was a Thu"),
    Case("2026-10-25T02:30:00[Europe/Berlin]", "string", why="had this time twice"),
    Case("2026-03-29T02:30:00[Europe/Berlin]", "string", why="had this time never"),
    Case("2026-01-01T00:00:00[Europe/Brlin]", "string", why="knows no time zone 'Europe/Brlin'"),
    Case("2026-01-01 00:00:00 +01:00 UTC", "string", why="names two zones"),
    Case("1.1.26", "string", {"stime_format": "%d.%m.%Y"}, why="is not as the format '%d.%m.%Y' says"),
    Case("1958-03-29T00:00:00Z", "timestamp", why="times of rows begin after 1970-01-01"),
    Case(0, "int64", why="times of rows begin after 1970-01-01"),
]


def row(case: Case) -> str:
    """A case in the page's table."""
    said = ", ".join(f'{name}="{value}"' for name, value in case.more.items())
    told = "taken" if case.us is not None else f"refused: {case.why}"
    return f"| `{json.dumps(case.value)}` | `{case.kind}` | {f'`{said}`' if said else ''} | {told} |"


def test_the_page_has_what_is_taken_and_what_is_refused() -> None:
    """If this fails, paste what it expects into the page."""
    begin, end = "| value in JSON | column | besides | |\n|---|---|---|---|\n", "\n\n"
    text = PAGE.read_text()
    assert begin in text
    assert text.split(begin)[1].split(end)[0].split("\n") == [row(case) for case in [*TAKEN, *REFUSED]]


def topic_rows(case: Case, table: bool = False) -> tuple[list[int], list[str]]:
    app = App("p")
    how: dict[str, Any] = {"stime": "at", "topic": "t", "partitions": 1, **case.more}
    if table:
        changes = app.table("t", key="id", schema={"id": "int64", "at": case.kind}, **how)
        app.query("q", app.source("s", schema={"id": "int64"}).lookup(changes, on="id").filter('"at" IS NOT NULL'))
        results = run(app, {"t": [{"id": 1, "at": case.value}], "s": [("2030-01-01", {"id": 1})]})
        return [0 for _ in results["q"]], [one.reason for one in results.dead_letters]
    app.query("q", app.topic("t", schema={"at": case.kind}, **how).map(s="stime"))
    results = run(app, {"t": [{"at": case.value}]})
    return [one["s"] for one in results["q"]], [one.reason for one in results.dead_letters]


def named(case: Case) -> str:
    return f"{case.value}-{case.kind}"


@pytest.mark.parametrize("case", [*TAKEN, *REFUSED], ids=named)
def test_in_a_topic_and_in_a_table(case: Case) -> None:
    rows, reasons = topic_rows(case)
    assert rows == ([] if case.us is None else [case.us])
    assert len(reasons) == (case.us is None)
    assert all(case.why in reason for reason in reasons)
    assert len(topic_rows(case, table=True)[0]) == (case.us is not None)


@pytest.mark.parametrize("case", [*TAKEN, *REFUSED], ids=named)
def test_in_run_in_a_world_and_in_files(case: Case) -> None:
    """The column's type is not asked for: a text may be in a column of any type."""
    app = App("p")
    app.query("q", app.source("s", schema={"x": "int64"}).map(s="stime"))
    results = run(app, {"s": [{"x": 1, "at": case.value}]}, stime="at", **case.more)  # type: ignore[arg-type]
    assert [one["s"] for one in results["q"]] == ([] if case.us is None else [case.us])
    assert all(case.why in one.reason for one in results.dead_letters)
    form = time_form(case.more.get("stime_unit"), case.more.get("stime_format"), "unit", "format")
    lines = json.dumps({"x": 1, "at": case.value}).encode() + b"\n"
    text = case.value if isinstance(case.value, str) else json.dumps(case.value)
    for (item,) in (
        read_jsonl(io.BytesIO(lines), "at", {"x": "int64"}, form),
        read_csv(io.BytesIO(f'x,at\n1,"{text}"\n'.encode()), {"x": "int64"}, "at", form),
    ):
        if isinstance(item, BadLine):
            assert case.us is None
            assert case.why in item.reason
        else:
            assert item.at_us is not None
            assert item.at_us == case.us if case.us is not None else case.why in before_1970(item.at_us)


@pytest.mark.parametrize(("more", "us"), [({"stime_unit": "s"}, WHOLE), ({}, None)])
def test_in_a_world(more: dict[str, str], us: int | None) -> None:
    app = App("p")
    app.query("q", app.source("s", schema={"x": "int64"}).map(s="stime"))
    with World(app) as world:
        world.send("s", {"x": 1, "at": WHOLE // 1_000_000 + 5}, stime="at", **more)  # type: ignore[arg-type]
        world.advance("10s")
        world.end()
        assert [one.value["s"] for one in world.corrected("q")] == ([] if us is None else [us + 5_000_000])
        assert len(world.dead_letters()) == (us is None)


@given(st.integers(-(2**53), 2**53), st.sampled_from(("s", "ms", "us", "ns")))
def test_a_number_in_a_named_unit_is_what_it_is(number: int, unit: str) -> None:
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert TimeForm(unit, named=True).us(number) == number * 1_000_000 // per_s
    assert TimeForm(unit, named=True).us(str(number)) == number * 1_000_000 // per_s


@given(st.integers(946_684_800_000_000, 4_102_444_799_999_999))
def test_seconds_with_a_fraction_keep_their_microseconds(us: int) -> None:
    assert TimeForm("s").us(us / 1_000_000) == us
    assert TimeForm("s").us(f"{us // 1_000_000}.{us % 1_000_000:06}") == us


MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2037, 12, 31))
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(MOMENTS, OFFSETS)
def test_all_spellings_of_a_time_are_the_same_time(naive: datetime, zone: timezone) -> None:
    meant = naive.replace(microsecond=0, tzinfo=zone)
    iso = meant.isoformat()
    spellings = [iso, iso.replace("T", " "), iso.lower(), iso[:10].replace("-", "/") + iso[10:], format_datetime(meant),
                 f"{iso[:19]} {iso[19:]}", f"{iso}[Europe/Berlin]", meant.strftime("%Y-%m-%d %H:%M:%S %z")]  # fmt: skip
    assert {moment(one) for one in spellings} == {meant}


@given(MOMENTS, st.sampled_from(("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")))
def test_a_time_of_a_zone_alone_is_taken_where_it_was_once(naive: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    instants = {naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    once = [one for one in instants if one.astimezone(zone).replace(tzinfo=None) == naive]
    try:
        found = moment(f"{naive.isoformat()}[{name}]")
    except NoTime:
        assert len(once) != 1
    else:
        assert [found.astimezone(UTC)] == once


@given(st.text(max_size=40) | st.from_regex(r"[0-9T:/ .,+\-\[\]ZUCGMT]{1,40}", fullmatch=True))
def test_any_other_text_is_refused_and_nothing_else_happens(text: str) -> None:
    for form in (TimeForm(), TimeForm("s", named=True), TimeForm(format="%d.%m.%Y")):
        try:
            found = form.us(text)
        except NoTime:
            continue
        assert found is None or isinstance(found, int)


@pytest.mark.parametrize(
    ("unit", "form", "told"),
    [
        ("min", None, "unit='min'; choose s, ms, us, ns"),
        ("s", "%Y-%m-%d", "leave one out"),
        (None, "%H:%M", "leaves year, month or day open"),
        (None, "%Y-%m-%d %I:%M", "has an hour of 12 and no %p"),
        (None, "%Y-%m-%d %", "is no format of a time"),
        (None, "", "is no format of a time"),
    ],
)
def test_what_makes_no_sense_is_refused(unit: str | None, form: str | None, told: str) -> None:
    with pytest.raises(QueryError, match=re.escape(told)):
        time_form(unit, form, "unit", "format")
