"""What a state has that an earlier one had not, and both together, are the state: bit for bit, wherever it is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import DuckKernel
from borealis_py.engine.operators.increments import PartIncrement, WindowEntries, increment_by_identity
from borealis_py.query import Stream
from tests.engine import worlds
from tests.engine.splits import KEYED, LAST, QUERIES
from tests.engine.worlds import WIDTH_US, Buckets

BASES = (0, 250)
"""Where histories begin: 256 is where blocks are made anew as a whole."""


@pytest.fixture(scope="module", params=[*QUERIES, *KEYED])
def on(request: pytest.FixtureRequest) -> Iterator[DuckKernel]:
    made = worlds.make({**QUERIES, **KEYED}[request.param])
    yield made
    made.close()


def moved(history: Buckets, by: int) -> Buckets:
    """The same rows, so many buckets later."""
    return {
        bucket + by: [[(*row[:-1], row[-1] + by * WIDTH_US) for row in part] for part in parts]
        for bucket, parts in history.items()
    }


def states(on: DuckKernel, buckets: Any, ends: Sequence[int]) -> list[Any]:
    """The state at each of these buckets."""
    found = [on.initial()]
    for first, end in pairwise(ends):
        some = {b: p for b, p in buckets.items() if first <= b < end}
        found.append(on.step(found[-1], first, end, some)[0])
    return found


@settings(max_examples=12, deadline=None)
@given(data=st.data(), history=worlds.histories(LAST), base=st.sampled_from(BASES))
def test_a_base_and_what_came_since_are_the_state(
    on: DuckKernel, data: st.DataObject, history: Buckets, base: int
) -> None:
    buckets = worlds.ordered(on, moved(history, base))
    cuts = [base, *(base + cut for cut in sorted(data.draw(st.sets(st.integers(1, LAST - 1))))), base + LAST]
    run = states(on, buckets, cuts)
    first = data.draw(st.integers(0, len(cuts) - 1))
    read = on.decode_state(on.encode_state(run[first]))
    for n in range(first + 1, len(cuts)):
        written = on.encode_increment(run[n - 1], run[n], cuts[n - 1], cuts[n])
        read = on.decode_increment(read, written, cuts[n])
        assert worlds.state_prints(read) == worlds.state_prints(run[n])
        assert on.encode_state(read) == on.encode_state(run[n])


@settings(max_examples=6, deadline=None)
@given(history=worlds.histories(LAST), other=worlds.histories(LAST), at=st.integers(1, LAST - 1))
def test_a_state_that_has_not_grown_from_the_one_before_is_in_it_whole(
    on: DuckKernel, history: Buckets, other: Buckets, at: int
) -> None:
    """As one that a peer, or Spark, has computed: it shares no memory. Of another state nothing counts as there."""
    before = states(on, worlds.ordered(on, history), [0, at])[-1]
    after = states(on, worlds.ordered(on, history), [0, at, LAST])[-1]
    elsewhere = on.decode_state(on.encode_state(after))
    read = on.decode_increment(before, on.encode_increment(before, elsewhere, at, LAST), LAST)
    assert worlds.state_prints(read) == worlds.state_prints(after)
    unlike = on.initial()
    read = on.decode_increment(unlike, on.encode_increment(unlike, after, at, LAST), LAST)
    assert worlds.state_prints(read) == worlds.state_prints(after)


def sliding(app: App, a: Stream, b: Stream) -> Stream:
    return app.union(a, b).window("1s", every="200ms").group_by("k").agg(n="count(*)", s="sum(x)")


def joined(app: App, a: Stream, b: Stream) -> Stream:
    return a.join(b.map(k="k", y="x"), on="k", within=("-2s", "2s"))


def looked_up(app: App, a: Stream, b: Stream) -> Stream:
    return a.lookup(b.map(k="k", y="x").table("k"), on="k")


def every_bucket(first: int, end: int) -> Buckets:
    return {n: [[(k, 1, 0.5, True, n * WIDTH_US + 3) for k in "abc"]] * 2 for n in range(first, end)}


def increment(on: DuckKernel, since: int, end: int, first: int = 0) -> tuple[PartIncrement, ...]:
    """Of each part of the state, after rows in every bucket since `first`."""
    _, before, after = states(on, worlds.ordered(on, every_bucket(first, end)), [first, since, end])
    return tuple(part.increment(b, a, since, end) for part, b, a in zip(on._state, before, after, strict=True))


def test_of_a_window_it_is_the_entries_since_and_what_is_left_of_those_before() -> None:
    with worlds.kernel(sliding) as on:
        (of,) = increment(on, 20, 25)
    assert [bucket for bucket, _ in of.entries] == [20, 21, 22, 23, 24]
    assert of.left == ((4, 8),), "from 12 on at bucket 20, from 16 on at 25: the next windows to close begin there"


def test_of_a_join_it_is_the_rows_since_however_its_blocks_were_merged() -> None:
    with worlds.kernel(joined) as on:
        for of in increment(on, 15, 24):
            assert of.rows is not None
            stimes = of.rows.column("stime").to_pylist()
            assert sorted({stime // WIDTH_US for stime in stimes}) == list(range(15, 24))
            assert not of.entries


def test_of_a_table_it_is_the_blocks_that_were_made_anew() -> None:
    with worlds.kernel(looked_up) as on:
        (of,) = increment(on, 264, 266, first=240)
    assert [bucket for bucket, _ in of.entries] == [264], "two buckets, in one block"
    assert of.left == ((0, 2),), "all below 256, and the eight since"


def test_what_is_of_no_state_of_this_query_is_refused() -> None:
    with worlds.kernel(sliding) as on, worlds.kernel(joined) as other:
        _, before, after = states(on, worlds.ordered(on, every_bucket(0, 25)), [0, 20, 25])
        written = on.encode_increment(before, after, 20, 25)
        with pytest.raises(ValueError, match="entries"):
            on.decode_increment(on.initial(), written, 25)
        with pytest.raises(ValueError, match="operators"):
            other.decode_increment(other.initial(), written, 25)


def test_entries_in_another_order_are_left_as_they_were() -> None:
    entries = tuple((n, worlds.batch([("a", n, 0.5, True, n)])) for n in range(6))
    after = (entries[0], (1, worlds.batch([])), entries[2], entries[3], entries[5])
    of = increment_by_identity(entries, after)
    assert (of.left, of.entries) == (((0, 1), (2, 4), (5, 6)), (after[1],))
    assert WindowEntries(worlds.SCHEMA).grown(entries, of, 6) == after
