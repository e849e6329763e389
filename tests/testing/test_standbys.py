"""Worlds whose nodes have standbys: mixed chains, what readers see while nobody runs, and what amnesia loses."""

from __future__ import annotations

import pytest

from borealis_py import App, QueryError
from borealis_py.simulation.cluster.roles import StandbyProcess
from borealis_py.testing import START_US, ShownChange, World, run
from tests.testing.apps import SALE, audited, sales

MS, SECOND = 1_000, 1_000_000
USUAL_US = 50 * MS
"""Far more than a result takes from its bucket's end to a subscriber when nothing fails."""
WAYS = ("active", "active-standby", "passive-standby", "upstream-backup")
CITIES = ("berlin", "paris")
BOTH = {city: sales(120, every_ms=100) for city in CITIES}


def chain(cut: str, query: str, threshold: str = "3s") -> App:
    """Sales of two cities, cleaned by a node, beside those of a third one, which the query reads itself."""
    app = App("shop")
    clean = app.union(*(app.source(city, SALE) for city in CITIES)).filter("euros > 0").node("clean", recovery=cut)
    both = app.union(clean, app.source("rome", SALE))
    sums = both.window("1s", every="100ms").group_by("item").agg(sold="count(*)", euros="sum(euros)")
    app.query("sales", sums, threshold, recovery=query)
    return app


def sent(world: World) -> dict[str, list[tuple[str, dict[str, object]]]]:
    rows = {**BOTH, "rome": sales(120, every_ms=100, euros=1.25)}
    for source, some in rows.items():
        world.send(source, *some)
    return rows


def runs(world: World, node: str) -> str:
    """The replica of a node that runs."""
    found = [name for name, status in world.status().items() if status and status.state == "STABLE"]
    return next(name for name in found if name.startswith(f"{node}."))


def since(world: World, at_us: int) -> list[ShownChange]:
    return [change for change in world.live("sales") if change.shown_us >= at_us]


@pytest.mark.parametrize(
    ("cut", "query"),
    [(WAYS[0], WAYS[2]), (WAYS[1], WAYS[3]), (WAYS[2], WAYS[1]), (WAYS[2], WAYS[3]), (WAYS[3], WAYS[0]), WAYS[3:1:-1]],
)
def test_nodes_of_one_chain_may_recover_in_different_ways(cut: str, query: str) -> None:
    app = chain(cut, query)
    with World(app) as world:
        rows = sent(world)
        for node, after in (("clean", "3050ms"), ("sales", "2500ms"), ("clean", "1s")):
            world.advance(after)
            world.kill(runs(world, node), for_="1500ms")
        world.end()
        assert world.corrected("sales") == run(app, rows).corrected("sales")
        assert {change.kind for change in world.live("sales")} == {"STABLE"}, "X hides each of these crashes"
        audited(world, "sales")


@pytest.mark.parametrize("way", [way for way in WAYS if way != "active"])
def test_one_replica_runs_and_who_stands_by_takes_over(way: str) -> None:
    with World(chain(way, "active")) as world:
        sent(world)
        world.advance("3050ms")
        first, states = runs(world, "clean"), world.status()
        other = "clean.r1" if first == "clean.r0" else "clean.r0"
        assert states[other] is not None
        assert states[other].state == "STANDBY"
        idle = isinstance(world._app.replicas[other].current, StandbyProcess)
        assert idle == (way != "active-standby"), "only an active standby computes"
        at_us = world.now
        world.kill(first, for_="3s")
        world.advance("2s")
        assert runs(world, "clean") == other
        still_us = max(change.delay_us or 0 for change in since(world, at_us))
        assert USUAL_US < still_us < SECOND, "it is noticed, and soon"
        world.advance("3s")
        assert runs(world, "clean") == other, "who comes back stands by"


@pytest.mark.parametrize("way", WAYS)
def test_while_nobody_runs_for_longer_than_x_results_are_tentative_and_corrected_later(way: str) -> None:
    app = chain(way, "active", threshold="600ms")
    with World(app) as world:
        rows = sent(world)
        world.advance("3050ms")
        world.kill("clean", for_="2s")
        world.advance("2s")
        during = since(world, START_US + 3 * SECOND + 600 * MS)
        assert {change.kind for change in during} == {"TENTATIVE"}
        assert {change.missing_sources for change in during} == {CITIES}
        assert max(change.delay_us or 0 for change in during) < 600 * MS
        world.end()
        assert world.corrected("sales") == run(app, rows).corrected("sales")
        final = {change.bucket: change for change in world.live("sales") if change.kind == "STABLE"}
        assert all(final[change.bucket].rows != change.rows for change in during), "every one was corrected"
        audited(world, "sales")


def test_a_silent_standby_costs_readers_their_wait_once() -> None:
    """B15: before each other bucket the next node would wait for what the standby may still say as stable."""
    later: dict[str, list[int]] = {}
    for way in ("active", "active-standby", "passive-standby"):
        with World(chain(way, "active")) as world:
            sent(world)
            world.advance("3050ms")
            world.lose("paris", for_="7s")
            world.advance("7s")
            told = [change for change in since(world, START_US + 3 * SECOND) if change.kind == "TENTATIVE"]
            assert told[0].delay_us is not None
            assert told[0].delay_us < 3 * SECOND
            later[way] = [change.delay_us or 0 for change in told if change.shown_us > START_US + 7 * SECOND]
            world.end()
    usual = max(later["active"])
    assert all(delays and max(delays) < usual + USUAL_US for delays in later.values()), later


def test_a_way_that_check_refuses_is_refused_by_tests_too() -> None:
    app = App("shop")
    rows = app.source("berlin", SALE)
    app.query("tens", rows.window(rows=10).agg(sold="count(*)"), recovery="upstream-backup")
    for made in (World, lambda app: run(app, {})):
        with pytest.raises(
            QueryError, match=r"query 'tens': upstream-backup .* its window\(rows=10\) may stand on any"
        ):
            made(app)


def test_what_amnesia_loses_is_named_wherever_a_test_looks() -> None:
    app = App("shop")
    sums = app.source("berlin", SALE).window("1s").group_by("item").agg(sold="count(*)")
    app.query("sales", sums, recovery="amnesia", guarantee="gap")
    with World(app) as world:
        world.send("berlin", *BOTH["berlin"])
        world.advance("5200ms")
        world.kill(runs(world, "sales"), for_="2s")
        world.end()
        shown = world.live("sales")
        gaps = [(change.bucket, change.end) for change in shown if change.kind == "GAP"]
        assert gaps
        lost = {bucket for first, end in gaps for bucket in range(first, end)}
        truth = run(app, {"berlin": BOTH["berlin"]}).corrected("sales")
        kept = [row for row in truth if int(row.id.partition(":")[0]) not in lost]
        assert world.corrected("sales") == kept
        assert 0 < len(truth) - len(kept) <= 2, "the window that nobody ran, and the one that stands on it"
        assert [letter.reason[:4] for letter in world.dead_letters()] == ["gap:"]
        audited(world, "sales")
