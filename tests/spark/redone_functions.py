"""Functions of the app whose redos are tested, over columns key, x. Tests import this file as `redone_functions`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def shifted(table: pa.Table) -> pa.Table:
    """A row for each row. Refuses those without a number."""
    if table["x"].null_count:
        raise ValueError("no number")
    return pa.table({"y": pc.add(pc.multiply(table["x"], 0.1), 1.0)})


def folded(group: pa.Table) -> pa.Table:
    """A result that depends on the order of the group's rows."""
    total = 0.0
    for x in group["x"].to_pylist():
        total = total * 0.5 + (x or 0.0)
    return pa.table({"total": [total], "first": group["stime"].take(pa.array([0]))})
