"""A first test of an app, timed in a process of its own: `python -m borealis_py.bench.load.first_test`.

Prints one JSON object: seconds of the imports, of the first `run`, and of a first `World` that loses an input for 8 s.
"""

from __future__ import annotations

import json
import time

ROWS = 20
"""Rows of each source, 200 ms apart."""


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
