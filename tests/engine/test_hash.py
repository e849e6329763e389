"""The canonical hash tells values apart, not how they lie in memory."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from borealis_py.engine import canonical_hash


def batch(values: list[object], kind: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], ["v"])


@pytest.mark.parametrize(
    ("values", "kind", "other"),
    [
        ([2**70, None], "decimal", [2**70 + 1, None]),  # a partial sum of integers
        ([1, None], pa.int64(), [None, 1]),
        (["a", "bc"], pa.string(), ["ab", "c"]),
        ([0.0], pa.float64(), [-0.0]),
        ([[1], [2, 3]], pa.list_(pa.int64()), [[1, 2], [3]]),
    ],
)
def test_a_slice_has_the_hash_of_a_fresh_batch_and_other_values_another(values, kind, other) -> None:  # type: ignore[no-untyped-def]
    if kind == "decimal":
        kind = pa.decimal128(38, 0)
        values, other = ([None if v is None else Decimal(v) for v in vs] for vs in (values, other))
    fresh = batch(values, kind)
    slice_ = batch([*other, *values], kind).slice(len(other))
    assert canonical_hash(slice_) == canonical_hash(fresh)
    assert canonical_hash(batch(other, kind)) != canonical_hash(fresh)
