"""Results that lie here as they were: a change of our own rules that makes other bits needs another number."""

from __future__ import annotations

import hashlib
from typing import Any

import duckdb
import numpy as np
import pytest

from borealis_py import App
from borealis_py.engine import compile_query, fingerprint
from borealis_py.query import Stream
from tests.engine import worlds
from tests.engine.splits import KEYED, LAST
from tests.reconcile.flights_world import AHEAD_US, ORIGIN, WIDTH_US, app
from tests.reconcile.logs import LOGS
from tests.reconcile.replica import Replica

GOLDEN = {
    (7, "1.5.6", "totals"): "e7a4746f82c2e547dd3d9db7",
    (7, "1.5.6", "big"): "93d2c7414d78d3404016b59a",
    (7, "1.5.6", "types"): "bc067ce50529fc4aa3f33341",
}
"""(rules, engine's version, query) -> hash of all rows and dead letters of a fixed log."""


def said(query: str) -> str:
    kernel = compile_query(app("kernel"), query)
    digest = hashlib.blake2b(digest_size=12)
    for bucket, output in sorted(Replica(kernel, LOGS, ORIGIN, WIDTH_US, AHEAD_US).outputs.items()):
        rows = [] if output.rows is None else [text for text, _ in kernel.published(output.rows)]
        letters = [(r.source, r.offset, r.reason, r.raw) for r in output.rejects]
        digest.update(repr((bucket, rows, letters)).encode())
    kernel.close()
    return digest.hexdigest()


ROWS = (
    b'[{"m":"1.05","t":"0001-01-01T00:00:00.000000Z","d":"9999-12-31","y":"AP8=","j":{"a":1.10}},'
    b'{"m":"-9999999999.99","t":"2026-02-28T23:59:59.999999Z","d":null,"y":"","j":[1, 1e2]},'
    b'{"m":"1.005","t":null,"d":null,"y":null,"j":null},{"m":"9999999999.99","t":null,"d":null,"y":null,"j":null},'
    b'{"m":null,"t":"9999-12-31T00:00:00.000000Z","d":"2024-02-29","y":"AP8=","j":{"a":1.10}}]'
)
"""One of them has too many digits, of one t + 1 day is beyond the last year, of two m * m is too large."""


def said_of_types() -> str:
    def build(app: App, a: Stream, b: Stream) -> Stream:
        mapped = a.map(y="y", j="j", m="m", o="m * m", t="t + INTERVAL 1 DAY", d="d")
        return mapped.window("100ms").group_by("y", "j").agg(s="sum(m)", v="avg(m)", o="max(o)", t="max(t)", d="min(d)")

    columns = {"m": "decimal(12,2)", "t": "timestamp", "d": "date", "y": "binary", "j": "json"}
    with worlds.kernel(build, columns) as on:
        rows, bad = on.source_codec("a").decode(ROWS, "json", [1, 2, 3, 4, 5])
        _, outputs = on.step(on.initial(), 0, 1, {0: on.order(on.settle([[rows]]))})
        found = [text for text, _ in on.published(outputs[0].rows)]
        letters = [(r.reason, r.raw) for r in outputs[0].rejects]
    assert (len(bad), len(letters), len(found)) == (1, 3, 1)
    return hashlib.blake2b(repr((bad, found, letters)).encode(), digest_size=12).hexdigest()


def test_rows_of_every_type_give_the_same_bits_under_the_same_number_of_rules() -> None:
    assert GOLDEN.get((fingerprint.RULES, duckdb.__version__, "types")) == said_of_types()


