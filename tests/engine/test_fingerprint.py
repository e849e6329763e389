"""Replicas pair only if they compute equal bits: the same in every process, different for every other query."""

from __future__ import annotations

import subprocess
import sys

from borealis_py import App
from borealis_py.engine import canonical_hash, compile_query
from borealis_py.query import AppSpec
from tests.engine import worlds

SCRIPT = """
import sys
from borealis_py.engine import canonical_hash, compile_query
from borealis_py.query import AppSpec
kernel = compile_query(AppSpec.from_json(sys.argv[1]), "q")
rows, _ = kernel.source_codec("s").decode(sys.argv[2].encode(), "json", [1, 2, 3])
_, outputs = kernel.step(kernel.initial(), 0, 10, {0: kernel.order(kernel.settle([[rows]]))})
print(kernel.fingerprint, canonical_hash(outputs[9].rows))
"""
ROWS = '[{"x":1e16,"k":"a"},{"x":0.1,"k":"a"},{"x":-1e16,"k":"a"}]'


def app_of(predicate: str) -> AppSpec:
    app = App("a")
    source = app.source("s", schema={"x": "double", "k": "string"})
    app.query(
        "q", source.filter(predicate).window("1s").group_by("k").agg(s="sum(x)", d="stddev(x)", t="sum(exp(sin(x)))")
    )
    return app.describe()


def test_another_process_has_the_same_fingerprint_and_bits() -> None:
    app = app_of("x <> 0")
    on = compile_query(app, "q")
    rows, _ = on.source_codec("s").decode(ROWS.encode(), "json", [1, 2, 3])
    _, outputs = on.step(on.initial(), 0, 10, {0: on.order(on.settle([[rows]]))})
    here = f"{on.fingerprint} {canonical_hash(outputs[9].rows)}"
    on.close()
    command = [sys.executable, "-c", SCRIPT, app.to_json(), ROWS]
    there = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert there.stdout.strip() == here


def test_another_query_has_another() -> None:
    found = set()
    for predicate in ("x > 0", "x > 1"):
        on = compile_query(app_of(predicate), "q")
        found.add(on.fingerprint)
        on.close()
    assert len(found) == 2


def test_many_kernels_may_live_at_once() -> None:
    kernels = [worlds.make(lambda app, a, b: a.window("100ms").agg(n="count(*)")) for _ in range(3)]
    for on in kernels:
        assert worlds.run(on, {0: [[("a", 1, 1.0, True, 1)], []]}, 0, 1)[0][0]["n"] == 1
        on.close()
