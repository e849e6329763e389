"""What count and session windows put into the description, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from borealis_py import App, QueryError
from borealis_py.query import AppSpec, Stream
from borealis_py.query.partitions import physical
from borealis_py.query.plan import CountWindowOp, SessionWindowOp

ORDERS = {"id": "int", "Shop": "string", "euros": "double"}


def orders() -> tuple[App, Stream]:
    app = App("test")
    return app, app.source("orders", schema=ORDERS)


def test_windows_of_rows_and_sessions_are_described_and_read_back() -> None:
    app, rows = orders()
    full = rows.window(rows=100).group_by("shop").agg(n="count(*)")
    assert full.columns == ("window_start", "window_end", "Shop", "n")
    app.query("full", full)
    app.query("visits", rows.window(gap="30s", most="1h").agg(n="count(*)", euros="sum(euros)"))
    spec = app.describe()
    assert spec.query("full").plan[1] == CountWindowOp(
        input=0, rows=100, keys=("Shop",), aggregates=(("n", "count(*)"),)
    )
    assert spec.query("visits").plan[1] == SessionWindowOp(
        input=0,
        gap_us=30_000_000,
        most_us=3_600_000_000,
        keys=(),
        aggregates=(("n", "count(*)"), ("euros", "sum(euros)")),
    )
    assert AppSpec.from_json(spec.to_json()) == spec


def test_what_windows_give_depends_on_all_that_they_say() -> None:
    hashes = set()
    for kind in (
        {"rows": 2}, {"rows": 3}, {"gap": "1s", "most": "2s"}, {"gap": "1s", "most": "3s"}, {"gap": "2s", "most": "3s"},
    ):  # fmt: skip
        app, rows = orders()
        app.query("q", rows.window(**kind).agg(n="count(*)"))  # type: ignore[arg-type]
        hashes.add(app.describe().query_hash("q"))
    assert len(hashes) == 5


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.window(), r'needs a size, window\("1s"\), or a number of rows'),
        (lambda s: s.window(rows=0), r"window\(rows=0\): choose 1 to 100000 rows"),
        (lambda s: s.window(rows=100_001), "choose 1 to 100000 rows"),
        (lambda s: s.window(rows=True), "choose 1 to 100000 rows"),
        (lambda s: s.window(rows="100"), "choose 1 to 100000 rows"),
        (lambda s: s.window("1s", rows=5), "rows=5 and a size do not go together: a window ends after so many rows"),
        (lambda s: s.window(rows=5, every="1s"), "rows=5 and every do not go together"),
        (lambda s: s.window(rows=5, gap="1s", most="2s"), "rows=5 and gap and most do not go together"),
        (lambda s: s.window("1s", gap="1s", most="2s"), "gap='1s' and a size do not go together: a window has a size"),
        (lambda s: s.window(every="1s", most="2s"), "most='2s' and every do not go together"),
        (lambda s: s.window(gap="1s"), "gap and most go together, .*one that never pauses would be kept for ever"),
        (lambda s: s.window(most="1s"), "gap and most go together"),
        (lambda s: s.window(gap="0s", most="1s"), r"gap of window\(\): '0s' must be more than zero"),
        (lambda s: s.window(gap="1s", most=5), r"most of window\(\): 5 is not a duration"),
        (lambda s: s.window(gap="2s", most="1s"), "most='1s' is shorter than gap='2s', so every session would end 1s"),
        (lambda s: s.window(gap="1s", most="400d"), "is more than a year"),
        (lambda s: s.window(rows=5).group_by("nope"), "unknown column 'nope' in group_by"),
        (lambda s: s.window(rows=5).agg(), r"agg\(\) needs aggregates"),
        (lambda s: s.window(rows=5).agg(window_end="count(*)"), "'window_end' in agg.. is reserved"),
        (lambda s: s.window(rows=5).top(3, by="id"), r"top\(\) ranks the rows of windows by time"),
        (lambda s: s.window(gap="1s", most="2s").top(3, by="id"), r"top\(\) ranks the rows of windows by time"),
    ],
)
def test_windows_that_cannot_be_are_refused(call: Callable[[Stream], object], said: str) -> None:
    _, rows = orders()
    with pytest.raises(QueryError, match=said):
        call(rows)


@pytest.mark.parametrize("kind", [{"rows": 2}, {"gap": "1s", "most": "2s"}], ids=str)
def test_the_rows_of_a_window_must_be_in_one_partition(kind: dict[str, object]) -> None:
    app, rows = orders()
    windows = rows.window(**kind).group_by("id", "Shop").agg(n="count(*)", euros="sum(euros)")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"partitioned by 'euros', but a window of it groups \(id, Shop\)"):
        windows.node("n", partitions=2, by="euros")
    whole = rows.window(**kind).agg(Shop="max(Shop)")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="but a window of it groups all rows together"):
        whole.node("n", partitions=2, by="Shop")
    app.query("q", windows, partitions=2, by="Shop")
    plan = physical(app.describe()).queries["q.1"].plan
    assert [op.op for op in plan][:2] == ["source", "part"]


@pytest.mark.parametrize(
    ("told", "absurd"), [('"rows":5', '"rows":0'), ('"rows":5', f'"rows":{10**9}'), ('"gap_us":1000000', '"gap_us":0')]
)
def test_a_description_with_an_absurd_window_is_refused(told: str, absurd: str) -> None:
    app, rows = orders()
    app.query("full", rows.window(rows=5).agg(n="count(*)"))
    app.query("visits", rows.window(gap="1s", most="2s").agg(n="count(*)"))
    text = app.describe().to_json()
    assert told in text
    with pytest.raises(QueryError, match="not an app's description: Input should be"):
        AppSpec.from_json(text.replace(told, absurd))
