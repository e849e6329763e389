"""How long a user's first tests take, in new processes without Java or a broker, each with nothing loaded before.

    python -m borealis_py.bench.first_test

is one of them, and imports nothing of ours before it begins. It prints a JSON object: seconds of the imports, of the
first `run`, and of a first `World`, which loses an input for 8 s.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from borealis_py.bench.figures import FirstTestFigures

RUNS = 3
COMMAND = (sys.executable, "-m", "borealis_py.bench.first_test")
ROWS = 20
"""Rows of each source, 200 ms apart."""


def measure(command: Sequence[str] = COMMAND, runs: int = RUNS) -> FirstTestFigures:
    """Medians of some processes. Raises BenchError: one failed, or computed other rows in its world."""
    from borealis_py.bench.figures import FirstTestFigures

    found = [_once(command) for _ in range(runs)]
    import_s, run_s, world_s = (median(one[name] for one in found) for name in ("import_s", "run_s", "world_s"))
    return FirstTestFigures(runs, import_s, run_s, world_s)


def _once(command: Sequence[str]) -> dict[str, float]:
    from borealis_py.bench.figures import BenchError

    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"a first test failed: {done.stderr.strip() or f'exit code {done.returncode}'}")
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def main() -> None:
    """Do what a user's first tests do, and print how long it took."""
    began = time.perf_counter()
    from borealis_py import App
    from borealis_py.testing import World, run

    imported = time.perf_counter()
    app = App("shop")
    berlin, paris = (app.source(city, schema={"item": "string", "euros": "double"}) for city in ("berlin", "paris"))
    sales = app.union(berlin, paris).window("1s").group_by("item").agg(sold="count(*)", euros="sum(euros)")
    app.query("sales", sales)
    rows = [(f"{200 * n}ms", {"item": "tea", "euros": 2.5}) for n in range(ROWS)]
    results = run(app, {"berlin": rows, "paris": rows})
    ran = time.perf_counter()
    with World(app) as world:
        world.send("berlin", *rows)
        world.send("paris", *rows)
        world.lose("paris", for_="8s")
        world.advance("10s")
        world.end()
        same = world.corrected("sales") == results.corrected("sales")
    ended = time.perf_counter()
    if not same or len(results["sales"]) != ROWS // 5:
        raise SystemExit(f"the world's rows are not those of run: {results}")
    print(json.dumps({"import_s": imported - began, "run_s": ran - imported, "world_s": ended - ran}))


if __name__ == "__main__":
    main()
