"""Count and session windows while an input is lost and replicas die: production replicas in a world."""

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
SOURCES = ("web", "till")


def shop(partitions: int | None = None) -> App:
    """Every four orders of a shop; its busy times; and how many of these there were in five seconds."""
    app = App("shop")
    orders = app.union(*(app.source(name, schema={"shop": "string", "euros": "double"}) for name in SOURCES))
    app.query("fours", orders.window(rows=4).group_by("shop").agg(euros="sum(euros)", all="list(euros)"))
    by = None if partitions is None else "shop"
    visits = orders.window(gap="700ms", most="3s").group_by("shop").agg(orders="count(*)", euros="sum(euros)")
    visits = visits.node("visits", partitions=partitions, by=by)
    app.query("each", visits)
    app.query("busy", visits.window("5s").agg(visits="count(*)", euros="sum(euros)"))
    return app


def order(at: str, shop_: str | None, euros: float) -> TimedRow:
    return at, {"shop": shop_, "euros": euros}


def test_windows_that_lacked_an_input_name_it_and_are_corrected_exactly() -> None:
    rows = {
        "web": [order(f"{n * 300}ms", "mitte", 1.0) for n in range(50)],
        "till": [order(f"{n * 500}ms", "mitte", 0.1) for n in range(30)],
    }
    with World(shop()) as world:
        for source in SOURCES:
            world.send(source, *rows[source])
        world.advance("5.5s")
        world.lose("till", for_="6s")
        world.advance("6s")
        for query in ("fours", "each"):
            during = [change for change in world.live(query) if change.kind == "TENTATIVE"]
            assert {change.missing_sources for change in during} == {("till",)}
            assert all(change.rows for change in during)
            assert max(change.bucket for change in during) > START_US // 100_000 + 85
        world.advance("4s")
        assert {status.state for status in world.status().values() if status is not None} == {"STABLE"}
        world.end()
        expected = run(shop(), rows)
        for query in ("fours", "each", "busy"):
            assert repr(world.corrected(query)) == repr(expected.corrected(query))
        fours = world.corrected("fours")
        assert [row.value["all"] for row in fours[:2]] == [[1.0, 0.1, 1.0, 0.1], [1.0, 1.0, 0.1, 1.0]]
        assert len(fours) == 80 // 4
        ends = [row.value["window_end"] - START_US for row in world.corrected("each")]
        assert ends == [3 * SECOND, 6 * SECOND, 9 * SECOND, 12 * SECOND, 15 * SECOND]
        audited(world, "fours", "each", "busy")


PROCESSES = ("fours.r0", "visits.0", "visits.1.r1", "each", "busy.r0", *SOURCES)
orders_of = st.lists(
    st.builds(
        order,
        st.integers(0, 5_000).map(lambda ms: f"{ms}ms"),
        st.sampled_from(["mitte", "nord", None]),
        st.sampled_from([0.1, 1e16, 3.0]),
    ),
    max_size=30,
)


@settings(max_examples=examples(8))
@given(st.fixed_dictionaries(dict.fromkeys(SOURCES, orders_of)), failures(SOURCES, PROCESSES), st.integers(0, 1_000))
def test_a_world_with_windows_of_keys_ends_as_if_nothing_had_failed(
    some: dict[str, list[TimedRow]], suffered: list[Failure], seed: int
) -> None:
    expected = run(shop(), some)
    with ended(shop(partitions=2), some, suffered, seed) as world:
        for query in ("fours", "busy"):
            assert repr(world.corrected(query)) == repr(expected.corrected(query))
