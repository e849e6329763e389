"""What a replica decides of its inputs: how much runs in a turn, how complete a bucket is."""

from __future__ import annotations

import pytest

from borealis_py.protocol.delay import InputView, Presence
from borealis_py.protocol.input_state import InputState
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import Turn
from sunion.model import Input, Output, TentativeBucket
from tests.protocol.chain_node import tentative
from tests.sunion.lists import AHEAD_US, W, batch, claim
from tests.support.managers import toy_config


def state(*inputs: Input) -> InputState:
    unpack = {i: lambda rows: rows for i in range(len(inputs))}
    return InputState(toy_config(*inputs, timing=Timing(ahead_max_us=AHEAD_US), unpack=unpack), 0, None)


def filled(*counts: int) -> InputState:
    """A source with so many rows in its first buckets, all closed."""
    made, seq = state(Input.source("a")), 0
    made.union.feed(0, claim(0))
    for bucket, count in enumerate(counts):
        rows = [(bucket * W + i, i) for i in range(count)]
        made.union.feed(0, batch(1 + bucket, seq, rows, (bucket + 1) * W))
        seq += count
    return made


class Counted(Pace):
    """Takes so many rows, and tells what it was asked."""

    def __init__(self, rows: int) -> None:
        super().__init__(Timing(), W)
        self.left, self.asked = rows, list[tuple[int, int, int, int]]()

    def takes(self, n: int, rows: int, most: int, passed: int) -> bool:
        self.asked.append((n, rows, most, passed))
        self.left -= rows
        return self.left >= 0


def test_a_slice_ends_before_the_bucket_that_no_longer_fits() -> None:
    pace = Counted(5)
    assert filled(2, 0, 3, 4, 1).slice(0, 5, pace, 9) == (3, 5)
    assert pace.asked == [(0, 2, 9, 0), (1, 3, 9, 2), (2, 4, 9, 3)], "buckets without rows are not asked about"


def test_a_slice_of_all_goes_to_its_limit_over_empty_buckets() -> None:
    pace = Counted(99)
    assert filled(2, 3, 0, 0).slice(0, 4, pace, 9) == (4, 5)
    assert pace.asked == [(0, 2, 9, 0), (1, 3, 9, 1)]
    assert filled(2, 3, 4).slice(1, 2, Counted(99), 9) == (2, 3)


def test_a_slice_asks_about_one_bucket_more_than_it_may_run() -> None:
    pace = Counted(99)
    filled(1, 1, 1, 1, 1).slice(0, 5, pace, 2)
    assert [n for n, *_ in pace.asked] == [0, 1, 2]


def test_the_only_replica_of_a_stream_is_not_awaited_for_what_it_reports_as_tentative() -> None:
    made = state(Input("up", 1, ("a",)))
    made.read(Turn(0, streams={0: [(0, tentative(0, "a"))]}), 0, 1_000)
    assert made.views(0) == [InputView(Presence.TENTATIVE, awaited=False, all_late=False, lacks=True)]


def test_a_bucket_waits_for_no_input_that_has_closed_it() -> None:
    made = state(Input.source("a"), Input.source("b"))
    made.read(Turn(0, inputs={0: [claim(0), batch(1, 0, boundary=W)]}), 0, 1_000)
    assert len(made.views(0)) == 1
    assert len(made.views(1)) == 2


def test_a_late_source_is_in_time_again_when_it_closes_the_bucket_that_runs_next() -> None:
    made = state(Input.source("a"))
    made.read(Turn(0, inputs={0: [claim(0)]}), 0, 1_000)
    made.on_live_run(0)
    late = []
    for offset, closed in ((1, 0), (2, 1), (3, 2)):
        made.read(Turn(offset, inputs={0: [batch(offset, 0, boundary=closed * W)]}), 1, 1_000)
        late.append(made.late(0))
    assert late == [True, True, False]


def test_a_bucket_is_as_complete_as_its_inputs_are_on_average() -> None:
    made = state(Input("up", 1, ("a",)), Input("down", 1, ("b",)), Input.source("c"))
    for index, share in ((0, 0.5), (1, 0.25)):
        said = TentativeBucket(
            inc=1,
            bucket=0,
            output=Output(),
            missing_sources=("x",),
            missing=("x",),
            waited_us=0,
            completeness=share,
            diverged_from=0,
            offset=0,
        )
        made.union.feed_stream(index, [(0, said)])
    assert made.completeness(0) == pytest.approx((0.5 + 0.25 + 0) / 3)
