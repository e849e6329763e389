"""A world runs a user's app through failures: what live subscribers were shown, when, and what was corrected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from borealis_py import QueryError
from borealis_py.app.state import NoSuchApp
from borealis_py.protocol.settings import SettingsError
from borealis_py.testing import START_US, ShownChange, World, WorldError, run, to_stime
from borealis_py.testing.rows import TimedRow
from tests.testing.apps import audited, network, sales, shop

MS, SECOND = 1_000, 1_000_000
TEA = {"item": "tea", "euros": 2.5}
BOTH = {"berlin": sales(100), "paris": sales(100, euros=3.5)}
USUAL_US = 50 * MS
"""Far more than a result takes from its window's end to a subscriber when nothing fails."""


@pytest.fixture
def world() -> Iterator[World]:
    """The shop, with 20 s of sales of both cities to come."""
    with World(shop()) as made:
        for source, rows in BOTH.items():
            made.send(source, *rows)
        yield made


def kinds(shown: list[ShownChange]) -> list[str]:
    return [change.kind for change in shown]


def states(world: World) -> dict[str, str | None]:
    return {name: None if status is None else status.state for name, status in world.status().items()}


def test_without_failures_every_result_is_stable_and_on_time(world: World) -> None:
    assert world.now == START_US
    world.advance("5.5s")
    shown = world.live("sales")
    assert kinds(shown) == ["STABLE"] * 5
    assert all(change.delay_us is not None and 0 < change.delay_us < USUAL_US for change in shown)
    assert [change.rows for change in shown] == [[row.value] for row in world.corrected("sales")]
    assert states(world) == {"sales.r0": "STABLE", "sales.r1": "STABLE"}
    assert world.dead_letters() == []


def test_a_lost_input_gives_labelled_results_in_time_which_are_corrected_exactly(world: World) -> None:
    world.advance("5.5s")
    world.lose("paris", for_="8s")
    world.advance("8s")
    assert states(world) == {"sales.r0": "UPSTREAM_FAILURE", "sales.r1": "UPSTREAM_FAILURE"}
    during = [change for change in world.live("sales") if change.shown_us > START_US + 5 * SECOND + USUAL_US]
    assert set(kinds(during)) == {"TENTATIVE"}
    assert {change.missing_sources for change in during} == {("paris",)}
    assert {change.completeness for change in during} == {0.5}
    assert all(change.delay_us is not None and change.delay_us < 3 * SECOND for change in during)
    assert max(change.delay_us or 0 for change in during) > 2 * SECOND, "it waited once for what it lacked"
    assert len(world.corrected("sales")) == 5, "corrected rows wait"

    world.advance("2s")
    assert states(world) == {"sales.r0": "STABLE", "sales.r1": "STABLE"}
    shown = world.live("sales")
    undone = kinds(shown).index("UNDO")
    stable = {change.bucket: change.rows for change in shown[undone:] if change.kind == "STABLE"}
    assert all(stable[change.bucket] for change in during), "every tentative bucket was replaced"

    world.end()
    assert world.corrected("sales") == run(shop(), BOTH).corrected("sales")
    final = {change.bucket: change.rows for change in world.live("sales") if change.kind == "STABLE"}
    assert [row for rows in final.values() for row in rows] == [row.value for row in world.corrected("sales")]
    audited(world, "sales")


def test_a_short_loss_is_waited_for(world: World) -> None:
    world.advance("4700ms")  # 300 ms before a window ends
    world.lose("paris", for_="1500ms")
    world.advance("5s")
    shown = world.live("sales")
    assert set(kinds(shown)) == {"STABLE"}
    assert max(change.delay_us or 0 for change in shown) > SECOND


def test_a_loss_lasts_until_it_is_healed_and_a_second_one_does_not_shorten_it(world: World) -> None:
    world.lose("paris")
    world.lose("paris", for_="1s")
    world.advance("6s")
    assert states(world)["sales.r0"] == "UPSTREAM_FAILURE"
    said = r"3s after the last row sales is corrected only up to 2025-12-31T23:59:59.*; paris is lost$"
    with pytest.raises(WorldError, match=said):
        world.end(within="3s")
    world.heal()
    world.end()
    assert world.corrected("sales") == run(shop(), BOTH).corrected("sales")


