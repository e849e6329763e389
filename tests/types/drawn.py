"""Values of each type that a column may have, and the digest that decides whether two columns are equal."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from borealis_py.engine.arrow.rows import ArrowRows
from borealis_py.types.arrow import JSON

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.bool_(): st.booleans(),
    pa.timestamp("us"): st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)),
    pa.date32(): st.dates(date(1900, 1, 1), date(2200, 1, 1)),
    pa.decimal128(12, 2): st.integers(-(10**11), 10**11).map(lambda n: Decimal(n) / 100),
    JSON: st.sampled_from(["{}", "1", '"é"']),
    pa.list_(pa.int64()): st.lists(st.integers(0, 9), max_size=3),
}


def of(column: pa.Array) -> bytes:
    return ArrowRows().digest(pa.record_batch({"x": column}))
