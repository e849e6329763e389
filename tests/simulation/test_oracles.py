"""Oracles see what is wrong, and only that: histories made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.corrected import Progress, progress_record
from borealis_py.log.records import RecordPart, StableHeader, TentativeHeader, pack
from borealis_py.simulation.checkers import oracles
from borealis_py.simulation.checkers.oracles import Clean
from borealis_py.simulation.checkers.reference_model import NodeTruth
from borealis_py.simulation.checkers.violation import Violation
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.toy_query import QUERY
from borealis_py.simulation.runner.simulation import Simulation
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
    assert oracles.stable_records("q.r0", log, TRUTH, 4, "a1") == 6


def test_a_part_that_is_left_out_is_seen() -> None:
    log = history((stable(1, 5, 0, 3, (LATE,)), ROWS[:1]), (stable(1, 5, 2, 3), []))
    with pytest.raises(Violation, match="hole"):
        oracles.stable_records("q.r0", log, TRUTH, 5, "a1")


def test_parts_of_two_processes_may_mingle_while_both_have_one_number() -> None:
    first, last = (stable(1, 5, 0, 2, (LATE,)), ROWS[:1]), (stable(1, 5, 1, 2), ROWS[1:])
    assert oracles.stable_records("q.r0", history(first, first, last, last), TRUTH, 5, "a1") == 6
    other = (stable(1, 5, 1, 2), ROWS[:1])
    with pytest.raises(Violation, match="stable"):
        oracles.stable_records("q.r0", history(first, first, last, other), TRUTH, 5, "a1")


def test_a_tentative_bucket_in_parts_has_an_honest_label_too() -> None:
    whole = history((tentative(0, 2), ROWS[:1]), (tentative(1, 2), ROWS[1:]))
    assert oracles.stable_records("q.r0", whole, TRUTH, 5, "a1") == 5
    short = history((tentative(0, 2), ROWS[:1]), (tentative(1, 2), []))
    with pytest.raises(Violation, match="label"):
        oracles.stable_records("q.r0", short, TRUTH, 5, "a1")


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
