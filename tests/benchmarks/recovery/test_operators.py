"""Operators of the paper's model: outputs, indicators, what they cost and what is new in their states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recovery.operators import NodeOperators, PaperAggregate, PaperTuple, QueryNetwork
from benchmarks.recovery.setting import PaperReading, PaperSetting

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 6)).map(lambda two: (two[0] * two[1], two[1]))
"""(window, advance): a window is a multiple of its advance, as in the paper."""


def tuples(first: int, end: int) -> list[PaperTuple]:
    return [PaperTuple(0, seq, (seq,), (seq,)) for seq in range(first, end)]


def outputs(operators: NodeOperators | PaperAggregate, given: list[PaperTuple]) -> list[PaperTuple]:
    return [out for one in given if (out := operators.step(one)[1]) is not None]


@given(SIZES, st.booleans(), st.integers(0, 100))
def test_each_window_gives_one_output_at_its_last_tuple(size: tuple[int, int], late: bool, count: int) -> None:
    window, advance = size
    found = outputs(PaperAggregate(window, advance, 10, late), tuples(0, count))
    ends = [end for end in range(window, count + 1) if (end - window) % advance == 0]
    assert [(out.seq, out.high) for out in found] == [((end - window) // advance, (end - 1,)) for end in ends]


@given(SIZES, st.booleans(), st.integers(0, 100), st.integers(0, 100))
def test_what_is_replayed_from_the_oldest_tuple_needed_continues_as_if_nothing_had_failed(
    size: tuple[int, int], late: bool, before: int, after: int
) -> None:
    """Upstream backup rests on it (H 145): from `low` of an output on, all later outputs come out of an empty state."""
    aggregate = PaperAggregate(*size, 10, late)
    found = outputs(aggregate, tuples(0, before))
    rest = outputs(aggregate, tuples(before, before + after))
    if found:
        again = outputs(PaperAggregate(*size, 10, late), tuples(found[-1].low[0], before + after))
        assert [out.seq for out in again][-len(rest) or len(again) :] == [out.seq for out in rest]
        assert found[-1].seq in [out.seq for out in again]


@given(st.integers(1, 5), st.integers(200, 900))
def test_so_does_a_chain_of_aggregates(operators: int, before: int) -> None:
    network = QueryNetwork(window=40, advance=4, operators=operators)
    chain = network.build(PaperSetting(), PaperReading())
    found = outputs(chain, tuples(0, before))
    rest = outputs(chain, tuples(before, before + 60))
    assert found
    again = outputs(network.build(PaperSetting(), PaperReading()), tuples(found[-1].low[0], before + 60))
    assert [out.seq for out in again][-len(rest) :] == [out.seq for out in rest]


@given(SIZES, st.booleans())
def test_a_full_window_costs_its_length_over_its_advance(size: tuple[int, int], late: bool) -> None:
    window, advance = size
    aggregate = PaperAggregate(window, advance, 10, late)
    costs = [aggregate.step(one)[0] for one in tuples(0, 3 * window)]
    assert set(costs[window:]) == {10 * window // advance}
    windows = window // advance
    assert sum(costs[:window]) == 10 * advance * windows * (windows + 1) // 2, "one that fills: about half"


def test_nothing_begins_in_the_middle_of_a_window() -> None:
    aggregate = PaperAggregate(4, 2, 10, False)
    assert [aggregate.step(one) for one in tuples(3, 6)] == [(0, None), (10, None), (10, None)]
    assert [out.seq for out in outputs(aggregate, tuples(6, 10))] == [2, 3]


@pytest.mark.parametrize(("late", "expected"), [(True, [6, 6, 6, 6]), (False, [6, 2, 6, 4])])
def test_new_in_a_state_is_what_is_still_there(late: bool, expected: list[int]) -> None:
    """With a window of 10 that does not overlap the next, and a checkpoint every 6 tuples."""
    aggregate = PaperAggregate(10, 10, 10, late)
    found = []
    for first in range(0, 24, 6):
        outputs(aggregate, tuples(first, first + 6))
        found.append(aggregate.news())
    assert found == expected


def test_of_an_interval_longer_than_the_window_only_a_window_is_new() -> None:
    aggregate = PaperAggregate(10, 1, 10, True)
    outputs(aggregate, tuples(0, 50))
    aggregate.news()
    outputs(aggregate, tuples(50, 90))
    assert aggregate.news() == 10


def test_a_union_knows_the_last_tuple_of_each_stream() -> None:
    union = QueryNetwork("union").build(PaperSetting(), PaperReading(union_us=7))
    came = [PaperTuple(0, 5, (5, -1), (5, -1)), PaperTuple(1, 2, (-1, 2), (-1, 2)), PaperTuple(0, 6, (6, -1), (6, -1))]
    assert [union.step(one) for one in came] == [
        (7, PaperTuple(0, 5, (5, -1), (5, -1))),
        (7, PaperTuple(1, 2, (5, 2), (5, 2))),
        (7, PaperTuple(0, 6, (6, 2), (6, 2))),
    ]


def test_a_twin_goes_its_own_way() -> None:
    chain = QueryNetwork(window=4, advance=2, operators=2).build(PaperSetting(), PaperReading())
    outputs(chain, tuples(0, 7))
    twin = chain.twin()
    first = outputs(chain, tuples(7, 20))
    assert outputs(twin, tuples(7, 20)) == first
    assert first


@pytest.mark.parametrize(
    ("network", "positions"),
    [(QueryNetwork("filter"), 1), (QueryNetwork("union"), 2), (QueryNetwork(), 2), (QueryNetwork(operators=3), 6)],
)
def test_a_checkpoint_names_each_queue_and_each_state(network: QueryNetwork, positions: int) -> None:
    assert network.build(PaperSetting(), PaperReading()).positions() == positions
