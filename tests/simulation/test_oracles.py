"""Oracles see what is wrong, and only that: histories made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import msgspec
import pytest

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.corrected import Progress, progress_record
from borealis_py.log.records import RangeHeader, RecordPart, StableHeader, TentativeHeader, pack
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.simulation.checkers.checker import judge
from borealis_py.simulation.checkers.streams import StableOrder, stable_records
from borealis_py.simulation.clean import Clean
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.reference_model import NodeTruth
from borealis_py.simulation.runner.simulation import Simulation
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from tests.simulation.calm import calm

pytestmark = pytest.mark.sim
ROWS = [[500_001, "row", 1, 11], [500_002, "row", 3, 12]]
TRUTH = NodeTruth(complete=10, rows={5: ROWS}, letters={5: [("s0", 7, "late")]})
LATE = RecordPart("s0", 7, "late: it was", b"")


def history(*said: tuple[msgspec.Struct, Sequence[object]]) -> list[Record]:
    values = [pack(header, json.dumps(rows).encode() if rows else b"") for header, rows in said]
    return [Record(Feed("sim.q.r0"), i, 0, None, value, ()) for i, value in enumerate(values)]


def stable(inc: int, bucket: int, part: int = 0, parts: int = 1, rejects: tuple[RecordPart, ...] = ()) -> StableHeader:
    return StableHeader("a1", inc, bucket, 0, part, parts, "toy", rejects)


def tentative(part: int, parts: int) -> TentativeHeader:
    return TentativeHeader("a1", 1, 5, 0, part, parts, "toy", (), (), 1.0, 5)


def test_a_zombies_parts_may_stand_between_its_successors() -> None:
    log = history(
        (stable(1, 4), []),
        (stable(1, 5, 0, 2, (LATE,)), ROWS[:1]),
        (stable(2, 4), []),
        (stable(1, 5, 1, 2), ROWS[1:]),
        (stable(2, 5, 0, 2, (LATE,)), ROWS[:1]),
        (stable(3, 5, 0, 2, (LATE,)), ROWS[:1]),
        (stable(2, 5, 1, 2), ROWS[1:]),
        (stable(3, 5, 1, 2), ROWS[1:]),
    )
    assert stable_records("q.r0", log, TRUTH, 4, "a1") == 6


def test_a_part_that_is_left_out_is_seen() -> None:
    log = history((stable(1, 5, 0, 3, (LATE,)), ROWS[:1]), (stable(1, 5, 2, 3), []))
    with pytest.raises(Violation, match="hole"):
        stable_records("q.r0", log, TRUTH, 5, "a1")


def test_parts_of_two_processes_may_mingle_while_both_have_one_number() -> None:
    first, last = (stable(1, 5, 0, 2, (LATE,)), ROWS[:1]), (stable(1, 5, 1, 2), ROWS[1:])
    assert stable_records("q.r0", history(first, first, last, last), TRUTH, 5, "a1") == 6
    other = (stable(1, 5, 1, 2), ROWS[:1])
    with pytest.raises(Violation, match="stable"):
        stable_records("q.r0", history(first, first, last, other), TRUTH, 5, "a1")


Where = Sequence[tuple[int, StableHeader | RangeHeader]]
QUIET = NodeTruth(complete=10, rows={5: ROWS}, letters={})


def judged(*topics_: Where, truth: NodeTruth = QUIET) -> int:
    """The frontier of a node of which one replica runs. Each topic: when what was written."""
    order = StableOrder(4)
    for k, said in enumerate(topics_):
        rows = [(header, ROWS if isinstance(header, StableHeader) and header.bucket == 5 else []) for _, header in said]
        log, times = history(*rows), [at for at, _ in said]
        stable_records(f"q.r{k}", log, truth, 4, "a1", order, times, all_run=False)
    return order.judge()


def empty(first: int, end: int) -> RangeHeader:
    return RangeHeader("a1", 1, first, end, 0)


def test_a_hole_lies_in_another_topic_since_before() -> None:
    assert judged([(1, empty(4, 5)), (4, empty(7, 9))], [(2, stable(1, 5)), (3, empty(6, 7)), (5, empty(6, 9))]) == 9


def test_a_hole_that_no_topic_covers_is_seen() -> None:
    with pytest.raises(Violation, match=r"q\.r0: bucket 7 at offset 1, and no topic holds 6 by then") as seen:
        judged([(1, empty(4, 5)), (4, empty(7, 9))], [(2, stable(1, 5))])
    assert seen.value.oracle == "hole"


def test_a_hole_that_another_topic_covers_only_later_is_seen() -> None:
    """A reader of both could stand before two cursors that wait."""
    with pytest.raises(Violation, match="no topic holds 6 by then"):
        judged([(1, empty(4, 5)), (4, empty(7, 9))], [(2, stable(1, 5)), (5, empty(6, 7))])


def test_a_bucket_that_lacks_its_last_part_is_no_bucket_in_any_topic() -> None:
    with pytest.raises(Violation, match="no topic holds 5 by then"):
        judged([(1, empty(4, 5)), (4, empty(6, 9))], [(2, stable(1, 5, 0, 2))])


def test_a_hole_that_is_covered_with_other_rows_is_seen() -> None:
    with pytest.raises(Violation, match="stable"):
        judged([(1, empty(4, 5)), (4, empty(7, 9))], [(2, empty(5, 7))])


def test_where_all_replicas_run_each_says_all_of_it() -> None:
    with pytest.raises(Violation, match="hole"):
        stable_records("q.r0", history((empty(4, 5), []), (empty(7, 9), [])), QUIET, 4, "a1")


def test_a_finished_world_is_judged_by_which_of_its_replicas_run() -> None:
    """What one replica has said for a while is taken from its topic: the other one has it."""
    for way in (RecoveryWay.ACTIVE, RecoveryWay.PASSIVE_STANDBY):
        simulation = Simulation(calm())
        simulation.run()
        world = simulation.world
        (plan,) = world.scenario.nodes
        world.scenario = replace(world.scenario, nodes=(replace(plan, recovery=RecoveryPlan(way)),))
        world.log.broker.partition(Feed(topics.replica(APP, QUERY, 0))).records[5:15] = [None] * 10
        with pytest.raises(Violation, match="hole") if way is RecoveryWay.ACTIVE else nullcontext():
            judge(world, simulation.observer)


def test_a_tentative_bucket_in_parts_has_an_honest_label_too() -> None:
    whole = history((tentative(0, 2), ROWS[:1]), (tentative(1, 2), ROWS[1:]))
    assert stable_records("q.r0", whole, TRUTH, 5, "a1") == 5
    short = history((tentative(0, 2), ROWS[:1]), (tentative(1, 2), []))
    with pytest.raises(Violation, match="label"):
        stable_records("q.r0", short, TRUTH, 5, "a1")


def test_progress_counts_although_garbage_follows_it_before_anybody_sees_it() -> None:
    """As when garbage is written while the transaction is open; a cleaner may remove what it displaces."""
    simulation = Simulation(calm())
    world, feed = simulation.world, Feed(topics.progress(APP, QUERY))
    epoch = world.log.broker.init_producer("q")
    progress = Progress(world.wiring.app_uid, world.origin + 7, 0, 1)
    world.log.broker.write("q", epoch, [progress_record(APP, QUERY, progress)])
    world.log.broker.append(NewRecord(feed, b"garbage", b"0"))
    assert world.log.broker.commit("q", epoch)
    assert world.progress(QUERY) == world.origin + 7
    partition = world.log.broker.partition(feed)
    partition.compact(partition.stable_end)
    world.log.broker.append(NewRecord(feed, b"more", b"0"))
    assert world.progress(QUERY) == world.origin + 7


def test_what_was_cut_off_counts_once_it_has_worked_off_what_came_meanwhile() -> None:
    clean = Clean([(0, 10), (20, 25), (26, 60)])
    assert clean.covers(21, 22)
    assert not clean.covers(21, 22, backlog=0.5)  # ten units' backlog takes five
    assert not clean.covers(26, 30, backlog=0.5)
    assert clean.covers(27, 30, backlog=0.5)
    assert not clean.covers(27, 30, backlog=1.0)  # five of the first outage are left


def test_a_replica_that_starts_has_worked_off_what_it_runs_again() -> None:
    """Seed 99781486: all replicas died while an input was away, and had ten seconds of slow rows to run again."""
    clean = Clean()
    clean.update(0, True)
    clean.update(100, False)
    clean.starts_at(60)
    clean.update(110, True)
    clean.close(300)
    assert clean.covers(110, 300)
    assert not clean.covers(134, 300, backlog=0.5)
    assert clean.covers(135, 300, backlog=0.5)
