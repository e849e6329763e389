"""What a replica's status reports about one input."""

from __future__ import annotations

from dataclasses import replace

from borealis_py.protocol.input_state import InputState
from borealis_py.protocol.settings import Timing
from sunion.model import Input
from tests.sunion.lists import W, batch, claim
from tests.support.managers import toy_config


def test_a_source_s_status_has_its_publisher_s_lateness_and_how_late_rows_came() -> None:
    state = InputState(toy_config(Input.source("s"), Input.source("t"), timing=Timing()), 0, None)
    state.union.feed_all(0, [replace(claim(0), lateness_us=2_000), batch(1, 0, boundary=7 * W)])
    source = state.union.sources[0]
    for late_us, rows in ((0, 60), (8, 38), (15, 1), (1_000, 1)):
        source.lateness.add(late_us, rows)
    one, other = state.statuses()
    assert (one.name, one.closed, one.tuples, one.late, one.ended) == ("s", 7, 0, False, False)
    assert (one.lateness_us, one.late_us) == (2_000, (0, 15, 1_000))
    assert (other.name, other.closed, other.tuples, other.late_us) == ("t", 0, 0, (0, 0, 0))
    for feed in state.feeds[1]:
        feed.late = True
    assert [status.late for status in state.statuses()] == [False, True]
