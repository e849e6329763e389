"""Statements run in the thread that asks for them, and whoever else uses DuckDB in the process notices nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import dataset

from borealis_py.engine.duck import plain_scan

STATEMENTS = """
import os
from borealis_py.engine.duck.statement import Duck
import pyarrow as pa

def threads():
    return len(os.listdir("/proc/self/task"))

rows = pa.record_batch({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0], "c": ["x", "y", "z"]})
duck = Duck()
before = threads()
for sql in ("SELECT * ", "SELECT c ", "SELECT count(*) AS n ", "SELECT sum(b) AS s "):
    print(duck.statement((sql + "FROM {} WHERE a > 1").format, rows.schema).run(rows).to_pylist())
print(threads() - before)
"""


def test_a_statement_starts_no_thread() -> None:
    root = Path(__file__).parents[2]
    said = subprocess.run(
        [sys.executable, "-c", STATEMENTS],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert said.stdout.splitlines() == [
        "[{'a': 2, 'b': 2.0, 'c': 'y'}, {'a': 3, 'b': 3.0, 'c': 'z'}]",
        "[{'c': 'y'}, {'c': 'z'}]",
        "[{'n': 2}]",
        "[{'s': 5.0}]",
        "0",
    ]


def test_others_find_the_scanner_of_pyarrow() -> None:
    assert sys.modules["pyarrow.dataset"] is dataset
    assert dataset.Scanner is not plain_scan._PlainScanner


@pytest.mark.parametrize("kind", ["table", "reader", "dataset", "scanner"])
@pytest.mark.parametrize("where", ["", " WHERE a > 1"])
def test_whoever_else_uses_duckdb_reads_what_it_always_did(kind: str, where: str) -> None:
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    rows = {
        "table": lambda: table,
        "reader": table.to_reader,
        "dataset": lambda: dataset.dataset(table),
        "scanner": lambda: dataset.dataset(table).scanner(),
    }[kind]()
    with duckdb.connect() as connection:
        connection.register("given", rows)
        found = connection.execute(f"SELECT b FROM given{where}").fetchall()
    assert found == [("x",), ("y",), ("z",)][1 if where else 0 :]
