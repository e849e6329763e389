"""The description of a foreign topic: its inputs, what of it is part of the hash, and what no description may say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.query import App, QueryError
from borealis_py.query.ingress_spec import INPUTS_MAX, IngressSpec
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec

ORDERS = IngressSpec(topic="prod.orders", stime="at", lateness_us=2_000_000)
BY_SHOP = ORDERS.model_copy(update={"by": "shop", "values": ("berlin", "paris"), "inputs": 3})


def shop(ingress: IngressSpec) -> AppSpec:
    """An app whose source `orders` is fed by this ingress, and a source of our own."""
    app = App("shop")
    orders = app.source("orders", schema={"shop": "string", "euros": "double", "at": "int64"})
    till = app.source("till", schema={"shop": "string", "euros": "double", "at": "int64"})
    app.query("sales", app.union(orders, till).filter("euros > 0"))
    app.query("own", till.filter("euros > 0"))
    parts = {"orders": ingress.inputs} if ingress.inputs else {}
    return AppSpec.model_validate(
        app.describe().model_dump() | {"ingresses": {"orders": ingress}, "source_partitions": parts}
    )


def test_what_up_writes_is_read_back() -> None:
    for ingress in (ORDERS, ORDERS.with_partitions(3), BY_SHOP):
        spec = shop(ingress)
        assert AppSpec.from_json(spec.to_json()) == spec


def test_each_input_runs_as_a_partition_of_the_source() -> None:
    spec = shop(ORDERS).with_partitions({"orders": 3})
    assert spec.ingresses["orders"].inputs == spec.source_partitions["orders"] == 3
    assert list(physical(spec).sources) == ["orders.0", "orders.1", "orders.2", "till"]
    assert spec.fed_by() == {f"orders.{i}": f"partition {i}" for i in range(3)}
    assert shop(BY_SHOP).fed_by()["orders.1"] == "shop = 'paris'"
    assert spec.flattened("sales").ingresses == spec.ingresses
    assert spec.flattened("own").ingresses == {}


@given(st.integers(1, 500), st.integers(0, 2_000))
def test_every_partition_has_an_input_also_one_added_later(partitions: int, later: int) -> None:
    ingress = ORDERS.with_partitions(partitions)
    assert ingress.inputs == min(partitions, INPUTS_MAX)
    assert 0 <= ingress.input_of_partition(later) < ingress.inputs
    assert [ingress.input_of_partition(i) for i in range(ingress.inputs)] == list(range(ingress.inputs))


def test_values_decide_the_inputs_alone() -> None:
    assert BY_SHOP.with_partitions(17) is BY_SHOP
    assert [BY_SHOP.input_of_value(v) for v in ("berlin", "paris", "rome", None, 1)] == [0, 1, 2, 2, 2]
    assert [BY_SHOP.label(i) for i in range(3)] == ["shop = 'berlin'", "shop = 'paris'", "other shop"]
    numbers = ORDERS.model_copy(update={"by": "at", "values": (0, 1), "inputs": 3})
    assert [numbers.input_of_value(v) for v in (1, True, False)] == [1, 2, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "other"}, {"cluster": "eu"}, {"stime": None}, {"stime_unit": "ms"}, {"inputs": 5},
        {"by": "shop", "values": ("berlin",), "inputs": 2},
    ],
)  # fmt: skip
def test_what_decides_about_rows_is_part_of_the_hash(change: dict[str, Any]) -> None:
    before, after = (shop(ORDERS.with_partitions(3).model_copy(update=c)) for c in ({}, change))
    assert before.hash != after.hash
    assert before.query_hash("sales") != after.query_hash("sales")
    assert before.query_hash("own") == after.query_hash("own")


@pytest.mark.parametrize(
    "change",
    [{"lateness_us": 0}, {"boundary": "data"}, {"expect_us": 9}, {"heartbeat": "euros = 0"}, {"start": "earliest"}],
)
def test_what_decides_about_waiting_alone_is_not(change: dict[str, Any]) -> None:
    before, after = (shop(ORDERS.with_partitions(3).model_copy(update=c)) for c in ({}, change))
    assert before.hash == after.hash


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": 2},  # source_partitions says 3
        {"inputs": 65}, {"inputs": -1}, {"lateness_us": -1}, {"expect_us": 0}, {"format": "xml"}, {"unknown": 1},
        {"by": "shop"}, {"values": ["berlin"]}, {"by": "shop", "values": ["berlin"]}, {"stime_unit": "h"},
    ],
)  # fmt: skip
def test_a_description_that_no_app_of_ours_has_is_refused(change: dict[str, Any]) -> None:
    found = json.loads(shop(ORDERS.with_partitions(3)).to_json())
    found["ingresses"]["orders"].update(change)
    with pytest.raises(QueryError, match="not an app's description"):
        AppSpec.from_json(json.dumps(found))


def test_so_is_an_ingress_without_a_source() -> None:
    found = json.loads(shop(ORDERS).to_json())
    found["ingresses"]["payments"] = found["ingresses"].pop("orders")
    with pytest.raises(QueryError, match="not an app's description"):
        AppSpec.from_json(json.dumps(found))


def by(values: list[Any], other: bool = True) -> IngressSpec:
    return ORDERS.model_copy(
        update={"by": "shop", "values": tuple(values), "other": other, "inputs": len(values) + other}
    )


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["berlin", "paris"], ("berlin", "paris", "other")),
        (["d.2", "hall/3", "a:b@c+d-e_f"], ("d.2", "hall/3", "a:b@c+d-e_f", "other")),
        (["größe", "東京"], ("größe", "東京", "other")),
        (["north wing", "north%20wing", "a,b", '"'], ("north%20wing", "north%2520wing", "a%2Cb", "%22", "other")),
        (["\u202eabc", "e\u0301", "\u00e9"], ("%E2%80%AEabc", "e%CC%81", "é", "other")),
        (["", "other"], ("~0", "other", "other~2")),
        ([1, 0, -7], ("1", "0", "-7", "other")),
        ([True, False], ("true", "false", "other")),
        (["x" * 64, "x" * 65, "x" * 66], ("x" * 64, "x" * 64 + "~1", "x" * 64 + "~2", "other")),
        (["x" * 63 + " ", "x" * 62 + " "], ("x" * 63 + "~0", "x" * 62 + "~1", "other")),
    ],
)
def test_an_input_by_value_is_called_by_the_value(values: list[Any], names: tuple[str, ...]) -> None:
    assert by(values).input_names() == names
    assert by(values, other=False).input_names() == names[:-1]


VALUES = st.lists(st.text(max_size=80), min_size=1, max_size=8, unique=True)


@given(VALUES | st.lists(st.integers(), min_size=1, max_size=8, unique=True), st.booleans())
def test_names_of_inputs_are_all_different_and_one_word_each(values: list[Any], other: bool) -> None:
    names = by(values, other).input_names()
    assert len(set(names)) == len(names) == len(values) + other
    for name in names:
        assert 0 < len(name) <= 64 + len("~63")
        assert name.isprintable()
        assert not set(name) & set(" \t,;|&$'\"`\\()<>*?[]{}!#=")


def test_the_names_are_those_of_the_labels_of_every_node_and_no_part_of_the_hash() -> None:
    spec = shop(BY_SHOP)
    runs = physical(spec)
    assert [(i.name, i.shown, i.sources) for i in runs.inputs_of("sales")] == [
        ("orders.0", "orders.berlin", ("orders.berlin",)),
        ("orders.1", "orders.paris", ("orders.paris",)),
        ("orders.2", "orders.other", ("orders.other",)),
        ("till", "till", ("till",)),
    ]
    assert runs.hash == runs.model_copy(update={"input_names": {}}).hash
    assert AppSpec.from_json(runs.to_json()) == runs
    assert physical(shop(ORDERS.with_partitions(2))).input_names == {}


def test_a_node_behind_another_names_them_too() -> None:
    app = App("shop")
    orders = app.topic(
        "orders", "prod.orders", {"shop": "string", "at": "int64"}, stime="at", by="shop", values=["berlin"]
    )
    app.query("sales", orders.filter("at > 0").node("clean").filter("at > 1"))
    (stream,) = physical(app.describe()).inputs_of("sales")
    assert (stream.shown, stream.sources) == ("clean", ("orders.berlin", "orders.other"))
