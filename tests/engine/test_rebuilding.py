"""Upstream backup on the real kernel: from empty state, as far back as a result reaches, come the same bits (R17.14).

Whatever the state holds: partials, rows, blocks of rows. Where there is no such bucket, the kernel says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.engine import DuckKernel
from tests.engine import worlds
from tests.engine.splits import KEYED, QUERIES
from tests.engine.worlds import WIDTH_US, Buckets

LAST = 44
ALL = {**QUERIES, **KEYED}
UNBOUNDED = [name for name in KEYED if any(word in name for word in ("lookup", "count", "session"))]
BOUNDED = [name for name in ALL if name not in UNBOUNDED]
NEED = {"plain": 0, "sliding": 9, "rows": 5, "join": 20, "distinct": 20, "over": 10, "top": 5}
"""How many buckets before one its results may depend on."""


@pytest.fixture(scope="module", params=BOUNDED)
def on(request: pytest.FixtureRequest) -> Iterator[DuckKernel]:
    made = worlds.make(ALL[request.param])
    yield made
    made.close()


@settings(max_examples=12, deadline=None)
@given(history=worlds.histories(LAST), at=st.integers(1, LAST - 1), cut=st.integers(1, LAST))
def test_from_there_an_empty_state_gives_the_same_bits(on: DuckKernel, history: Buckets, at: int, cut: int) -> None:
    """`at`: the first bucket that it says. `cut`: where its steps are cut, as a live run's are."""
    buckets = worlds.ordered(on, history)
    _, whole = on.step(on.initial(), 0, LAST, buckets)
    begin = max(0, at - on.lookback_buckets)
    state, rebuilt = on.initial(), {}
    for first, end in ((begin, max(begin, cut)), (max(begin, cut), LAST)):
        if first < end:
            state, outputs = on.step(state, first, end, {b: p for b, p in buckets.items() if first <= b < end})
            rebuilt |= outputs
    said = {b: output for b, output in rebuilt.items() if b >= at}
    assert worlds.fingerprints(said) == worlds.fingerprints({b: output for b, output in whole.items() if b >= at})


@settings(max_examples=8, deadline=None)
@given(history=worlds.histories(LAST), at=st.integers(1, LAST))
@pytest.mark.parametrize("name", [*QUERIES, "join", "left_join", "over", "top"])
def test_the_state_there_is_the_state(name: str, history: Buckets, at: int) -> None:
    """But for a row that no result depends on any more: of `distinct` it may lack one, and a join that lived on keeps
    one until the next bucket."""
    with worlds.kernel(ALL[name]) as on:
        buckets = worlds.ordered(on, {b: rows for b, rows in history.items() if b < at})
        begin = max(0, at - on.lookback_buckets)
        whole, _ = on.step(on.initial(), 0, at, buckets)
        rebuilt, _ = on.step(on.initial(), begin, at, {b: p for b, p in buckets.items() if b >= begin})
        (whole, _), (rebuilt, _) = (on.step(state, at, at + 1, {}) for state in (whole, rebuilt))
        assert worlds.state_prints(rebuilt) == worlds.state_prints(whole)
        assert on.encode_state(rebuilt) == on.encode_state(whole)


@pytest.mark.parametrize("name", NEED)
def test_a_bucket_later_is_too_late(name: str) -> None:
    """The need is no larger than it must be: a row there shows in a result at the cut."""
    with worlds.kernel(ALL[name]) as on:
        need, at = on.lookback_buckets, 40
        assert need == NEED[name]
        if not need:
            return
        found = False
        for later in range(5):  # the result may be that of a window which ends some buckets on
            ends = at + later
            rows = {b: [("a", 1, ends - b + 0.5, True, b * WIDTH_US)] * 2 for b in (ends - need, ends)}
            history: Buckets = {b: [some, some] for b, some in rows.items()}
            buckets = worlds.ordered(on, history)
            _, whole = on.step(on.initial(), 0, ends + 1, buckets)
            begin = ends - need + 1
            _, less = on.step(on.initial(), begin, ends + 1, {b: p for b, p in buckets.items() if b >= begin})
            one, other = (worlds.fingerprints({b: o for b, o in of.items() if b == ends}) for of in (whole, less))
            found = found or one != other
        assert found


@pytest.mark.parametrize("name", UNBOUNDED)
def test_where_there_is_no_such_bucket_the_kernel_says_so(name: str) -> None:
    with worlds.kernel(ALL[name]) as on:
        assert on.unbounded
        assert on.lookback_buckets > 2**40
