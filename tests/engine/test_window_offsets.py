"""Windows that end some time after multiples of their distance, against what each row's windows are by definition."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.query.units import format_duration
from borealis_py.testing import World, run, to_stime
from tests.examples import examples

MS = 1_000
SCHEMA = {"n": "int64"}


def made(size_us: int, every_us: int, offset_us: int | None, bucket: str = "100ms") -> App:
    app = App("p", bucket=bucket)
    offset = None if offset_us is None else format_duration(offset_us)
    windows = app.source("s", schema=SCHEMA).window(
        format_duration(size_us), every=format_duration(every_us), offset=offset
    )
    app.query("q", windows.agg(rows="count(*)", total="sum(n)"))
    app.query("last", windows.top(1, by="n DESC"))
    return app


def defined(stimes: list[int], size_us: int, every_us: int, offset_us: int) -> Counter[tuple[int, int]]:
    """Every window by its definition: all ends are tried that one with the row may have. Stimes are whole ms."""
    found: Counter[tuple[int, int]] = Counter()
    for stime in stimes:
        for end in range(stime + MS, stime + size_us + MS, MS):
            if (end - offset_us) % every_us == 0:
                found[end - size_us, end] += 1
    return found


@st.composite
def windows(draw: st.DrawFn) -> tuple[int, int, int, list[int]]:
    every = draw(st.integers(1, 8))
    size, offset = every + draw(st.integers(0, 8)), draw(st.integers(0, every - 1))
    rows = st.integers(0, 6_000).map(lambda ms: to_stime("0s") + ms * MS)
    return size * 100 * MS, every * 100 * MS, offset * 100 * MS, draw(st.lists(rows, min_size=1, max_size=12))


@settings(max_examples=examples(12))
@given(windows())
def test_each_row_is_in_the_windows_that_hold_it(given_: tuple[int, int, int, list[int]]) -> None:
    size_us, every_us, offset_us, stimes = given_
    rows = [(at, {"n": n}) for n, at in enumerate(stimes)]
    results = run(made(size_us, every_us, offset_us), {"s": rows})
    found = Counter({(row["window_start"], row["window_end"]): row["rows"] for row in results["q"]})
    assert found == defined(stimes, size_us, every_us, offset_us)
    for row in results["last"]:
        inside = [n for n, at in enumerate(stimes) if row["window_start"] <= at < row["window_end"]]
        assert row["n"] == max(inside)


def test_bucket_by_bucket_in_a_world_is_the_same() -> None:
    app, rows = made(1_000_000, 500_000, 300_000), [(f"{n * 170}ms", {"n": n}) for n in range(30)]
    with World(app) as world:
        world.send("s", *rows)
        world.advance("10s")
        world.end()
        assert [one.value for one in world.corrected("q")] == list(run(app, {"s": rows})["q"])


DAY_US = 86_400_000_000


@pytest.mark.parametrize(("offset_us", "weekday"), [(None, 3), (4 * DAY_US, 0), (3 * DAY_US, 6)])
def test_weeks_begin_on_thursday_or_on_the_day_that_the_offset_says(offset_us: int | None, weekday: int) -> None:
    rows = [(f"2026-0{month}-11T12:00:00", {"n": month}) for month in range(1, 10)]
    results = run(made(7 * DAY_US, 7 * DAY_US, offset_us, "1h"), {"s": rows})
    begins = [datetime.fromtimestamp(row["window_start"] / 1e6, UTC) for row in results["q"]]
    assert len(begins) == 9
    assert {(at.weekday(), at.hour) for at in begins} == {(weekday, 0)}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"size": "1s", "offset": "150ms"}, "window offset 150ms is not a multiple of the app's bucket"),
        ({"size": "1s", "offset": "1s"}, "is not shorter than the time from one window to the next, 1s"),
        ({"size": "7d", "offset": "11d"}, "write 4d, which means the same"),
        ({"rows": 5, "offset": "1s"}, "rows=5 and offset do not go together"),
        ({"gap": "1s", "most": "5s", "offset": "1s"}, "gap='1s' and offset do not go together"),
        ({"size": "1s", "offset": "-1s"}, "must not be negative"),
    ],
)
def test_an_offset_that_makes_no_sense_is_refused(arguments: dict[str, str], told: str) -> None:
    with pytest.raises(QueryError, match=told):
        App("p").source("s", schema=SCHEMA).window(**arguments)  # type: ignore[arg-type]
