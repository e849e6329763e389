"""`run` computes what the corrected streams hold in the end, and tells what it could not use."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from borealis_py import App, QueryError
from borealis_py.app.check import check
from borealis_py.app.state import NoSuchApp
from borealis_py.protocol.settings import SettingsError, Timing
from borealis_py.query.times import before_1970
from borealis_py.testing import START_US, run, to_stime
from tests.testing.apps import SALE, network, sales, shop

SECOND = 1_000_000
TEA = {"item": "tea", "euros": 2.5}


def window(second: int, sold: int, euros: float, item: str = "tea") -> dict[str, Any]:
    start = START_US + second * SECOND
    return {"window_start": start, "window_end": start + SECOND, "item": item, "sold": sold, "euros": euros}


def test_rows_of_both_sources_are_in_the_windows_of_their_times() -> None:
    results = run(shop(), {"berlin": sales(7), "paris": [("1.9s", TEA)]})
    assert results["sales"] == [window(0, 5, 12.5), window(1, 3, 7.5)]
    assert results.dead_letters == ()
    assert [(row.id, row.stime) for row in results.corrected("sales")] == [
        ("17672256009:0", START_US + SECOND - 1),
        ("17672256019:0", START_US + 2 * SECOND - 1),
    ]


def test_rows_without_times_follow_each_other_from_the_beginning_on() -> None:
    assert run(shop(), {"berlin": [TEA] * 3})["sales"] == [window(0, 3, 7.5)]
    assert run(shop(), {"berlin": [TEA] * 3}, every="500ms")["sales"] == [window(0, 2, 5.0), window(1, 1, 2.5)]
    assert run(shop(), {"berlin": [TEA] * 2_000}, every="0s")["sales"] == [window(0, 2_000, 5_000.0)]


def test_times_may_lie_in_a_column_that_is_not_in_the_schema() -> None:
    rows = [
        {**TEA, "at": "2026-01-01T00:00:00.5"},
        {**TEA, "at": START_US},
        {**TEA, "at": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)},
    ]
    assert run(shop(), {"paris": rows}, stime="at")["sales"] == [window(0, 2, 5.0), window(1, 1, 2.5)]


def order_app() -> App:
    """An app whose result shows the order of its rows."""
    app = App("order")
    a, b = (app.source(name, schema={"n": "int64"}) for name in ("a", "b"))
    app.query("q", app.union(a, b).map(n="n"))
    return app


def test_rows_come_in_the_order_of_their_times_then_of_sources_then_as_given() -> None:
    rows = {
        "b": [("1s", {"n": 4}), ("0s", {"n": 2})],
        "a": [("1s", {"n": 3}), ("0s", {"n": 0}), ("0s", {"n": 1}), ("2s", {"n": 5})],
    }
    assert [row["n"] for row in run(order_app(), rows)["q"]] == [0, 1, 2, 3, 4, 5]


def test_times_may_lie_years_apart_and_before_the_year_of_the_others() -> None:
    rows = {"a": [("1999-12-31", {"n": 1}), ("2030-01-01", {"n": 3})], "b": [("2026-06-01", {"n": 2})]}
    results = run(order_app(), rows)
    assert [row["n"] for row in results["q"]] == [1, 2, 3]
    assert results.dead_letters == ()


def test_with_a_lateness_rows_arrive_as_given_and_later_ones_are_dead_letters() -> None:
    rows = {"berlin": [("5s", TEA), ("3.2s", TEA), ("2.9s", {"item": "late", "euros": 1.0}), ("9s", TEA), ("4s", TEA)]}
    results = run(shop(), rows, lateness="2s")
    assert [row["sold"] for row in results["sales"]] == [1, 1, 1]
    assert [(one.source, one.reason[:5], one.raw) for one in results.dead_letters] == [
        ("berlin", "late:", b'{"item":"late","euros":1.0}'),
        ("berlin", "late:", b'{"item":"tea","euros":2.5}'),
    ]
    assert len(run(shop(), rows, lateness="0s").dead_letters) == 3
    assert run(shop(), rows).dead_letters == ()


def test_what_cannot_be_used_is_told_with_its_reason() -> None:
    rows = {
        "berlin": [
            {**TEA, "at": None},
            {**TEA, "at": "noon"},
            {"item": 5, "euros": 1.0, "at": 1},
            {"item": "x", "at": "1s"},
            {"item": "no such field", "at": START_US},
            {**TEA, "at": -5},
            {**TEA, "at": START_US + 5},
        ]
    }
    results = run(shop(), rows, stime="at")
    assert [(row["sold"], row["item"]) for row in results["sales"]] == [(1, "tea")]
    told = Counter((one.source, one.reason) for one in results.dead_letters)
    noon = "malformed: stime {!r} is neither integer microseconds nor an ISO 8601 date-time"
    assert told == {
        ("berlin", "stime missing"): 1,
        ("berlin", noon.format("noon")): 1,
        ("berlin", noon.format("1s")): 1,
        ("berlin", "malformed: Expected `str | null`, got `int` - at `$.item`"): 1,
        ("berlin", "malformed: Object missing required field `euros`"): 1,
        ("berlin", before_1970(-5)): 1,
    }
    assert repr(results).startswith("<Results sales: 1 rows; 6 dead letters, the first of berlin: ")


def test_a_row_that_a_query_cannot_compute_with_is_a_dead_letter_of_its_node_and_told_once() -> None:
    rows = {
        "web.0": [{"item": "x", "euros": 1.0}],
        "till": [{"item": "7", "euros": 400.0}, {"item": "7", "euros": 60.0}],
    }
    results = run(network(), rows)
    assert [(one.source, one.raw[:11]) for one in results.dead_letters] == [
        ("cleaned", b'{"item":"x"'),
        ("big", b'{"item":"7"'),
    ]
    assert [row["twice"] for row in results["big"]] == [2_000_000_000_000_000_000]
    assert [(row["item"], row["rows"]) for row in results["totals"]] == [("7", 2), ("7", 2)]
    assert results["till_only"] == [{"window_start": START_US, "window_end": START_US + SECOND, "rows": 2}]


def test_bad_rows_of_a_source_that_two_queries_read_are_told_once() -> None:
    results = run(network(), {"till": [{"item": 5, "euros": 1.0}], "web.1": [{"item": "1", "euros": "x"}]})
    assert sorted((one.source, one.raw) for one in results.dead_letters) == [
        ("till", b'{"item":5,"euros":1.0}'),
        ("web.1", b'{"item":"1","euros":"x"}'),
    ]


def test_without_rows_there_are_no_results() -> None:
    results = run(shop(), {})
    assert (results["sales"], results.dead_letters) == ([], ())
    assert repr(results) == "<Results sales: 0 rows>"


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda s: s.filter("euro > 5"), QueryError),
        (lambda s: s.map(x="now()"), QueryError),
        (lambda s: s.map(x="euros + item"), QueryError),
        (lambda s: s.filter("item = 5").node("n").map(x="nonsense(item)"), QueryError),
    ],
)
def test_an_app_that_check_refuses_is_refused_in_the_same_words(build: Any, kind: type[Exception]) -> None:
    app = App("bad")
    app.query("q", build(app.source("s", schema=SALE)))
    with pytest.raises(kind) as checked:
        check(app.describe(), Timing())
    with pytest.raises(kind) as ran:
        run(app, {})
    assert str(ran.value) == str(checked.value)


def test_a_threshold_that_cannot_hold_is_refused() -> None:
    with pytest.raises(SettingsError, match="query 'sales'"):
        run(shop(threshold="10ms"), {})


def test_names_and_arguments_that_are_wrong_are_told_with_what_would_be_right() -> None:
    with pytest.raises(NoSuchApp, match="no source 'berln'; did you mean 'berlin'"):
        run(shop(), {"berln": []})
    with pytest.raises(NoSuchApp, match=r"no source 'web'.*web\.0, web\.1, till"):
        run(network(), {"web": []})
    with pytest.raises(QueryError, match=r"no results of 'sale'; did you mean 'sales'\? queries: sales"):
        run(shop(), {})["sale"]
    with pytest.raises(QueryError, match="app 'empty' has no query"):
        run(App("empty"), {})
    with pytest.raises(TypeError, match="a test needs the App itself, not 'shop'"):
        run("shop", {})  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="every: '5' has no unit"):
        run(shop(), {}, every="5")
    with pytest.raises(QueryError, match="lateness: '367d' is more than 366d"):
        run(shop(), {"berlin": [TEA]}, lateness="367d")


def test_a_helper_tells_times_as_results_have_them() -> None:
    (row,) = run(shop(), {"berlin": [("2026-03-01T12:00:00.5", TEA)]})["sales"]
    assert row["window_start"] == to_stime("2026-03-01T12:00")


def test_it_loads_neither_kafka_nor_spark() -> None:
    code = (
        "import sys; import borealis_py.testing; "
        "print(sorted({n.split('.')[0] for n in sys.modules} & {'confluent_kafka', 'kafka', 'pyspark'}))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
