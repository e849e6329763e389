"""Records that are read together give what each gives alone."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.partition_queue import _RECORD_BYTES, _size
from borealis_py.log.base import Feed, Record

COLUMNS = {"n": "int64", "shop": "string", "euros": "decimal(6,2)", "x": "double"}
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-5, 5) | st.text(max_size=3),
        "shop": st.none() | st.text(max_size=5),
        "euros": st.none() | st.integers(-(10**6), 10**6) | st.just("2.345"),
        "x": st.none() | st.integers(-9, 9) | st.floats(-9, 9),
        "other": st.booleans(),
    },
)
VALUES = st.lists(OBJECTS.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=6), max_size=12)


@given(VALUES)
def test_records_together_are_what_each_is_alone(values: list[bytes]) -> None:
    form = JsonFormat(COLUMNS)
    alone = [form.rows([value]) for value in values]
    found = form.rows(values)
    assert list(found.at) == [i for i, one in enumerate(alone) if one.rows.num_rows]
    assert found.bad == [(i, reason) for i, one in enumerate(alone) for _, reason in one.bad]
    assert len(found.at) + len(found.bad) == len(values)
    assert pa.Table.from_batches([found.rows]).equals(
        pa.Table.from_batches([one.rows for one in alone], found.rows.schema)
    )


@given(
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(max_size=9),
    st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=9)), max_size=3),
)
def test_the_size_of_a_record_is_that_of_its_parts(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record = Record(Feed("t"), 0, 1, key, value, tuple(headers))  # type: ignore[arg-type]  # Kafka has such headers
    parts = [key, value, *(part for _, part in headers)]
    names = sum(len(name) for name, _ in headers)
    assert _size(record) == _RECORD_BYTES + names + sum(len(part) for part in parts if part is not None)
