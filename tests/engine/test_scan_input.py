"""Statements read their input in the thread that runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STATEMENTS = """
import os
from borealis_py.engine.sql.duck_statement import Duck
import pyarrow as pa

def threads():
    return len(os.listdir("/proc/self/task"))

rows = pa.record_batch({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0], "c": ["x", "y", "z"]})
duck = Duck()
before = threads()
for sql in (
    "SELECT * FROM {0}",
    "SELECT c, a FROM {0} WHERE a > 1",
    "SELECT count(*) AS n FROM {0}",
    "SELECT sum(b) AS s FROM {0}",
    "SELECT a FROM {0} WHERE b IN (0.0, 2.0, 'nan', 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0)",
    "SELECT count(*) AS n FROM {0} AS l JOIN {0} AS r ON l.a < r.a",
):
    statement = duck.statement(sql.format, rows.schema)
    for some in (rows, rows.slice(0, 0), rows.slice(1, 2)):
        print(list(statement.run(some).to_pydict().values()))
print(threads() - before)
"""


def test_a_statement_starts_no_thread() -> None:
    root = Path(__file__).parents[2]
    said = subprocess.run(
        [sys.executable, "-c", STATEMENTS],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert said.stdout.splitlines() == [
        "[[1, 2, 3], [1.0, 2.0, 3.0], ['x', 'y', 'z']]", "[[], [], []]", "[[2, 3], [2.0, 3.0], ['y', 'z']]",
        "[['y', 'z'], [2, 3]]", "[[], []]", "[['y', 'z'], [2, 3]]",
        "[[3]]", "[[0]]", "[[2]]",
        "[[6.0]]", "[[None]]", "[[5.0]]",
        "[[2]]", "[[]]", "[[2]]",
        "[[3]]", "[[0]]", "[[1]]",
        "0",
    ]  # fmt: skip
