"""Puts rows through calls of SQL functions, one at a time, and says what each cost: `python -m tests.engine.enduring`.

A process of its own, that may be killed by what it tries: before each row it says which one comes (`test_extremes.py`).
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

from borealis_py import App, QueryError
from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from tests.engine import extremes

ADDRESS_SPACE = 6 << 30
SOON_S = 1.0
"""Up to here it does not matter what else the machine does."""
PACE_S = 0.05
"""What `_paced` takes on a slow core that nobody shares."""


def compiled(call: str, *, aggregate: bool) -> DuckKernel | None:
    """The call as a query's column, as text if it has no column's type; None if it cannot be one."""
    for text in (call, f"CAST({call} AS VARCHAR)"):
        app = App("t")
        source = app.source("s", schema=extremes.COLUMNS)
        try:
            app.query("q", source.window("100ms").agg(y=text) if aggregate else source.map(y=text))
            return compile_query(app.describe(), "q")
        except QueryError:
            continue
    return None


def _peak_reset() -> None:
    with open("/proc/self/clear_refs", "w") as out:
        out.write("5")


def _memory(field: str) -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def _paced() -> float:
    """Seconds of CPU that something always the same takes just now: more where others share the core and its caches."""
    started, total = time.process_time(), 0
    for n in range(500_000):
        total += n
    return time.process_time() - started


def turn(kernel: DuckKernel, rows: list[extremes.Values]) -> list[Any]:
    """What a replica does with a record of these rows: decoded, run, encoded. [hash, reasons], or the fault's name."""
    codec = kernel.source_codec("s")
    payload = codec.encode(extremes.batch(rows))
    batch, bad = codec.decode(payload, "arrow", range(len(rows)))
    assert bad == [], bad
    try:
        _, outputs = kernel.step(kernel.initial(), 0, 1, {0: kernel.order([batch])})
    except Exception as exc:
        return ["fault", type(exc).__name__, str(exc)[:300]]
    output = outputs.get(0)
    if output is None:
        return ["", []]
    if output.rows is not None:
        kernel.encode_parts(output.rows, 900_000)
        list(kernel.published(output.rows))
    return ["" if output.rows is None else canonical_hash(output.rows), [r.reason for r in output.rejects]]


def endure(call: str, aggregate: bool, only: list[str] | None, chance: int) -> dict[str, object]:
    """Verdict, seconds of CPU of a core of its own, and megabytes by row; `only` these."""
    kernel = compiled(call, aggregate=aggregate)
    if kernel is None:
        return {"refused": True}
    found: dict[str, Any] = {}
    rows = list(extremes.rows_for(call, chance))
    try:
        for label, row in rows:
            if only is not None and label not in only:
                continue
            print(json.dumps(["at", label]), flush=True)
            before = _memory("VmRSS")
            _peak_reset()
            started = time.process_time()
            said = turn(kernel, [row])
            took = time.process_time() - started
            if took > SOON_S:
                took /= max(1.0, _paced() / PACE_S)
            grown = _memory("VmHWM") - before
            found[label] = [said, round(took, 3), grown >> 20]
            if said[0] == "fault":
                kernel.close()
                kernel = compiled(call, aggregate=aggregate)
                assert kernel is not None
        if not aggregate and only is None:
            small = [
                (label, row) for label, row in rows
                if label in found and found[label][0][0] != "fault" and sum(len(str(v)) for v in row.values()) < 4_000
            ]  # fmt: skip
            print(json.dumps(["at", "together"]), flush=True)
            said = turn(kernel, [row for _, row in small])
            expected = [at for at, (label, _) in enumerate(small) if found[label][0][1]]
            if said[0] == "fault" or [int(r.split("stime ")[1].split(":")[0]) for r in said[1]] != expected:
                found["together"] = [["differs", said], 0, 0]
    finally:
        kernel.close()
    return {"rows": found}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    asked = json.load(sys.stdin)
    for call, aggregate, only in asked["calls"]:
        print(json.dumps(["call", call]), flush=True)
        print(json.dumps(["done", call, endure(call, aggregate, only, asked["chance"])]), flush=True)


if __name__ == "__main__":
    main()
