"""Prices of a table while it changes, is lost, and its readers die: production replicas in a world."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.testing import START_US, World, run
from borealis_py.testing.rows import TimedRow
from tests.examples import examples
from tests.testing.apps import audited
from tests.testing.failures import Failure, ended, failures

SECOND = 1_000_000


def shop(partitions: int | None = None) -> App:
    """Orders with the price of their item, and what each item has brought in a second."""
    app = App("shop")
    orders = app.source("orders", schema={"item": "string", "pieces": "int"})
    prices = app.table("prices", "item", {"item": "string", "price": "double", "gone": "bool"}, deleted="gone")
    by = None if partitions is None else "item"
    priced = (
        orders.lookup(prices, on="item")
        .map(item="item", euros="pieces * price")
        .node("priced", partitions=partitions, by=by)
    )
    app.query("sales", priced.window("1s").group_by("item").agg(orders="count(*)", euros="sum(euros)"))
    app.query("each", priced)
    return app


def price(at: str, euros: float | None, item: str = "tea") -> TimedRow:
    return at, {"item": item, "price": euros, "gone": euros is None}


def orders(count: int) -> list[TimedRow]:
    return [(f"{n * 200}ms", {"item": "tea", "pieces": 1}) for n in range(count)]


def test_a_lost_table_gives_the_prices_that_were_known_which_are_corrected_exactly() -> None:
    changes = [price("0s", 2.0), price("7s", 3.0), price("9s", None)]
    with World(shop()) as world:
        world.send("orders", *orders(80))
        world.send("prices", *changes)
        world.advance("5.5s")
        world.lose("prices", for_="6s")
        world.advance("6s")
        during = [change for change in world.live("each") if change.kind == "TENTATIVE"]
        assert {change.missing_sources for change in during} == {("prices",)}
        assert {row["euros"] for change in during for row in change.rows} == {2.0}
        assert max(change.bucket for change in during) > START_US // 100_000 + 95
        world.advance("3s")
        assert {status.state for status in world.status().values() if status is not None} == {"STABLE"}
        world.end()
        found = [(row.stime - START_US, row.value["euros"]) for row in world.corrected("each")]
        assert found == [(at, 2.0 if at < 7 * SECOND else 3.0 if at < 9 * SECOND else None) for at, _ in found]
        assert len(found) == 80
        expected = run(shop(), {"orders": orders(80), "prices": changes})
        for query in ("each", "sales"):
            assert repr(world.corrected(query)) == repr(expected.corrected(query))
        audited(world, "each", "sales")


SOURCES = ("orders", "prices")
PROCESSES = ("priced.0", "priced.1.r0", "sales.r1", "each", *SOURCES)
times = st.integers(0, 5_000).map(lambda ms: f"{ms}ms")
items = st.sampled_from(["tea", "rum", "oil", None])
rows = st.fixed_dictionaries(
    {
        "orders": st.lists(
            st.tuples(times, st.fixed_dictionaries({"item": items, "pieces": st.integers(1, 9)})), max_size=30
        ),
        "prices": st.lists(
            st.builds(price, times, st.one_of(st.none(), st.sampled_from([0.1, 1e16, 3.0])), items), max_size=15
        ),
    }
)


@settings(max_examples=examples(8))
@given(rows, failures(SOURCES, PROCESSES), st.integers(0, 1_000))
def test_a_world_with_a_table_ends_as_if_nothing_had_failed(
    some: dict[str, list[TimedRow]], suffered: list[Failure], seed: int
) -> None:
    expected = run(shop(), some)
    with ended(shop(partitions=2), some, suffered, seed) as world:
        assert repr(world.corrected("sales")) == repr(expected.corrected("sales"))
