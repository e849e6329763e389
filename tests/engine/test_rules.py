"""Results that lie here as they were: a change of our own rules that makes other bits needs another number."""

from __future__ import annotations

import hashlib
from typing import Any

import duckdb
import pytest

from borealis_py.engine import compile_query, fingerprint
from tests.reconcile.flights_world import AHEAD_US, ORIGIN, WIDTH_US, app
from tests.reconcile.logs import LOGS
from tests.reconcile.replica import Replica

GOLDEN = {
    (4, "1.5.6", "totals"): "7fd046a96531345c3dd0efc6",
    (4, "1.5.6", "big"): "0ae44cefc8492d7cd8466559",
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
