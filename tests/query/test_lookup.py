"""What `lookup` and `table` put into the description, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from borealis_py import App, QueryError
from borealis_py.query import AppSpec, Stream
from borealis_py.query.partitions import physical
from borealis_py.query.plan import LookupOp, PartOp
from borealis_py.query.tables import Table

ORDERS = {"id": "int", "Item": "string", "shop": "string"}
PRICES = {"ITEM": "string", "price": "double", "op": "string"}


def shop() -> tuple[App, Stream, Table]:
    app = App("test")
    return app, app.source("orders", schema=ORDERS), app.table("prices", "item", PRICES, deleted="op = 'd'")


def test_a_lookup_is_described_and_read_back() -> None:
    app, orders, prices = shop()
    assert prices.key == ("ITEM",)
    priced = orders.filter("id > 0").lookup(prices, on="item")
    assert priced.columns == ("id", "Item", "shop", "price", "op")
    app.query("q", priced)
    spec = app.describe()
    assert spec.query("q").inputs == ("orders", "prices")
    assert spec.query("q").plan[-1] == LookupOp(inputs=(1, 2), on=("Item",), deleted="op = 'd'")
    assert AppSpec.from_json(spec.to_json()) == spec


def test_on_may_name_the_key_in_any_order() -> None:
    app = App("test")
    orders, prices = (
        app.source("orders", schema=ORDERS),
        app.table("prices", ["shop", "item"], {**PRICES, "shop": "string"}),
    )
    app.query("q", orders.lookup(prices, on=("ITEM", "SHOP")))
    plan = app.describe().query("q").plan
    assert plan[-1] == LookupOp(inputs=(0, 1), on=("shop", "Item"))


def test_a_table_of_a_topic_is_read_from_its_beginning() -> None:
    app = App("test")
    app.table(
        "prices", "item", {**PRICES, "at": "timestamp"}, topic="prod.prices", stime="at", lateness="5s", partitions=3
    )
    query = app.source("orders", schema=ORDERS)
    app.query("q", query)
    ingress = app.describe().ingresses["prices"]
    assert (ingress.topic, ingress.start, ingress.stime, ingress.lateness_us) == (
        "prod.prices",
        "earliest",
        "at",
        5_000_000,
    )
    assert ingress.inputs == 3
    other = App("test")
    other.table("prices", "item", PRICES, partitions=2)
    assert other.describe().source_partitions == {"prices": 2}


def test_what_a_lookup_gives_depends_on_what_deletes() -> None:
    hashes = set()
    for deleted in (None, "op = 'd'", "price IS NULL"):
        app = App("test")
        orders, prices = app.source("orders", schema=ORDERS), app.table("prices", "item", PRICES, deleted=deleted)
        app.query("q", orders.lookup(prices, on="item"))
        hashes.add(app.describe().query_hash("q"))
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("key", "kwargs", "said"),
    [
        ("nope", {}, "unknown column 'nope' in key of table"),
        ((), {}, "give the name of a column, or several"),
        (3, {}, "give the name of a column, or several"),
        (("item", "price", "op"), {}, "all columns .* are its key, so a lookup would find nothing more"),
        ("item", {"deleted": " "}, "needs an SQL expression as text"),
        ("item", {"deleted": 3}, "needs an SQL expression as text"),
        ("item", {"stime": "price"}, "stime= names a column of a topic; publishers give each row its time"),
        ("stime", {}, "'stime' in key of table.. is reserved"),
    ],
)
def test_a_table_that_cannot_be_is_refused(key: Any, kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        App("test").table("prices", key, PRICES, **kwargs)


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ("id", r"the table has one row for each \(ITEM\): name all columns of its key, and no other"),
        (("item", "id"), r"name all columns of its key, and no other"),
        ((), r"name all columns of its key"),
        (3, "give the names of the table's key: ITEM"),
        ("nope", "unknown column 'nope' in on of lookup"),
        (("item", "ITEM"), "is there twice"),
    ],
)
def test_a_lookup_by_another_key_is_refused(on: Any, said: str) -> None:
    _, orders, prices = shop()
    with pytest.raises(QueryError, match=said):
        orders.lookup(prices, on=on)


def test_only_a_table_of_the_same_app_is_looked_up_in() -> None:
    app, orders, prices = shop()
    for call, said in (
        (lambda: shop()[1].lookup(prices, on="item"), "an app uses its own streams only"),
        (lambda: orders.lookup(orders, on="item"), r"needs a table, got Stream; make one with stream\.table\(key="),  # type: ignore[arg-type]
        (lambda: orders.lookup("prices", on="item"), r"needs a table, got str; make one with app\.table\("),  # type: ignore[arg-type]
        (lambda: app.union(prices), r"was given a table; only stream\.lookup\(table, on=\.\.\.\) reads one"),  # type: ignore[arg-type]
        (
            lambda: orders.map(item="Item", price="id").lookup(prices, on="item"),
            r"lookup\(\): both stream and table have 'price'; rename with map\(\) before the lookup: the result",
        ),
    ):
        with pytest.raises(QueryError, match=said):
            call()  # type: ignore[no-untyped-call]


def test_a_row_and_what_it_looks_up_must_be_in_one_partition() -> None:
    app, orders, prices = shop()
    priced = orders.lookup(prices, on="item")
    said = (
        r"node 'n' is partitioned by 'shop', but a lookup of it is on \(Item\): a row and what it looks up would be in"
    )
    with pytest.raises(QueryError, match=said):
        priced.node("n", partitions=2, by="shop")
    table = app.source("more", schema={"Item": "string", "more": "int"}).table("Item")
    app.query("q", priced.map(Item="Item", price="price").lookup(table, on="Item"))
    found = orders.lookup(table, on="Item")
    app.query("p", found, partitions=2, by="Item")
    plan = physical(app.describe()).queries["p.1"].plan
    assert [op.op for op in plan] == ["source", "part", "source", "part", "lookup", "merge"]
    assert plan[3] == PartOp(input=2, by=("Item",), count=2, index=1)


@pytest.mark.parametrize(
    ("deleted", "said"),
    [
        (None, '"price" IS NULL AND "op" IS NULL'),
        ("op = 'd'", '(op = \'d\') OR ("price" IS NULL AND "op" IS NULL)'),
    ],
)
def test_a_record_without_a_value_deletes_its_key_from_a_table_of_a_topic(deleted: str | None, said: str) -> None:
    app = App("shop")
    prices = app.table("prices", "item", PRICES, deleted, topic="prod.prices", partitions=1)
    app.query("priced", app.source("orders", schema=ORDERS).lookup(prices, on="item"))
    spec = app.describe()
    assert spec.ingresses["prices"].key == ("ITEM",)
    (lookup,) = (op for op in spec.queries["priced"].plan if isinstance(op, LookupOp))
    assert lookup.deleted == said
