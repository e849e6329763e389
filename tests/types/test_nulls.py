"""What lies under nulls: gone, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.engine.codec import ArrowRowCodec
from borealis_py.types.nulls import zero_nulls
from tests.types.drawn import VALUES, of

Drawn = list[tuple[Any, bool]]
"""Values, and whether each is there."""


def masked(drawn: Drawn, kind: pa.DataType) -> pa.Array:
    """Nulls with values under them."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, masked(drawn, kind.storage_type))
    full = pa.array([value for value, _ in drawn], kind)
    validity = pa.py_buffer(np.packbits([there for _, there in drawn], bitorder="little").tobytes())
    children = [full.values] if pa.types.is_list(kind) else []
    own = full.buffers()[1 : kind.num_buffers]
    return pa.Array.from_buffers(kind, len(full), [validity, *own], children=children)


def encoded(column: pa.Array) -> bytes:
    rows = pa.record_batch({"x": column})
    return ArrowRowCodec(rows.schema, ()).encode(rows)


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_equal_rows_are_equal_bytes_whatever_lies_under_nulls(kind: pa.DataType, data: st.DataObject) -> None:
    pairs = st.tuples(VALUES[kind], st.booleans())
    before, drawn, after = (data.draw(st.lists(pairs, min_size=low, max_size=9)) for low in (0, 1, 0))
    values = [value if there else None for value, there in drawn]
    dirty = masked([*before, *drawn, *after], kind).slice(len(before), len(drawn))
    assert of(dirty) == of(pa.array(values, kind)), "the same rows"
    assert encoded(dirty) == encoded(pa.array(values, kind))
    (clean,) = zero_nulls(pa.record_batch({"x": dirty})).columns
    clean.validate(full=True)
    assert of(clean) == of(dirty)


def test_rows_without_nulls_are_left_as_they_are() -> None:
    rows = pa.record_batch({"x": pa.array([1, 2]), "l": pa.array([["a"], []])})
    assert zero_nulls(rows) is rows


def test_nulls_in_lists_are_zeroed_too() -> None:
    inner = masked([(7, False), (8, True)], pa.int64())
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), inner)
    assert encoded(lists) == encoded(pa.array([[None, 8]], pa.list_(pa.int64())))
    assert encoded(lists) != encoded(pa.array([[None, 7]], pa.list_(pa.int64())))
