"""m buckets in one step equal m single steps, bit for bit; so does any cut of the input into batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.engine import DuckKernel, canonical_hash
from tests.engine import worlds
from tests.engine.splits import KEYED, LAST, QUERIES
from tests.engine.worlds import SCHEMA, WIDTH_US, Buckets


@pytest.fixture(scope="module", params=[*QUERIES, *KEYED])
def on(request: pytest.FixtureRequest) -> Iterator[DuckKernel]:
    made = worlds.make({**QUERIES, **KEYED}[request.param])
    yield made
    made.close()


@settings(max_examples=20, deadline=None)
@given(data=st.data(), history=worlds.histories(LAST))
def test_any_split_into_steps_gives_the_same_bits(on: DuckKernel, data: st.DataObject, history: Buckets) -> None:
    buckets = worlds.ordered(on, history)
    whole_state, whole = on.step(on.initial(), 0, LAST, buckets)
    cuts = sorted(data.draw(st.sets(st.integers(1, LAST - 1)))) if data.draw(st.booleans()) else list(range(1, LAST))
    state, outputs = on.initial(), {}
    for first, end in zip([0, *cuts], [*cuts, LAST], strict=True):
        state, stepped = on.step(state, first, end, {b: p for b, p in buckets.items() if first <= b < end})
        assert all(first <= b < end for b in stepped)
        outputs.update(stepped)
    assert worlds.fingerprints(outputs) == worlds.fingerprints(whole)
    assert worlds.state_prints(state) == worlds.state_prints(whole_state)


@settings(max_examples=8, deadline=None)
@given(data=st.data(), history=worlds.histories(LAST))
def test_how_rows_lie_in_memory_changes_nothing(on: DuckKernel, data: st.DataObject, history: Buckets) -> None:
    """Rows that came in several records, or as slices of bigger batches, count like rows that came in one."""
    buckets = worlds.ordered(on, history)

    def relaid(part: pa.RecordBatch | None) -> pa.RecordBatch | None:
        if part is None:
            return None
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, part.num_rows)))) | {part.num_rows})
        padded = pa.concat_batches([part, part, part])
        at = [0, *cuts[:-1]]
        return on.concat(
            [padded.slice(part.num_rows + lo, hi - lo) for lo, hi in zip(at, cuts, strict=True) if hi > lo]
        )

    other = {b: on.order([relaid(p) for p in parts]) for b, parts in buckets.items()}
    _, first = on.step(on.initial(), 0, LAST, buckets)
    _, second = on.step(on.initial(), 0, LAST, other)
    assert worlds.fingerprints(first) == worlds.fingerprints(second)


def test_big_buckets_split_alike(on: DuckKernel) -> None:
    """More rows than one of the engine's vectors holds, with runs of equal values that it may treat as constants."""
    random = np.random.default_rng(7)
    buckets = {}
    for bucket in (3, 4, 5, 11):
        n = 5000
        arrays = [
            pa.array(random.choice(["a", "b"], n)),
            pa.array(np.repeat(random.integers(-3, 4, 5), n // 5)),
            pa.array(random.normal(size=n) * 10.0 ** random.integers(-15, 16, n)),
            pa.array(np.repeat([True, False], n // 2)),
            pa.array(np.sort(random.integers(bucket * WIDTH_US, (bucket + 1) * WIDTH_US, n))),
        ]
        part = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        buckets[bucket] = on.order([part] * len(on.spec.inputs))
    _, whole = on.step(on.initial(), 0, LAST, buckets)
    state, outputs = on.initial(), {}
    for b in range(LAST):
        state, stepped = on.step(state, b, b + 1, {b: buckets[b]} if b in buckets else {})
        outputs.update(stepped)
    assert outputs
    assert worlds.fingerprints(outputs) == worlds.fingerprints(whole)


@settings(max_examples=10, deadline=None)
@given(history=worlds.histories(LAST), at=st.integers(1, LAST - 1))
def test_state_survives_its_bytes(on: DuckKernel, history: Buckets, at: int) -> None:
    buckets = worlds.ordered(on, history)
    state, _ = on.step(on.initial(), 0, at, {b: p for b, p in buckets.items() if b < at})
    read = on.decode_state(on.encode_state(state))
    assert worlds.state_prints(read) == worlds.state_prints(state)
    rest = {b: p for b, p in buckets.items() if b >= at}
    assert worlds.fingerprints(on.step(read, at, LAST, rest)[1]) == worlds.fingerprints(
        on.step(state, at, LAST, rest)[1]
    )


def test_a_reopened_engine_gives_the_same_bits(on: DuckKernel) -> None:
    rows = [("a", 1, 0.1, True, 5), ("b", 2, 1e16, False, 6), ("a", 3, 0.2, True, 7)]
    buckets = worlds.ordered(on, {0: [rows, rows]})
    before = worlds.fingerprints(on.step(on.initial(), 0, LAST, buckets)[1])
    on._duck.reopen()
    assert worlds.fingerprints(on.step(on.initial(), 0, LAST, buckets)[1]) == before


def test_canonical_hash_sees_values_and_not_their_layout() -> None:
    part = worlds.batch([("a", 1, 0.5, True, 1), (None, None, None, None, 2), ("ü", 3, -0.0, False, 3)])
    sliced = pa.concat_batches([part, part]).slice(3, 3)
    assert canonical_hash(sliced) == canonical_hash(part)
    for other in (("ü", 3, 0.0, False, 3), ("u", 3, -0.0, False, 3), ("ü", 3, -0.0, None, 3), ("ü", 0, -0.0, False, 3)):
        changed = pa.concat_batches([part.slice(0, 2), worlds.batch([other])])
        assert canonical_hash(changed) != canonical_hash(part)