KEYED_GOLDEN = {
    (7, "1.5.6", "join"): "f17ba0a11e3219c8c6bc0db9",
    (7, "1.5.6", "left_join"): "cc97075ffab695320b056df0",
    (7, "1.5.6", "self_join"): "59ee5d25f76b869451aa5e96",
    (7, "1.5.6", "aggregated_join"): "d374f6204837b266ab8d6707",
    (7, "1.5.6", "join_of_windows"): "87a0c0e0b6e0b195da09013d",
    (7, "1.5.6", "lookup"): "2fbfd89219ad58610b8cbd97",
    (7, "1.5.6", "aggregated_lookup"): "9e6fa87efd719a22912ab2a5",
    (7, "1.5.6", "lookup_in_windows"): "15fe555ee8884de320fe1877",
    (7, "1.5.6", "distinct"): "ec96ec392ac499682fe45ed4",
    (7, "1.5.6", "distinct_join"): "57a984373e9ea4c978ca283b",
    (7, "1.5.6", "over"): "1d71ca05839734814a487358",
    (7, "1.5.6", "over_all"): "5e6e6c6e2e0efe308e4b6173",
    (7, "1.5.6", "top"): "14af6e8439885086d7fee331",
    (7, "1.5.6", "top_unkeyed"): "ebf3909039768e5165bfef1d",
    (7, "1.5.6", "count"): "7b041590fadf444d40c41415",
    (7, "1.5.6", "count_unkeyed"): "8934fc04c94c67a176342423",
    (7, "1.5.6", "session"): "89e8ff0603349f91e569a2cc",
    (7, "1.5.6", "session_unkeyed"): "a3bb408b63245c951c12e50a",
    (7, "1.5.6", "sessions_of_counts"): "840e81eecef7d80fcd3c2477",
}
"""The same of rows and dead letters of operators that compare rows by key, over a fixed history."""


@pytest.mark.parametrize("name", KEYED)
def test_the_same_rows_give_the_same_pairs_and_ranks_under_the_same_number_of_rules(name: str) -> None:
    random = np.random.default_rng(3)

    def row(bucket: int) -> worlds.Row:
        i, digits, places = (int(random.integers(*of)) for of in ((-3, 4), (-(10**15), 10**15), (-30, 2)))
        x = float(f"{digits}e{places}")  # 10.0 ** places is another number on another processor
        key, b = random.choice(["a", "b", "c"]), bool(random.integers(2))
        stime = bucket * worlds.WIDTH_US + int(random.integers(worlds.WIDTH_US))
        return (str(key) if i else None, i, x if i > -3 else None, b, stime)

    history = {bucket: [[row(bucket) for _ in range(5)] for _ in range(2)] for bucket in range(0, LAST, 2)}
    digest = hashlib.blake2b(digest_size=12)
    with worlds.kernel(KEYED[name]) as on:
        _, outputs = on.step(on.initial(), 0, LAST, worlds.ordered(on, history))
        for bucket, output in sorted(outputs.items()):
            rows = [] if output.rows is None else [text for text, _ in on.published(output.rows)]
            digest.update(repr((bucket, rows, [(r.reason, r.raw) for r in output.rejects])).encode())
    assert KEYED_GOLDEN.get((fingerprint.RULES, duckdb.__version__, name)) == digest.hexdigest()


@pytest.mark.parametrize("query", ["totals", "big"])
def test_the_same_log_gives_the_same_bits_under_the_same_number_of_rules(query: str) -> None:
    """If this fails: the change makes other bits. Raise `engine.fingerprint.RULES`, then write down what comes out."""
    assert GOLDEN.get((fingerprint.RULES, duckdb.__version__, query)) == said(query)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("RULES", 10**6),
        ("merge", lambda parts: parts[0]),
        ("sort_by_key", lambda batch, by: batch),
        ("grouped", lambda rows, *a: rows.columns),
        ("partitions_of", lambda *a: __import__("numpy").zeros(1)),
        ("said", lambda column: column.to_pylist()[:1] if str(column.type) == "double" else []),
        ("normal_json", lambda text: text),
        ("_TYPES_TEST", "SELECT 1.5 AS m"),
    ],
)
def test_another_order_partition_or_number_is_another_kernel(
    name: str, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint.fingerprint("q")
    monkeypatch.setattr(fingerprint, name, other)
    fingerprint.self_test.cache_clear()
    try:
        assert fingerprint.fingerprint("q") != before
    finally:
        fingerprint.self_test.cache_clear()


def test_other_json_is_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint.fingerprint("q")
    monkeypatch.setattr(fingerprint.msgspec.json, "encode", lambda value: b"other")
    fingerprint.self_test.cache_clear()
    try:
        assert fingerprint.fingerprint("q") != before
    finally:
        fingerprint.self_test.cache_clear()
