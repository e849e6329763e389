"""Bytes of a source cost no more than they may: counted and bounded before they are unpacked, alike for all readers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from borealis_py.engine import ArrowSourceCodec
from borealis_py.engine.arrow.ipc import Unclaimed, claims
from borealis_py.engine.arrow.rows import ArrowRows, row_sizes
from borealis_py.engine.sql.duck_connection import connect
from borealis_py.engine.sql.duck_statement import Duck
from sunion.errors import EngineOutOfMemory
from tests.engine import worlds

COLUMNS = {"k": "string", "i": "int64"}
SCHEMA = pa.schema([("k", pa.string()), ("i", pa.int64())])
OPS = ArrowRows()
CODEC = ArrowSourceCodec("s", COLUMNS, row_max_bytes=1_000)


def stream(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def batch(texts: list[str | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(texts, pa.string()), pa.array(range(len(texts)), pa.int64())], schema=SCHEMA)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_a_batch_says_what_it_holds(compression: str | None) -> None:
    (told,) = claims(stream(batch(["abc", None, "de" * 4_000]), compression), SCHEMA)
    assert told.rows == 3
    assert 8_000 < told.body_bytes < 9_000
    rows, bad = CODEC.decode(stream(batch(["abc", None]), compression), "arrow", [5, 6])
    assert bad == []
    assert rows is not None
    assert rows.to_pydict() == {"k": ["abc", None], "i": [0, 1], "stime": [5, 6]}


def bomb(rows: int) -> bytes:
    zeros = np.zeros(rows, dtype=np.int64)
    empty = pa.array([""]).take(pa.array(zeros.astype(np.int32)))
    return stream(pa.record_batch([empty, pa.array(zeros)], schema=SCHEMA), "zstd")


def test_few_bytes_do_not_become_many_rows() -> None:
    payload = bomb(2_000_000)
    assert len(payload) < 10_000
    before = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    rows, ((at, reason, _),) = CODEC.decode(payload, "arrow", [1])
    assert (rows, at) == (None, -1)
    assert reason == (
        "2000000 rows in 1 batches but 1 stimes in the record: send one batch, and one stime for each of its rows"
    )
    assert pa.total_allocated_bytes() == before
    assert pool.bytes_allocated() == before


def test_decompressed_bytes_are_bounded_by_the_rows() -> None:
    large = stream(batch(["x" * 40_000_000]), "zstd")
    assert len(large) < 10_000
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    rows, ((at, reason, _),) = CODEC.decode(large, "arrow", [1])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (rows, at) == (None, -1)
    assert "bytes decompressed, " in reason
    assert pa.total_allocated_bytes() == before
    assert peak < 1_000_000


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_bytes_that_lie_are_one_reject(at: int) -> None:
    payload = bytearray(stream(batch(["abc", "d"]), "zstd"))
    at = min(at, len(payload) - 1)
    for value in (0, 0xFF, 0x7F):
        changed = bytes(payload[:at]) + bytes([value]) + bytes(payload[at + 1 :])
        rows, bad = CODEC.decode(changed, "arrow", [1, 2])
        assert rows is not None or (len(bad) == 1 and bad[0][0] == -1)
        CODEC.decode(changed[: at + 1], "arrow", [1, 2])


def test_other_columns_and_dictionaries_are_refused() -> None:
    other = pa.record_batch({"x": [1]})
    with pytest.raises(Unclaimed, match=r"columns \(x int64\), expected \(k string, i int64\)"):
        claims(stream(other), SCHEMA)
    schema = pa.schema([("k", pa.dictionary(pa.int8(), pa.string()))])
    coded = pa.record_batch([pa.array(["a"]).dictionary_encode().cast(schema.field(0).type)], schema=schema)
    with pytest.raises(Unclaimed, match="a dictionary in it"):
        claims(stream(coded), schema)


def test_a_row_is_as_large_as_its_values() -> None:
    lists = pa.array([["ab", None], [], None, ["x" * 10]], pa.list_(pa.string()))
    rows = pa.record_batch({"k": ["abc", None, "é", ""], "i": [1, None, 3, 4], "l": lists})
    assert row_sizes(rows).tolist() == [3 + 8 + 8 + (8 + 2) + 8, 8 + 8, 2 + 8 + 8, 8 + 8 + 8 + 10]
    assert row_sizes(rows.slice(2)).tolist() == [2 + 8 + 8, 8 + 8 + 8 + 10]


def test_rows_beyond_row_max_are_dead_letters_and_their_neighbours_are_not() -> None:
    texts = [b"a", b"x" * 1_000, b"b"]
    payload = b"[" + b",".join(b'{"k":"%s","i":%d}' % (t, n) for n, t in enumerate(texts)) + b"]"
    for found in (CODEC.decode(payload, "json", [1, 2, 3]),
                  CODEC.decode(stream(batch([t.decode() for t in texts])), "arrow", [1, 2, 3])):  # fmt: skip
        rows, ((at, reason, _),) = found
        assert rows is not None
        (rows,) = OPS.settle([[rows]])
        assert rows.column("i").to_pylist() == [0, 2]
        assert rows.column("stime").to_pylist() == [1, 3]
        assert at == 1
        assert reason.endswith(", row_max is 1000: send less in it, or raise `timing: row_max`")


def test_a_result_beyond_row_max_is_its_rows_dead_letter() -> None:
    row = [("ab", 3, 1.0, True, 1), ("ab", 600_000, 1.0, True, 2)]
    with worlds.kernel(lambda app, a, b: a.map(y="repeat(k, i)")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [row, []]}))
        assert on.to_dicts(outputs[0].rows) == [{"y": "ababab"}]
        assert outputs[0].rejects[0].reason == (
            "tuple at stime 2: a row of the result is larger than row_max, 1000000 bytes: it has 1200008, 1200000 of "
            "them in column 'y'; select less, or raise `timing: row_max`"
        )


def test_nesting_that_the_decoder_would_not_survive_everywhere_is_refused() -> None:
    """How deep Python may recurse depends on the caller: one replica would take what another rejects."""
    for depth, fits in ((99, True), (100, False), (5_000, False), (300_000, False)):
        codec = ArrowSourceCodec("s", COLUMNS)
        deep = b'[{"k":"[[[","i":1,"z":' + b"[" * depth + b"]" * depth + b"}]"
        rows, bad = codec.decode(deep, "json", [1])
        assert (rows is not None) is fits
        assert fits or bad[0][:2] == (-1, "nested more than 100 levels deep: send what is deeper as text")


def test_the_engine_has_a_limit_and_never_a_place_to_spill_to() -> None:
    connection = connect(memory_bytes=100 << 20)
    asked = "SELECT value FROM duckdb_settings() WHERE name IN ('memory_limit', 'temp_directory') ORDER BY name"
    assert [r[0] for r in connection.execute(asked).fetchall()] == ["100.0 MiB", ""]
    connection.close()


def test_out_of_memory_is_nobodys_dead_letter() -> None:
    duck = Duck(memory_bytes=16 << 20)
    statement = duck.statement(
        lambda feed: f"SELECT list_sort(list(i)) AS y FROM (SELECT unnest(range(i)) AS i FROM {feed})", worlds.SCHEMA
    )
    assert statement.run(worlds.batch([("a", 3, 1.0, True, 1)])).to_pydict() == {"y": [[0, 1, 2]]}
    with pytest.raises(EngineOutOfMemory, match=r"Raise `engine_memory` in borealis\.yaml"):
        statement.run(worlds.batch([("a", 50_000_000, 1.0, True, 1)]))
    duck.close()
