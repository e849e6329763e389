"""The costs of a row as JSON and as Arrow: both are paid for the same rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from benchmarks.measure import encodings
from borealis_py.bench.figures import BenchError


def test_every_way_costs_something_and_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "ROWS", 1_000)
    costs = encodings.measure(100, runs=1)
    assert [cost.encoding for cost in costs] == ["json", "arrow"]
    assert all(min(cost.write_us, cost.read_us, cost.row_bytes) > 0 for cost in costs)


def test_other_rows_are_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    real = encodings._Rows.read

    def without_a_row(self: Any, payloads: Any, encoding: str) -> list[pa.RecordBatch]:
        found = real(self, payloads, encoding)
        return [batch.slice(1) for batch in found] if encoding == "arrow" else found

    monkeypatch.setattr(encodings, "ROWS", 1_000)
    monkeypatch.setattr(encodings._Rows, "read", without_a_row)
    with pytest.raises(BenchError, match="JSON and Arrow give different rows"):
        encodings.measure(100, runs=1)
