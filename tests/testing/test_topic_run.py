"""`run` reads the topics of other programs as their ingresses do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import CSV, App, QueryError
from borealis_py.app.check import check
from borealis_py.app.state import NoSuchApp
from borealis_py.protocol.settings import Timing
from borealis_py.testing import START_US, Results, TopicRecord, World, run
from tests.examples import examples
from tests.testing.topics import ORDER, START_MS, copied, ids_of, order, orders

LATE = "late: stime {} is before the boundary {}"


def ids(results: Results) -> list[int | None]:
    return [row["id"] for row in results["ids"]]


def at(ms: int) -> dict[str, int]:
    return {"at": START_MS + ms}


records = st.lists(
    st.builds(
        order, st.just(0), st.integers(0, 9_000), st.sampled_from(["berlin", "paris", "rome"]), st.integers(0, 2)
    ),
    max_size=40,
)


def numbered(some: list[TopicRecord]) -> list[TopicRecord]:
    values: list[Mapping[str, Any]] = [one.value for one in some]  # type: ignore[misc]
    return [
        TopicRecord({**value, "id": n}, one.partition, one.timestamp)
        for n, (one, value) in enumerate(zip(some, values, strict=True))
    ]


@settings(max_examples=examples(25))
@given(records)
def test_rows_are_copied_in_time_and_in_order_of_each_partition(some: list[TopicRecord]) -> None:
    given = numbered(some)
    rows, late = copied(given)
    results = run(orders(partitions=3), {"orders": given})
    assert ids(results) == rows
    assert sorted(ids_of(results.dead_letters)) == late
    assert {letter.source for letter in results.dead_letters} <= {"orders.0", "orders.1", "orders.2"}
    assert all(letter.reason.startswith("late: ") for letter in results.dead_letters)


@settings(max_examples=examples(15))
@given(records)
def test_with_by_each_value_is_an_input_and_all_wait_for_the_one_partition(some: list[TopicRecord]) -> None:
    given = [TopicRecord(one.value, timestamp=one.timestamp) for one in numbered(some)]
    place = {"paris": 0, "berlin": 1, "rome": 2}
    values = {one.value["id"]: one.value for one in given}  # type: ignore[index,call-overload]
    rows, late = copied(given)
    rows.sort(key=lambda n: (values[n]["at"], place[values[n]["shop"]], n))  # type: ignore[index,call-overload]
    results = run(orders(by="shop", values=["paris", "berlin"]), {"orders": given})
    assert ids(results) == rows
    assert sorted(ids_of(results.dead_letters)) == late
    told = {(letter.source, json.loads(letter.raw)["shop"]) for letter in results.dead_letters}
    assert told <= {(f"orders.{n}", shop) for shop, n in place.items()}


def test_records_are_read_by_the_rules_of_topics() -> None:
    app = App("shop")
    schema = {"id": "int64", "weight": "double", "euros": "decimal(12,2)", "at": "timestamp"}
    read = app.topic("orders", topic="prod.orders", schema=schema, stime="at")
    app.query("rows", read.map(id="id", weight="weight", euros="euros"))
    results = run(
        app,
        {
            "orders": [
                {"id": 1, "weight": 3, "euros": Decimal("1.10"), "at": "2026-01-01T00:00:00Z", "unknown": [1]},
                {"at": "2026-01-01T00:00:01Z"},
                b'{"id": 3, "euros": 0.30, "at": "2026-01-01T00:00:02Z"}',
                b"nonsense",
                {"id": "three", "at": "2026-01-01T00:00:02Z"},
                {"id": 4},
                TopicRecord(None),
            ]
        },
    )
    assert results["rows"] == [
        {"id": 1, "weight": 3.0, "euros": "1.10"},
        {"id": None, "weight": None, "euros": None},
        {"id": 3, "weight": None, "euros": "0.30"},
    ]
    assert [(letter.source, letter.reason, letter.raw) for letter in results.dead_letters] == [
        (
            "orders.0",
            "malformed: not JSON: JSON is malformed: invalid character (byte 4); let the producer write a JSON object; "
            "of a topic, format='csv' or 'text' reads lines",
            b"nonsense",
        ),
        (
            "orders.0",
            "malformed: column 'id': Expected `int | null`, got `str` ('three'); make the column string",
            b'{"id":"three","at":"2026-01-01T00:00:02Z"}',
        ),
        ("orders.0", "stime missing", b'{"id":4}'),
        ("orders.0", "no value: a tombstone is no row", b""),
    ]


def test_without_stime_a_rows_time_is_its_records_in_kafka() -> None:
    app = orders(stime=None, stime_unit="us")
    given = [{"id": 1}, ("0.4s", {"id": 2}), TopicRecord({"id": 3}, timestamp="2026-01-01T00:00:01.5")]
    found = run(app, {"orders": given}).corrected("ids")
    assert [(row.value["id"], row.stime - START_US) for row in found] == [(1, 0), (2, 400_000), (3, 1_500_000)]
    spread = run(app, {"orders": [{"id": n} for n in range(3)]}, every="100ms").corrected("ids")
    assert [row.stime - START_US for row in spread] == [0, 100_000, 200_000]


def test_lateness_is_the_topics_and_not_that_of_publishers() -> None:
    some = [order(1, 5_000), order(2, 3_900), order(3, 2_900), order(4, 9_000)]
    assert ids_of(run(orders(lateness="1s"), {"orders": some}, lateness="0s").dead_letters) == [2, 3]
    late = run(orders(), {"orders": some}).dead_letters
    assert [letter.reason for letter in late] == [LATE.format(START_US + 2_900_000, START_US + 3_000_000)]


def test_heartbeat_records_are_no_rows() -> None:
    some = [{"id": 1, **at(0)}, {"id": 2, "shop": "ping", **at(100)}, {"id": 3, **at(200)}]
    results = run(orders(heartbeat="shop = 'ping'", expect="1s"), {"orders": some})
    assert (ids(results), results.dead_letters) == ([1, 3], ())


def test_a_time_in_another_unit_is_told() -> None:
    some = [{"id": 1, **at(0)}, {"id": 2, "at": START_MS // 1_000}]
    (letter,) = run(orders(), {"orders": some}).dead_letters
    assert letter.reason.endswith('1767225600 looks like seconds and is read as milliseconds: set stime_unit="s"')


def test_years_may_lie_between_rows_in_any_partition() -> None:
    day = 86_400_000
    some = [order(n, n * 400 * day, partition=n % 2) for n in range(6)]
    results = run(orders(partitions=2), {"orders": some})
    assert (ids(results), results.dead_letters) == ([0, 1, 2, 3, 4, 5], ())
    by = run(orders(by="shop", values=["paris"]), {"orders": some})
    assert (ids(by), by.dead_letters) == ([0, 1, 2, 3, 4, 5], ())


def test_partitions_that_were_filled_one_after_the_other_are_copied_in_step() -> None:
    some = [order(p * 100 + n, n * 1_000, "rome" if p else "paris", p) for p in (0, 1) for n in range(90)]
    for how in ({"partitions": 2}, {"by": "shop", "values": ["paris"]}, {"boundary": "data", "partitions": 2}):
        results = run(orders(**how), {"orders": some})
        assert results.dead_letters == ()
        assert ids(results) == [p * 100 + n for n in range(90) for p in (0, 1)]


def test_bytes_are_in_the_topics_format() -> None:
    csv = orders(format=CSV(fields=["id", "note", "shop", "at"], delimiter=";"))
    line = f"7;a note;rome;{START_MS}".encode()
    results = run(csv, {"orders": [line, b"x;;;"]})
    assert results["ids"] == [{"id": 7, "shop": "rome"}]
    assert [letter.raw for letter in results.dead_letters] == [b"x;;;"]
    with pytest.raises(TypeError, match="record 1 of 'orders' is a dict, and the topic's format is 'csv': give bytes"):
        run(csv, {"orders": [line, {"id": 7}]})
    assert ids(run(orders(format="json-schema"), {"orders": [{"id": 8, **at(0)}]})) == [8]


def test_rows_of_a_topic_whose_schema_a_registry_has_are_dicts() -> None:
    app = orders(format="protobuf")
    assert ids(run(app, {"orders": [{"id": 8, **at(0)}]})) == [8]
    with pytest.raises(TypeError, match=r"record 0 of 'orders' is bytes in the format 'protobuf'.*: give dicts"):
        run(app, {"orders": [b"\0\0\0\0\1\0"]})


def test_two_sources_of_one_topic_read_the_same_records() -> None:
    app = App("shop")
    first, second = (app.topic(name, topic="prod.orders", schema=ORDER) for name in ("first", "second"))
    app.query("both", app.union(first, second).map(id="id"))
    assert [row["id"] for row in run(app, {"first": [{"id": 1}]})["both"]] == [1, 1]


def test_topics_and_publishers_go_together() -> None:
    app = App("shop")
    read = app.topic("orders", topic="prod.orders", schema=ORDER, stime="at", stime_unit="ms")
    till = app.source("till", schema=ORDER)
    app.query("ids", app.union(read, till).map(id="id"))
    some = {"orders": [{"id": 2, **at(1_000)}], "till": [("2s", {"id": 3, "shop": None, "at": None})]}
    assert ids(run(app, some)) == [2, 3]


def test_names_and_records_that_are_wrong_are_told_with_what_would_be_right() -> None:
    app = orders(partitions=2)
    with pytest.raises(NoSuchApp, match=r"no source 'ordrs'; did you mean 'orders'\?"):
        run(app, {"ordrs": []})
    with pytest.raises(NoSuchApp, match=r"'orders\.1' is an input of topic 'orders': give its rows as 'orders'"):
        run(app, {"orders.1": []})
    with pytest.raises(ValueError, match=r"partition 2, but the topic has 2 in this test: say partitions=3 in app"):
        run(app, {"orders": [TopicRecord({"id": 1}, partition=2)]})
    with pytest.raises(ValueError, match="record 0 of 'orders': -1 is no partition"):
        run(app, {"orders": [TopicRecord({"id": 1}, partition=-1)]})
    with pytest.raises(ValueError, match="record 1 of 'orders': 'noon' is no time"):
        run(app, {"orders": [{"id": 1}, ("noon", {"id": 1})]})
    with pytest.raises(TypeError, match="record 0 of 'orders' is 5; give a dict or bytes"):
        run(app, {"orders": [5]})  # type: ignore[list-item]
    with pytest.raises(TypeError, match="record 0 of 'orders' cannot be written as JSON"):
        run(app, {"orders": [{"id": object()}]})


def different_latenesses() -> App:
    app = App("shop")
    read = [app.topic(name, topic=name, schema=ORDER, lateness=late) for name, late in (("a", "10s"), ("b", "1s"))]
    app.query("ids", app.union(*read).map(id="id"), delay_threshold="3s")
    return app


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: orders(expect="2.8s", partitions=1), "has expect 2800ms, but the query waits 2750ms for an input"),
        (different_latenesses, "source 'a' has lateness 10s, source 'b' 1s, and the query waits 2750ms"),
        (lambda: orders(heartbeat="kind = 'ping'", partitions=1), "kind"),
    ],
)
def test_an_app_that_check_refuses_for_its_topics_is_refused_in_the_same_words(build: Any, words: str) -> None:
    app = build()
    with pytest.raises(QueryError, match=words) as checked:
        check(app.describe(), Timing())
    for refused in (lambda: run(app, {}), lambda: World(app)):
        with pytest.raises(QueryError) as ran:
            refused()
        assert str(ran.value) == str(checked.value)
