"""Results that lie here as they were: a change of our own rules that makes other bits needs another number."""

from __future__ import annotations

import hashlib
from typing import Any

import duckdb
import numpy as np
import pytest

from borealis_py.engine import compile_query, fingerprint
from tests.engine import worlds
from tests.engine.splits import KEYED, LAST
from tests.reconcile.flights_world import AHEAD_US, ORIGIN, WIDTH_US, app
from tests.reconcile.logs import LOGS
from tests.reconcile.replica import Replica

GOLDEN = {
    (3, "1.5.6", "totals"): "7fd046a96531345c3dd0efc6",
    (3, "1.5.6", "big"): "0ae44cefc8492d7cd8466559",
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


KEYED_GOLDEN = {
    (3, "1.5.6", "join"): "acbb7fde6d4a63096b348d4c",
    (3, "1.5.6", "left_join"): "7513df448db200573127e439",
    (3, "1.5.6", "self_join"): "e3aecf7e7a2db170b4dcc367",
    (3, "1.5.6", "aggregated_join"): "fcf8ebdd30a779aa0627511b",
    (3, "1.5.6", "join_of_windows"): "e274a67f4ef1e9d3ecd98828",
    (3, "1.5.6", "distinct"): "9ce00d9c776997b0c46d6ea8",
    (3, "1.5.6", "distinct_join"): "b29d6b49a4c1a93896295d4a",
    (3, "1.5.6", "over"): "1805f264d14a2f9d07d68942",
    (3, "1.5.6", "over_all"): "8c237fbd46d23cbc6ed02992",
    (3, "1.5.6", "top"): "133da46fe2f800606ca9030e",
    (3, "1.5.6", "top_unkeyed"): "595d3f1df3e4a7c428ed5e46",
}
"""The same of rows and dead letters of operators that compare rows by key, over a fixed history."""


@pytest.mark.parametrize("name", KEYED)
def test_the_same_rows_give_the_same_pairs_and_ranks_under_the_same_number_of_rules(name: str) -> None:
    random = np.random.default_rng(3)

    def row(bucket: int) -> worlds.Row:
        i, x = int(random.integers(-3, 4)), float(random.normal() * 10.0 ** random.integers(-15, 16))
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
        ("partitions_of", lambda *a: __import__("numpy").zeros(1)),
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