def test_a_replica_that_is_killed_changes_nothing_that_anybody_sees(world: World) -> None:
    world.advance("5s")
    world.kill("sales.r0", for_="3s")
    world.advance("2s")
    assert states(world) == {"sales.r0": None, "sales.r1": "STABLE"}
    world.advance("4s")
    assert states(world) == {"sales.r0": "STABLE", "sales.r1": "STABLE"}
    status = world.status()["sales.r0"]
    assert status is not None
    assert status.inc == 2
    assert set(kinds(world.live("sales"))) == {"STABLE"}
    world.end()
    assert world.corrected("sales") == run(shop(), BOTH).corrected("sales")


def test_while_all_replicas_are_dead_nothing_is_shown_and_all_of_it_comes_later(world: World) -> None:
    world.advance("5.5s")
    world.kill("sales")
    world.advance("5s")
    assert states(world) == {"sales.r0": None, "sales.r1": None}
    assert len(world.live("sales")) == len(world.corrected("sales")) == 5
    world.heal()
    world.advance("3s")
    assert len(world.corrected("sales")) == 13
    world.end()
    assert world.corrected("sales") == run(shop(), BOTH).corrected("sales")


def test_a_paused_replica_goes_on_where_it_stood(world: World) -> None:
    world.advance("5s")
    world.pause("sales.r0", for_="4s")
    world.advance("3s")
    status = world.status()["sales.r0"]
    assert status is not None
    assert status.at_wall_us < world.now - 2 * SECOND, "it says nothing"
    assert set(kinds(world.live("sales"))) == {"STABLE"}
    world.advance("3s")
    again = world.status()["sales.r0"]
    assert again is not None
    assert (again.inc, again.state) == (1, "STABLE")


def test_rows_of_a_publisher_that_was_killed_come_later_each_once_at_their_times(world: World) -> None:
    world.advance("3.3s")
    world.kill("paris", for_="4s")
    world.send("paris", {"item": "cake", "euros": 1.0})
    now = world.now
    world.advance("2s")
    world.kill("paris", for_="4s")
    world.send("paris", {"item": "bun", "euros": 1.0})
    world.end()
    more: list[TimedRow] = [(now, {"item": "cake", "euros": 1.0}), (now + 2 * SECOND, {"item": "bun", "euros": 1.0})]
    assert world.dead_letters() == []
    assert world.corrected("sales") == run(shop(), {**BOTH, "paris": [*BOTH["paris"], *more]}).corrected("sales")
    assert "TENTATIVE" in kinds(world.live("sales"))


def test_rows_happen_when_they_are_sent_or_at_their_time(world: World) -> None:
    with World(shop()) as other:
        other.advance("1.25s")
        other.send("paris", TEA, ("2.5s", TEA), {**TEA, "at": "2026-01-01T00:00:03.5"}, stime=None)
        other.send("paris", {**TEA, "at": "2026-01-01T00:00:04.5"}, stime="at")
        other.advance("5s")
        rows = other.corrected("sales")
    assert [(row.value["window_start"], row.value["sold"]) for row in rows] == [
        (to_stime("1s"), 2),
        (to_stime("2s"), 1),
        (to_stime("4s"), 1),
    ]


def test_a_row_that_is_sent_after_its_time_is_late_unless_the_lateness_allows_it() -> None:
    for lateness, late in (("0s", 2), ("2s", 1)):
        with World(shop(), lateness=lateness) as world:
            world.advance("5s")
            world.send("berlin", ("3.5s", TEA), ("1s", {"item": "late", "euros": 1.0}), {"item": 7, "euros": 1.0})
            world.advance("5s")
            assert len(world.corrected("sales")) == 2 - late
            refused = world.dead_letters()
            assert [one.reason[:5] for one in refused] == ["late:"] * late + ["malfo"]
            assert refused[-2].raw == b'{"item":"late","euros":1.0}'


def test_a_threshold_changes_how_long_results_wait(world: World) -> None:
    world.set_threshold("sales", "1s")
    world.advance("5s")
    world.lose("paris", for_="5s")
    world.advance("5s")
    tentative = [change for change in world.live("sales") if change.kind == "TENTATIVE"]
    assert max(change.delay_us or 0 for change in tentative) < SECOND
    status = world.status()["sales.r1"]
    assert status is not None
    assert status.threshold_us == SECOND


