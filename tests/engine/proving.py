"""Runs calls of SQL functions as queries do and prints what came out: `python -m tests.engine.proving < calls.json`.

A process of its own, so that whoever asks can give it another time zone, locale, home, ... See `test_proved.py`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from collections.abc import Sequence

import pyarrow as pa

from borealis_py import App, QueryError
from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from borealis_py.engine.arrow.rows import segment_schema
from tests.engine import examples, worlds


def compiled(call: str, *, aggregate: bool) -> tuple[DuckKernel | None, str]:
    """The call as the column of a query, as text if it has no column's type; None and why if it cannot be one."""
    why = ""
    for text in (call, f"CAST({call} AS VARCHAR)"):
        app = App("t")
        source = app.source("s", schema={**worlds.COLUMNS, **examples.TYPED})
        try:
            app.query("q", source.window("100ms").agg(y=text) if aggregate else source.map(y=text))
            return compile_query(app.describe(), "q"), ""
        except QueryError as exc:
            why = str(exc).split("\n")[0]
    return None, why


def evaluated(call: str, batch: pa.RecordBatch, *, aggregate: bool) -> dict[str, object]:
    """What the call gives: `good` rows' hash and number that are not null, `bad` rows with reasons; or `refused`."""
    kernel, why = compiled(call, aggregate=aggregate)
    if kernel is None:
        return {"refused": why}
    try:
        _, outputs = kernel.step(kernel.initial(), 0, 1, {0: (batch,)})
    finally:
        kernel.close()
    output = outputs[0]
    rows = output.rows
    return {
        "good": "" if rows is None else canonical_hash(rows),
        "rows": 0 if rows is None else rows.num_rows - rows.column("y").null_count,
        "bad": [(r.reason, r.raw.decode()) for r in output.rejects],
    }


def rows_for(call: str) -> pa.RecordBatch:
    """Rows that depend on the call alone."""
    seed = zlib.crc32(call.encode())
    plain = worlds.batch(examples.rows(seed))
    typed = examples.typed_rows(seed, plain.num_rows)
    schema = segment_schema({**dict.fromkeys(worlds.COLUMNS, "int64"), **examples.TYPED})
    columns = [pa.array(typed[name], schema.field(name).type) for name in examples.TYPED]
    names = [*plain.schema.names[:-1], *examples.TYPED, "stime"]
    return pa.RecordBatch.from_arrays([*plain.columns[:-1], *columns, plain.columns[-1]], names)


def evaluate_all(calls: Sequence[tuple[str, bool]]) -> dict[str, dict[str, object]]:
    """By call."""
    return {call: evaluated(call, rows_for(call), aggregate=aggregate) for call, aggregate in calls}


def main() -> None:
    """Reads {"calls": [[call, is an aggregate], ...], "threads": n}, prints {"at": seconds, "found": {...}}."""
    asked = json.load(sys.stdin)
    calls, count = asked["calls"], asked["threads"]
    found: dict[str, dict[str, object]] = {}
    threads = [
        threading.Thread(target=lambda part=calls[n::count]: found.update(evaluate_all(part))) for n in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump({"at": int(time.time()), "found": found}, sys.stdout)


if __name__ == "__main__":
    main()
