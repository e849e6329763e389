"""Windows by the days of a time zone, against Python's own zone data and what clocks showed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.engine import canonical_hash, compile_query
from borealis_py.engine.operators.window_times import EqualTimes, ZoneTimes
from borealis_py.engine.sql.zones import first_instants
from borealis_py.query.plan import TopOp, WindowOp
from borealis_py.query.spec import AppSpec
from borealis_py.testing import run
from borealis_py.testing.times import to_stime
from tests.examples import examples

SCHEMA = {"n": "int64"}
SECOND, HOUR_US, DAY_US = timedelta(seconds=1), 3_600_000_000, 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Havana", "America/New_York",
    "America/Santiago", "America/Sao_Paulo", "America/St_Johns", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut",
    "Asia/Damascus", "Asia/Gaza", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Pyongyang", "Asia/Tokyo", "Atlantic/Azores",
    "Australia/Lord_Howe", "Europe/Berlin", "Europe/Dublin", "Europe/Istanbul", "Europe/London", "Pacific/Apia",
    "Pacific/Chatham", "Pacific/Fakaofo", "Pacific/Kiritimati", "Pacific/Kwajalein", "UTC",
)  # fmt: skip
"""Of all zones those whose days are odd, and some usual ones.

The database has changed since for 2026 and later (America/Vancouver, Africa/Casablanca), and editions that keep other
data of before 1970 differ there: America/Tijuana until 1975, WET, EET, Asia/Tehran on a day of 1979, Europe/Chisinau.
"""


def us(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def begin_of(zone: str, shown: datetime) -> int:
    """The first second at which clocks show this or later: all within more than a day are tried."""
    place = ZoneInfo(zone)
    at = shown.replace(tzinfo=UTC) - timedelta(hours=27)
    for step in (timedelta(minutes=5), SECOND):  # clocks never go back so soon after they went on
        while (at + step).astimezone(place).replace(tzinfo=None) < shown:
            at += step
    at += SECOND
    return us(at)


def changes_of(zone: str) -> list[datetime]:
    """The first days, in UTC, of weeks in which clocks of a zone changed."""
    place = ZoneInfo(zone)
    days = [datetime(1970, 1, 2, tzinfo=UTC) + timedelta(days=n) for n in range(0, 365 * 55, 7)]
    found = [at.astimezone(place).utcoffset() for at in days]
    return [day for day, (one, other) in zip(days, pairwise(found), strict=False) if one != other]


CHANGES = {zone: changes_of(zone) for zone in ZONES}


@st.composite
def places(draw: st.DrawFn) -> tuple[str, date]:
    zone = draw(st.sampled_from(ZONES))
    if CHANGES[zone] and draw(st.integers(0, 4)):
        return zone, draw(st.sampled_from(CHANGES[zone])).date() + timedelta(days=draw(st.integers(-1, 9)))
    return zone, draw(st.dates(date(1970, 1, 3), date(2025, 1, 1)))


@settings(max_examples=examples(50), deadline=None)
@given(places(), st.sampled_from([0, 0, 0, 1, 90, 150, 360]))
def test_a_day_begins_when_python_has_it(place: tuple[str, date], minutes: int) -> None:
    zone, day = place
    shown = datetime.combine(day, time()) + timedelta(minutes=minutes)
    found = first_instants(zone, np.array([us(shown.replace(tzinfo=UTC))]))
    assert int(found[0]) == begin_of(zone, shown)


@settings(max_examples=examples(15), deadline=None)
@given(places(), st.sampled_from([(1, 1), (7, 7), (7, 1), (3, 2)]), st.integers(0, 23), st.integers(-9, 9))
def test_windows_begin_and_end_with_days(place: tuple[str, date], days: tuple[int, int], hour: int, shift: int) -> None:
    (zone, day), (size, every) = place, days
    times = ZoneTimes(zone, size * DAY_US, every * DAY_US, hour * HOUR_US, 1_000_000)
    cursor = us(datetime.combine(day, time(hour), UTC)) // 1_000_000 + shift * 3_600
    wanted = []
    for n in range(-3, every + 4):  # days that may be the end of the next window
        last = day + timedelta(days=n)
        if (last - date(1970, 1, 1)).days % every == 0:
            ends = begin_of(zone, datetime.combine(last, time(hour))) // 1_000_000
            wanted.append(
                (ends, begin_of(zone, datetime.combine(last - timedelta(days=size), time(hour))) // 1_000_000)
            )
    end, begin = min(one for one in wanted if one[0] > cursor)
    assert times.next_end(cursor) == end
    assert times.begin(end) == begin
    assert times.next_end(end) > end
    assert end - begin <= times.longest
    begins, ends = times.between(cursor, end + times.longest)
    assert (begins[0], ends[0]) == (begin, end)
    assert np.all(np.diff(ends) > 0)
    assert np.all(np.diff(begins) >= 0)
    assert times.begins(ends).tolist() == begins.tolist()
    if size == every:
        assert np.all(begins[1:] == ends[:-1]), "a row would be in none, or in two"


@settings(max_examples=examples(60))
@given(
    st.integers(1, 8), st.integers(0, 8), st.integers(0, 7), st.integers(-5_000, 5_000), st.sampled_from([1, 7, 100])
)
def test_the_last_window_that_begins_before_is_found(
    every: int, more: int, offset: int, since: int, width: int
) -> None:
    times = EqualTimes(every + more, every, offset % every)
    begins, ends = times.between(since // width - 50, since // width + 50)
    last = int(ends[begins * width < since][-1]) * width
    assert times.last_end(since, width) == max(since, last)


def test_what_is_whole_begins_with_a_local_day() -> None:
    times = ZoneTimes("Europe/Berlin", DAY_US, DAY_US, 0, 1_000_000)
    noon, midnight = to_stime("2026-03-29T12:00:00Z"), to_stime("2026-03-29T22:00:00Z")
    assert times.last_end(noon, 1_000_000) == midnight
    assert times.last_end(midnight, 1_000_000) == midnight


def made(zone: str, size: str = "1d", bucket: str = "15m", **others: str) -> App:
    app = App("p", bucket=bucket)
    rows = app.source("s", schema=SCHEMA)
    local = f"CAST(timezone('{zone}', make_timestamptz(stime)) AS DATE)"
    windows = rows.map(n="n", day=local).window(size, zone=zone, **others)
    app.query("q", windows.agg(rows="count(*)", first="min(day)", last="max(day)", ns="list(n)"))
    app.query("best", windows.top(1, by="n DESC"))
    return app


def hourly(first: str, hours: int) -> list[tuple[int, dict[str, int]]]:
    return [(to_stime(first) + n * HOUR_US, {"n": n}) for n in range(hours)]


DAYS = [
    ("Europe/Berlin", "2026-03-28T00:00:00Z", [23, 23, 24, 2]),
    ("Europe/Berlin", "2026-10-24T00:00:00Z", [22, 25, 24, 1]),
    ("America/Sao_Paulo", "2018-11-03T00:00:00Z", [3, 24, 23, 22]),  # no midnight on the 4th
    ("America/Havana", "2026-10-31T00:00:00Z", [4, 24, 25, 19]),  # midnight twice on the 1st
    ("Africa/Cairo", "2026-04-23T00:00:00Z", [22, 23, 24, 3]),  # no midnight on the 24th
    ("Asia/Beirut", "2022-03-26T00:00:00Z", [22, 23, 24, 3]),
    ("Pacific/Apia", "2011-12-29T00:00:00Z", [10, 24, 24, 14]),  # no 30th
    ("Asia/Kathmandu", "2026-01-01T00:00:00Z", [19, 24, 24, 5]),
]


@pytest.mark.parametrize(("zone", "first", "counts"), DAYS, ids=[f"{zone}-{first[:10]}" for zone, first, _ in DAYS])
def test_rows_of_a_local_date_are_one_window(zone: str, first: str, counts: list[int]) -> None:
    results = run(made(zone), {"s": hourly(first, 72)})
    rows = results["q"]
    assert [row["rows"] for row in rows] == counts
    assert all(row["first"] == row["last"] for row in rows), "SQL and windows disagree about the day"
    assert all(one["window_end"] <= other["window_start"] for one, other in pairwise(rows))
    assert [row["n"] for row in results["best"]] == [row["ns"][-1] for row in rows]
    assert [(row["window_start"], row["window_end"]) for row in results["best"]] == [
        (row["window_start"], row["window_end"]) for row in rows
    ]


def test_weeks_from_monday_have_the_hours_that_clocks_showed() -> None:
    results = run(made("Europe/Berlin", "7d", offset="4d"), {"s": hourly("2026-03-23T00:00:00Z", 24 * 14)})
    hours = [(row["window_end"] - row["window_start"]) // HOUR_US for row in results["q"]]
    begins = [datetime.fromtimestamp(row["window_start"] / 1e6, ZoneInfo("Europe/Berlin")) for row in results["q"]]
    assert hours == [167, 168, 168]
    assert {(at.weekday(), at.hour) for at in begins} == {(0, 0)}


def test_a_week_that_moves_by_days_holds_each_of_its_rows() -> None:
    given_ = hourly("2026-10-20T00:00:00Z", 24 * 12)
    for row in run(made("Europe/Berlin", "7d", every="1d"), {"s": given_})["q"]:
        inside = [value["n"] for at, value in given_ if row["window_start"] <= at < row["window_end"]]
        assert row["ns"] == inside


@pytest.mark.parametrize("query", ["q", "best"])
def test_bucket_by_bucket_is_the_same(query: str) -> None:
    given_ = hourly("2026-03-28T00:00:00Z", 60)
    kernel = compile_query(made("Europe/Berlin", offset="6h").describe(), query)
    codec, width = kernel.source_codec("s"), kernel.app.bucket_us
    buckets = {}
    for at, row in given_:
        rows, _ = codec.decode(msgspec.json.encode([row]), "json", [at])
        buckets[at // width] = kernel.order(kernel.settle([[rows]]))
    first, end = min(buckets), max(buckets) + 200
    _, whole = kernel.step(kernel.initial(), first, end, buckets)
    state, alone = kernel.initial(), {}
    for bucket in range(first, end):
        state, found = kernel.step(state, bucket, bucket + 1, {b: buckets[b] for b in (bucket,) if b in buckets})
        alone.update(found)
    told = [{b: canonical_hash(one.rows) for b, one in some.items() if one.rows} for some in (whole, alone)]
    kernel.close()
    assert told[0] == told[1]
    assert len(told[0]) == 4


def test_results_of_days_are_ranked_within_the_same_days_only() -> None:
    app = App("p", bucket="15m")
    rows = app.source("s", schema=SCHEMA)
    days = rows.window("1d", zone="Europe/Berlin").group_by("n").agg(rows="count(*)")
    app.query("same", days.window("1d", zone="Europe/Berlin").top(1, by="rows DESC"))
    found = run(app, {"s": hourly("2026-03-28T00:00:00Z", 60)})["same"]
    assert [(row["window_end"] - row["window_start"]) // HOUR_US for row in found] == [24, 23, 24]
    others = (days.window("1d"), days.window("1d", zone="Europe/Paris"), days.window("1d", offset="6h"))
    for windows in others:
        with pytest.raises(QueryError, match="rename 'window_start'"):
            windows.top(1, by="rows DESC")


def test_a_state_reaches_back_as_far_as_the_longest_day() -> None:
    lookback = {}
    for zone in ("Europe/Berlin", "Asia/Tokyo", "Pacific/Kwajalein"):
        kernel = compile_query(made(zone).describe(), "q")
        lookback[zone] = (kernel.lookback_buckets + 1) / 4
        kernel.close()
    assert lookback == {"Europe/Berlin": 25, "Asia/Tokyo": 25, "Pacific/Kwajalein": 47}


def test_a_description_without_a_zone_is_as_before() -> None:
    app = App("p", bucket="15m")
    app.query("q", app.source("s", schema=SCHEMA).window("1d").agg(n="count(*)"))
    assert '"zone"' not in app.describe().to_json()
    described = made("Europe/Berlin").describe()
    again = AppSpec.from_json(described.to_json())
    assert again == described
    ops = [op for name in ("q", "best") for op in again.node(name).plan if isinstance(op, WindowOp | TopOp)]
    assert [op.zone for op in ops] == ["Europe/Berlin"] * 2
    plain, paris = App("p", bucket="15m"), made("Europe/Paris")
    plain.query("q", plain.source("s", schema=SCHEMA).window("1d", zone="Europe/Paris").agg(n="count(*)"))
    hashes = {one.query_hash("q") for one in (app.describe(), plain.describe(), described, paris.describe())}
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("bucket", "arguments", "told"),
    [
        ("100ms", {"size": "12h", "zone": "Europe/Berlin"}, "takes whole days"),
        ("100ms", {"size": "2d", "every": "1h", "zone": "Europe/Berlin"}, "window every 1h and zone"),
        ("100ms", {"size": "1d", "zone": ""}, "give the name of a time zone"),
        ("100ms", {"size": "1d", "zone": 2}, "zone=2; give the name of a time zone"),
        ("1h", {"size": "1d", "zone": "Europe/Berlin"}, r'bucket of 1h.*write App\(bucket="15m"\)'),
        ("100ms", {"rows": 5, "zone": "Europe/Berlin"}, "rows=5 and zone do not go together"),
        ("100ms", {"gap": "1s", "most": "5s", "zone": "Europe/Berlin"}, "gap='1s' and zone do not go together"),
        ("100ms", {"size": "1d", "zone": "berlin"}, "did you mean 'Europe/Berlin'"),
        ("100ms", {"size": "1d", "zone": "Europe/Berln"}, "did you mean 'Europe/Berlin'"),
        ("100ms", {"size": "1d", "zone": "+02:00"}, "not in the engine's time zone database; name a place"),
        ("100ms", {"size": "1d", "zone": "CST"}, "may be of several places"),
        ("15m", {"size": "1d", "zone": "Africa/Monrovia"}, r'1969-12-31 00:44:30Z.*write App\(bucket="1s"\)'),
    ],
)
def test_a_zone_that_makes_no_sense_is_refused(bucket: str, arguments: dict[str, str], told: str) -> None:
    app = App("p", bucket=bucket)
    with pytest.raises(QueryError, match=told):  # noqa: PT012 - the engine knows which zones there are
        app.query("q", app.source("s", schema=SCHEMA).window(**arguments).agg(n="count(*)"))  # type: ignore[arg-type]
        compile_query(app.describe(), "q")
