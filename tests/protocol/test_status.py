"""A replica's status as a value: who is to correct first, the publisher's phase, which inputs have ended."""

from __future__ import annotations

from borealis_py.protocol.incarnation import RowCounts
from borealis_py.protocol.turn import Turn
from sunion.model import FOREVER, Input, Output, StableRange
from tests.protocol.chain_node import STREAM, manager
from tests.sunion.lists import BUCKETS, OPS, W, batch, claim
from tests.support.heartbeats import heartbeat


def test_it_names_the_replica_that_asked_first() -> None:
    node = manager(Input.source("a"))
    assert node.status().head is None
    node.handle(Turn(1, beats=[(5, heartbeat(1, asking=True))]))
    assert node.status().head == 1


def test_it_tells_the_phase_of_the_publisher() -> None:
    node = manager(Input.source("a"), corrected=True)
    assert node.status().writer == "idle"


def test_output_is_counted_in_buckets_and_rows() -> None:
    counts = RowCounts()
    for rows in (2, 3):
        counts.tentative(Output(((0, 1),) * rows), OPS)
    counts.tentative(Output(), OPS)
    counts.stable({4: Output(((0, 1),)), 5: Output()}, OPS)
    counts.stable({6: Output(((0, 1),) * 2)}, OPS)
    assert counts == RowCounts(stable_rows=3, tentative_rows=5, stable_buckets=3, tentative_buckets=3)


def test_an_input_has_ended_when_nothing_can_follow() -> None:
    node = manager(Input.source("a"), STREAM)
    end = BUCKETS.last
    node.handle(Turn(1, inputs={0: [claim(0), batch(1, 0, [(0, 5)], boundary=3 * W)]}))
    node.handle(Turn(2, streams={1: [(0, StableRange(1, 0, end - 1))]}))
    assert [i.ended for i in node.status().inputs] == [False, False]
    node.handle(Turn(3, inputs={0: [batch(1, 1, [], boundary=FOREVER)]}))
    node.handle(Turn(4, streams={1: [(0, StableRange(1, end - 1, end))]}))
    assert [i.ended for i in node.status().inputs] == [True, True]
