"""A description is bytes that somebody else wrote: names in it become topics, paths and SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from borealis_py.query import App, QueryError
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec


def description() -> dict[str, Any]:
    app = App("shop", bucket="100ms")
    till = app.source("till", schema={"item": "string", "price": "double"})
    cleaned = till.filter("price > 0").map(item="item", price="price").node("cleaned")
    app.query("sums", cleaned.window("1s").group_by("item").agg(total="sum(price)"), delay_threshold="3s")
    found: dict[str, Any] = json.loads(app.describe().to_json())
    return found


def renamed(kind: str, old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(d: dict[str, Any]) -> None:
        d[kind][new] = d[kind].pop(old)

    return change


def columns(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(d: dict[str, Any]) -> None:
        d["sources"]["till"] = dict.fromkeys(names, "string")

    return change


def step(op: str, field: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Of all nodes, change this field of every step of this kind."""

    def change(d: dict[str, Any]) -> None:
        steps = [one for kind in ("nodes", "queries") for node in d[kind].values() for one in node["plan"]]
        for one in steps:
            if one["op"] == op:
                one[field] = value

    return change


BAD = ("../evil", "/etc/x", "a/b", "..", "", "a b", "é", "q.", "q.01", "q.-1", "q.0.r1", "q.1x", "control", "a" * 101)


def test_what_up_writes_is_read_back() -> None:
    spec = AppSpec.from_json(json.dumps(description()))
    assert AppSpec.from_json(physical(spec).to_json()) == physical(spec)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("kind", "old"), [("sources", "till"), ("nodes", "cleaned"), ("queries", "sums")])
def test_a_name_that_could_lead_elsewhere_is_refused(kind: str, old: str, bad: str) -> None:
    found = description()
    renamed(kind, old, bad)(found)
    with pytest.raises(QueryError, match="not an app's description"):
        AppSpec.from_json(json.dumps(found))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(name="../shop"),
        lambda d: d.update(name="shop.0"),
        lambda d: d.update(bucket_us=0),
        lambda d: d["queries"]["sums"].update(replicas=0),
        lambda d: d["queries"]["sums"].update(partitions={"by": ["item"], "count": 0}),
        columns("x\" FROM read_text('/etc/passwd') --"),
        columns("stime"),
        columns("__seq"),
        columns("a", "A"),
        columns(),
        lambda d: d["sources"]["till"].update(item="TEXT"),
        lambda d: d["sources"]["till"].update(item="STRUCT(a INT)"),
        step("map", "columns", [['a"b', "item"]]),
        step("window", "keys", ["item; --"]),
        step("window", "aggregates", [["to tal", "sum(price)"]]),
    ],
)
def test_so_is_anything_else_that_no_app_of_ours_has(change: Callable[[dict[str, Any]], None]) -> None:
    found = description()
    change(found)
    with pytest.raises(QueryError, match="not an app's description"):
        AppSpec.from_json(json.dumps(found))