def test_the_same_seed_is_the_same_history_and_another_seed_another_one() -> None:
    def history(seed: int) -> tuple[list[ShownChange], Mapping[str, int]]:
        with World(shop(), seed=seed) as world:
            world.send("berlin", *sales(30))
            world.advance("2s")
            world.kill("sales.r1", for_="1s")
            world.lose("paris", for_="5s")
            world.advance("7s")
            return world.live("sales"), {n: s.at_wall_us for n, s in world.status().items() if s is not None}

    assert history(3) == history(3)
    assert history(3) != history(4)


def test_a_network_in_partitions_loses_one_source_and_a_node() -> None:
    rows: dict[str, list[TimedRow]] = {
        "web.0": [(f"{n * 70}ms", {"item": str(n % 3), "euros": n * 1.1}) for n in range(60)],
        "web.1": [(f"{n * 90}ms", {"item": str(n % 5), "euros": n * 7.7 if n % 4 else None}) for n in range(60)],
        "till": [(f"{n * 110}ms", {"item": "x" if n == 9 else "1", "euros": n / 7}) for n in range(40)],
    }
    with World(network()) as world:
        for source, some in rows.items():
            world.send(source, *some)
        world.advance("1s")
        world.lose("web.1", for_="4s")
        world.kill("parts.0", for_="2s")
        world.pause("cleaned.r0", for_="1s")
        world.advance("3.8s")
        tentative = [change for change in world.live("totals") if change.kind == "TENTATIVE"]
        assert tentative
        assert all("web.1" in change.missing_sources or change.partition == 0 for change in tentative)
        assert "TENTATIVE" not in kinds(world.live("till_only")), "it reads nothing that was lost"
        world.end()
        results = run(network(), rows)
        for query in ("totals", "big", "till_only"):
            assert world.corrected(query) == results.corrected(query)
            assert results[query]
        assert sorted(world.dead_letters(), key=repr) == sorted(results.dead_letters, key=repr)
        audited(world, "totals", "big", "till_only")


def test_the_end_waits_for_the_dead_letters_of_a_node_that_was_killed() -> None:
    rows: list[TimedRow] = [("100ms", {"item": "x", "euros": 1.0}), ("900ms", {"item": "x", "euros": 2.0})]
    with World(network(), seed=856) as world:
        world.send("web.0", *rows)
        world.advance("104ms")
        world.kill("cleaned", for_="3636ms")
        world.advance("4460ms")
        world.kill("cleaned", for_="3636ms")
        world.end()
        assert [one.source for one in world.dead_letters()] == ["cleaned"] * 2


def test_what_a_world_cannot_do_is_told_by_name(world: World) -> None:
    with pytest.raises(NoSuchApp, match="no source 'pari'; did you mean 'paris'"):
        world.send("pari", TEA)
    with pytest.raises(NoSuchApp, match="no source 'sales'"):
        world.lose("sales", "1s")
    said = r"no process is called 'sales.r2'; did you mean .*'sales.r1'.* names: sales.r0, .*, sales, berlin, paris"
    with pytest.raises(WorldError, match=said):
        world.kill("sales.r2")
    with pytest.raises(QueryError, match="advance: '5' has no unit"):
        world.advance("5")
    with pytest.raises(QueryError, match="has no query 'sale'; did you mean 'sales'"):
        world.live("sale")
    with pytest.raises(QueryError, match="has no query 'sale'"):
        world.corrected("sale")
    with pytest.raises(SettingsError, match="query 'sales'"):
        world.set_threshold("sales", "1ms")
    with pytest.raises(TypeError, match="row 0 of 'paris' is"):
        world.send("paris", [TEA])  # type: ignore[arg-type]
    world.end()
    with pytest.raises(WorldError, match=r"source 'paris' has ended: send its rows before end\(\)"):
        world.send("paris", TEA)
    assert repr(world).startswith("<World of shop at 2026-01-01T00:00:")
    world.close()
    with pytest.raises(WorldError, match="this world is closed"):
        world.advance("1s")


def test_a_closed_world_has_released_its_engines() -> None:
    released = []
    with World(shop()) as world:
        kernel = world._app.kernels["sales"]
        close = kernel.close
        kernel.close = lambda: (released.append(kernel), close())  # type: ignore[method-assign]
    world.close()
    assert released == [kernel], "once"
