"""What `join`, `distinct` and `top` put into the description, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from borealis_py import App, QueryError
from borealis_py.query import AppSpec, Stream
from borealis_py.query.partitions import physical
from borealis_py.query.plan import DistinctOp, JoinOp, PartOp, TopOp

ORDERS = {"id": "int", "Shop": "string", "euros": "double"}
PAYMENTS = {"ID": "int", "shop": "string", "paid": "double"}


def streams() -> tuple[App, Stream, Stream]:
    app = App("test")
    return app, app.source("orders", schema=ORDERS), app.source("payments", schema=PAYMENTS)


def test_a_join_is_described_and_read_back() -> None:
    app, orders, payments = streams()
    paid = orders.filter("euros > 0").join(payments, on=["ID", "shop"], within=("-5s", "10m"), how="left")
    assert paid.columns == ("id", "Shop", "euros", "paid")
    app.query("q", paid)
    spec = app.describe()
    assert spec.query("q").inputs == ("orders", "payments")
    assert spec.query("q").plan[-1] == JoinOp(
        inputs=(1, 2), on=("id", "Shop"), low_us=-5_000_000, high_us=600_000_000, how="left"
    )
    assert AppSpec.from_json(spec.to_json()) == spec


def test_distinct_and_top_are_described_and_read_back() -> None:
    app, orders, _ = streams()
    best = (
        orders.distinct("SHOP", "id", within="1.5s").window("2s", every="1s").group_by("shop").top(3, by="euros DESC")
    )
    assert best.columns == ("window_start", "window_end", "id", "Shop", "euros", "rank")
    app.query("q", best)
    spec = app.describe()
    assert spec.query("q").plan[1:] == (
        DistinctOp(input=0, by=("Shop", "id"), within_us=1_500_000),
        TopOp(input=1, size_us=2_000_000, every_us=1_000_000, keys=("Shop",), limit=3, by="euros DESC"),
    )
    assert AppSpec.from_json(spec.to_json()) == spec


def test_what_a_join_gives_depends_on_all_that_it_says() -> None:
    hashes = set()
    for kwargs in ({}, {"how": "left"}, {"within": ("0s", "2s")}, {"within": ("-1s", "1s")}, {"on": ("id", "shop")}):
        app, orders, payments = streams()
        right = (
            payments.map(id="ID", shop="shop", paid="paid") if "on" in kwargs else payments.map(id="ID", paid="paid")
        )
        app.query("q", orders.join(right, **{"on": "id", "within": ("0s", "1s"), **kwargs}))  # type: ignore[arg-type]
        hashes.add(app.describe().query_hash("q"))
    assert len(hashes) == 5


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"on": "euro"}, "unknown column 'euro' in on of join"),
        (
            {"on": "euros"},
            "unknown column 'euros' in on of join.., in the stream that is joined; columns: ID, shop, paid",
        ),
        ({"on": ()}, "give the name of a column that both streams have"),
        ({"on": 3}, "give the name of a column that both streams have"),
        ({"on": "stime"}, "would compare times exactly"),
        ({"on": ("id", "ID")}, "is there twice"),
        ({"on": "id"}, "both streams have 'shop'; rename with map"),
        ({"within": "10m"}, "give two durations, within=..0s., .10m.."),
        ({"within": ("10m", "0s")}, "is empty: the first duration is longer than the second"),
        ({"within": ("0s", 5)}, "within has 5; write a duration"),
        ({"within": ("0s", "5")}, "within of join.*: '5' has no unit"),
        ({"within": ("0s", "400d")}, "is more than a year"),
        ({"how": "right"}, "choose inner or left; for a right join, exchange the two streams"),
        ({"how": "outer"}, "choose inner or left$"),
    ],
)
def test_a_join_that_cannot_be_is_refused(kwargs: dict[str, Any], said: str) -> None:
    _, orders, payments = streams()
    with pytest.raises(QueryError, match=said):
        orders.join(payments, **{"on": ("id", "shop"), "within": ("0s", "1s"), **kwargs})


def test_only_streams_of_the_same_app_are_joined() -> None:
    _, orders, _ = streams()
    _, _, foreign = streams()
    with pytest.raises(QueryError, match="an app uses its own streams only"):
        orders.join(foreign, on="id", within=("0s", "1s"))
    with pytest.raises(QueryError, match=r"join\(\) was given a window without aggregates; finish it with \.agg"):
        orders.join(orders.window("1s"), on="id", within=("0s", "1s"))  # type: ignore[arg-type]


def test_distinct_and_top_that_cannot_be_are_refused() -> None:
    _, orders, _ = streams()
    for call, said in (
        (lambda: orders.distinct(within="1s"), "distinct.. needs columns"),
        (lambda: orders.distinct("nope", within="1s"), "unknown column 'nope' in distinct"),
        (lambda: orders.distinct("id", within="0s"), "must be more than zero"),
        (lambda: orders.distinct("id", within=None), "give a duration"),
        (lambda: orders.distinct("id", within="366d").distinct("id", within="367d"), "is more than a year"),
        (lambda: orders.distinct("stime", within="1s"), "'stime' in distinct.. is reserved"),
        (lambda: orders.window("1s").top(0, by="id"), "choose 1 to 10000 rows"),
        (lambda: orders.window("1s").top(True, by="id"), "choose 1 to 10000 rows"),
        (lambda: orders.window("1s").top(3, by=" "), "top.. needs an SQL expression as text"),
        (lambda: orders.map(Rank="id").window("1s").top(3, by="Rank"), "rename 'Rank' with map"),
        (lambda: orders.top(3, by="id"), r'top\(\) needs a window: stream.window\("1s"\).top'),
    ):
        with pytest.raises(QueryError, match=said):
            call()  # type: ignore[no-untyped-call]


def test_rows_that_are_compared_must_be_in_one_partition() -> None:
    _, orders, payments = streams()
    payments = payments.map(id="ID", paid="paid", euros="paid")
    joined = orders.map(id="id", euros="euros").join(payments.map(id="id", paid="paid"), on="id", within=("0s", "1s"))
    for stream, by, said in (
        (joined, "euros", r"partitioned by 'euros', but a join of it is on \(id\): the rows of a pair would be in"),
        (orders.distinct("id", within="1s"), "euros", r"but distinct\(id\) of it compares rows that would be in"),
        (orders.window("1s").group_by("id").top(1, by="id"), "euros", r"but a window of it groups \(id\)"),
    ):
        with pytest.raises(QueryError, match=said):
            stream.node("n", partitions=2, by=by)


def test_both_sides_of_a_partitioned_join_are_divided_alike() -> None:
    app, orders, payments = streams()
    right = payments.map(id="ID", paid="paid").node("right")
    app.query("q", orders.join(right, on="id", within=("0s", "1s")), partitions=2, by="id")
    plan = physical(app.describe()).queries["q.1"].plan
    assert [op.op for op in plan] == ["source", "part", "source", "join", "merge"]
    assert plan[1] == PartOp(input=0, by=("id",), count=2, index=1)
    assert isinstance(plan[3], JoinOp)
    assert plan[3].inputs == (1, 2)


def test_a_description_with_an_absurd_range_is_refused() -> None:
    app, orders, payments = streams()
    app.query("q", orders.join(payments, on=("id", "shop"), within=("0s", "1s")))
    text = app.describe().to_json().replace('"high_us":1000000', f'"high_us":{10**18}')
    with pytest.raises(QueryError, match="not an app's description: Input should be less than"):
        AppSpec.from_json(text)
