"""A world copies the topics of other programs as their ingresses do, whatever fails."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.app.state import NoSuchApp
from borealis_py.testing import START_US, RefusedRow, TopicRecord, World, WorldError, run
from tests.examples import examples
from tests.testing.failures import Failure, ended, failures
from tests.testing.topics import ORDER, START_MS, order, orders

SECOND = 1_000_000
PATIENT = {"partitions": 2, "lateness": "500ms", "expect": "1s"}
"""What a silent producer kept is not late when it comes."""


def steady(count: int, every_ms: int = 200, shop: str = "berlin") -> list[TopicRecord]:
    return [order(n, n * every_ms, shop) for n in range(count)]


def ids(world: World) -> list[int]:
    return [row.value["id"] for row in world.corrected("ids")]


def two_shops(**how: object) -> App:
    app = App("shop")
    stime = {"stime": "at", "stime_unit": "ms", "lateness": "500ms", "partitions": 1, **how}
    berlin, paris = (app.topic(city, topic=f"prod.{city}", schema=ORDER, **stime) for city in ("berlin", "paris"))  # type: ignore[arg-type]
    app.query("ids", app.union(berlin, paris).map(id="id"), delay_threshold="3s", replicas=2)
    return app


@st.composite
def records(draw: st.DrawFn) -> list[TopicRecord]:
    """Records in the order of their times: rows, and some that are none."""
    found = []
    for n, at in enumerate(sorted(draw(st.lists(st.integers(0, 6_000), max_size=25)))):
        one = order(n, at, partition=draw(st.integers(0, 1)))
        spoilt = draw(st.integers(0, 9)) == 0
        found.append(TopicRecord(b"garbage %d" % n, one.partition, one.timestamp) if spoilt else one)
    return found


def what(letters: list[RefusedRow] | tuple[RefusedRow, ...]) -> Counter[tuple[str, str, bytes]]:
    return Counter((one.source, one.reason, one.raw) for one in letters)


@settings(max_examples=examples(8))
@given(
    records(),
    failures(("orders", "orders.1"), ("orders", "ingress-0", "ingress-1", "ids", "ids.r0")),
    st.integers(0, 1_000),
)
def test_a_world_of_a_topic_ends_as_if_nothing_had_failed(
    some: list[TopicRecord], suffered: list[Failure], seed: int
) -> None:
    expected = run(orders(**PATIENT), {"orders": some})
    with ended(orders(**PATIENT), {"orders": some}, suffered, seed) as world:
        assert repr(world.corrected("ids")) == repr(expected.corrected("ids"))
        assert what(world.dead_letters()) == what(expected.dead_letters)


def test_a_topic_that_cannot_be_read_is_missing_and_its_rows_are_not_late() -> None:
    some = {city: [order(n, n * 200) for n in range(60)] for city in ("berlin", "paris")}
    with World(two_shops()) as world:
        for city, rows in some.items():
            world.send(city, *rows)
        world.advance("3s")
        world.lose("paris", for_="5s")
        world.advance("5s")
        tentative = [change for change in world.live("ids") if change.kind == "TENTATIVE"]
        assert tentative
        assert {change.missing_sources for change in tentative} == {("paris.0",)}
        assert max(change.delay_us or 0 for change in tentative) < 3 * SECOND + 500_000  # X, and the lateness
        world.end()
        assert world.corrected("ids") == run(two_shops(), some).corrected("ids")
        assert world.dead_letters() == []


def test_producers_that_are_silent_for_longer_than_expected_are_missing() -> None:
    def missing(app: App) -> set[tuple[str, ...]]:
        with World(app) as world:
            for city in ("berlin", "paris"):
                world.send(city, *steady(60))
            world.advance("3s")
            world.kill("paris", for_="5s")
            world.advance("5s")
            found = {change.missing_sources for change in world.live("ids") if change.kind == "TENTATIVE"}
            world.end()
            assert len(world.corrected("ids")) + len(world.dead_letters()) == 120
            assert bool(world.dead_letters()) == (not found)  # silence that means nothing makes rows late
        return found

    assert missing(two_shops(expect="1s")) == {("paris.0",)}
    assert missing(two_shops()) == set()


def test_the_other_ingress_takes_over_in_time() -> None:
    with World(orders(partitions=1, lateness="500ms")) as world:
        world.send("orders", *steady(60))
        world.advance("2s")
        world.kill("ingress-0", for_="3s")
        world.advance("1s")
        before = len(ids(world))
        world.advance("5s")
        assert before < len(ids(world))
        assert {change.kind for change in world.live("ids")} == {"STABLE"}
        world.kill("ingress-0")
        world.kill("ingress-1")
        world.advance("4s")
        with pytest.raises(WorldError, match="ingress-0 does not run; ingress-1 does not run"):
            world.end(within="5s")
        world.heal()
        world.end()
        assert ids(world) == list(range(60))


def test_with_by_it_shows_which_value_is_silent() -> None:
    app = orders(by="shop", values=["berlin", "rome"], lateness="500ms", expect="1s")
    with World(app) as world:
        world.send("orders", *steady(50), *steady(50, shop="oslo"), *steady(10, shop="rome"))
        world.send("orders", *(order(100 + n, 5_000 + n * 100, partition=2) for n in range(3)))
        world.advance("8s")
        tentative = [change for change in world.live("ids") if change.kind == "TENTATIVE"]
        assert {change.missing_sources for change in tentative} == {("orders.rome",)}
        world.end()
        assert len(ids(world)) == 113
        assert world.dead_letters() == []


@pytest.mark.parametrize("name", ["orders.north%20wing", "orders.north wing"])
def test_with_by_an_input_is_lost_by_its_value_not_by_its_number(name: str) -> None:
    app = orders(by="shop", values=["berlin", "north wing"], other=False)
    with World(app) as world:
        with pytest.raises(NoSuchApp, match=r"input 'orders\.1' goes by its value: name 'orders\.north%20wing'"):
            world.lose("orders.1", for_="4s")
        with pytest.raises(NoSuchApp, match=r"no input 'orders\.brelin'; did you mean 'orders\.berlin'"):
            world.lose("orders.brelin", for_="4s")
        world.lose(name, for_="4s")
        world.send("orders", *steady(50))
        world.advance("4s")
        tentative = [change for change in world.live("ids") if change.kind == "TENTATIVE"]
        assert {change.missing_sources for change in tentative} == {("orders.north%20wing",)}
        world.end()
        assert ids(world) == list(range(50))


def test_rows_are_late_or_in_the_future_by_the_clock() -> None:
    with World(orders(partitions=1)) as world:
        late = TopicRecord({"id": 1, "at": START_MS}, timestamp="5s")
        ahead = TopicRecord({"id": 2, "at": START_MS + 90_000}, timestamp="1s")
        world.send("orders", late, ahead, order(3, 4_000), {"id": 4, "at": 2**41}, {"id": 5, "at": START_MS + 6_000})
        world.end()
        assert ids(world) == [3, 5]
        told = {json.loads(one.raw)["id"]: one.reason.split(":")[0] for one in world.dead_letters()}
        assert told == {1: "late", 2: "future", 4: "future"}


def test_a_row_without_stime_has_the_time_at_which_it_is_written() -> None:
    with World(orders(stime=None, stime_unit="us", partitions=1)) as world:
        world.advance("1s")
        world.send("orders", {"id": 1}, ("3s", {"id": 2}))
        world.end()
        stimes = [(row.stime - START_US) // 1_000 for row in world.corrected("ids")]
        assert stimes == [1_000, 3_000]


def test_heartbeats_keep_an_input_from_being_missing() -> None:
    def missing(beats: list[TopicRecord]) -> set[tuple[str, ...]]:
        with World(two_shops(expect="1s", heartbeat="shop = 'ping'")) as world:
            world.send("berlin", *steady(30))
            world.send("paris", *beats)
            world.advance("6s")
            found = {change.missing_sources for change in world.live("ids")}
            world.end()
            assert ids(world) == list(range(30))
            return found

    assert missing([order(n, n * 300, "ping") for n in range(20)]) == {()}
    assert ("paris.0",) in missing([])


def test_what_cannot_be_done_is_told() -> None:
    with World(orders(partitions=2)) as world:
        with pytest.raises(NoSuchApp, match=r"'orders\.0' is an input of topic 'orders'"):
            world.send("orders.0", {"id": 1})
        with pytest.raises(NoSuchApp, match=r"no source 'ordrs'; did you mean 'orders'\?"):
            world.lose("ordrs")
        with pytest.raises(WorldError, match=r"no process is called 'ingress-2'; did you mean 'ingress-"):
            world.kill("ingress-2")
        with pytest.raises(ValueError, match=r"stime='at': topic 'orders' says in app\.topic"):
            world.send("orders", {"id": 1}, stime="at")
        world.end()
        with pytest.raises(WorldError, match="source 'orders' has ended"):
            world.send("orders", {"id": 1})


@pytest.mark.parametrize("boundary", ["clock", "data"])
@pytest.mark.parametrize("lateness", ["24h", "25h", "7d", "366d"])
def test_rows_come_through_however_late_a_topic_may_be(lateness: str, boundary: str) -> None:
    def app() -> App:
        app = App("shop")
        how = {"stime": "at", "stime_unit": "ms", "partitions": 1, "lateness": lateness, "boundary": boundary}
        app.query("ids", app.topic("orders", topic="prod.orders", schema=ORDER, **how).map(id="id"))  # type: ignore[arg-type]
        return app

    rows = steady(10)
    with World(app()) as world:
        world.send("orders", *rows)
        world.advance("4s")
        world.end()
        assert ids(world) == list(range(10))
        assert not world.dead_letters()
    assert [row["id"] for row in run(app(), {"orders": rows})["ids"]] == list(range(10))


@pytest.mark.parametrize("lateness", ["0s", "25h", "366d"])
def test_a_table_is_found_however_late_its_topic_may_be(lateness: str) -> None:
    app = App("shop")
    asked = app.source("asked", schema={"id": "int64"})
    how = {"stime": "at", "stime_unit": "ms", "partitions": 1, "lateness": lateness}
    table = app.table("orders", key="id", topic="prod.orders", schema=ORDER, **how)  # type: ignore[arg-type]
    app.query("ids", asked.lookup(table, on="id").filter('"at" IS NOT NULL').map(id="id"))
    results = run(app, {"orders": steady(10), "asked": [("60s", {"id": n}) for n in range(10)]})
    assert [row["id"] for row in results["ids"]] == list(range(10))
