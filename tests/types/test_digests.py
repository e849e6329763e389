"""The hash of a bucket's rows: equal for equal values in any layout, different for different values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.types.drawn import VALUES, of


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to us: doubles by their bits, all NaNs alike."""
    if isinstance(one, float) and isinstance(other, float):
        return (one != one and other != other) or (one == other and math.copysign(1, one) == math.copysign(1, other))
    return bool(one == other)


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_the_layout_does_not_count_and_the_values_do(kind: pa.DataType, data: st.DataObject) -> None:
    value = st.none() | VALUES[kind]
    values = data.draw(st.lists(value, max_size=12))
    before, after = data.draw(st.lists(value, max_size=10)), data.draw(st.lists(value, max_size=3))
    whole = pa.array([*before, *values, *after], kind)
    assert of(whole.slice(len(before), len(values))) == of(pa.array(values, kind))
    other = data.draw(st.lists(value, max_size=12))
    alike = len(values) == len(other) and all(map(same, values, other))
    assert (of(pa.array(values, kind)) == of(pa.array(other, kind))) == alike


def test_what_lies_under_a_null_does_not_count() -> None:
    mask = np.array([False, True, False])
    assert of(pa.array(np.array([1, 7, 3]), mask=mask)) == of(pa.array([1, None, 3], pa.int64()))
    under = pa.StringArray.from_buffers(
        3,
        pa.py_buffer(np.array([0, 1, 4, 5], np.int32).tobytes()),
        pa.py_buffer(b"axxxb"),
        pa.py_buffer(np.packbits([1, 0, 1], bitorder="little").tobytes()),
    )
    assert under.to_pylist() == ["a", None, "b"]
    assert of(under) == of(pa.array(["a", None, "b"]))


def test_texts_are_cut_where_they_end() -> None:
    assert of(pa.array(["ab", "c"])) != of(pa.array(["a", "bc"]))


def test_all_nans_are_alike() -> None:
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    assert of(pa.array(nans[:1])) == of(pa.array(nans[1:]))
