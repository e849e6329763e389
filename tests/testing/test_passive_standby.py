"""Passive standbys with the real kernel: whoever takes over begins with a base and increments, and nobody sees it."""

from __future__ import annotations

from collections import Counter

import pytest

from borealis_py import App
from borealis_py.node.checkpoint_files import CheckpointFiles, CheckpointName, LoadedCheckpoint
from borealis_py.testing import World, run
from borealis_py.testing.rows import TimedRow

SCHEMA = {"k": "string", "x": "double"}
KILLS = 3


def every_state() -> App:
    """A query for each kind of state."""
    app, way = App("kinds", bucket="100ms"), "passive-standby"
    a, b = (app.source(name, schema=SCHEMA) for name in "ab")
    both = app.union(a, b)
    queries = {
        "sums": both.window("3s", every="500ms").group_by("k").agg(n="count(*)", s="sum(x)"),
        "lists": both.window("2s", every="1s").agg(l="list(x)").filter("true").window("4s").agg(n="count(*)"),
        "pairs": a.join(b.map(k="k", y="x"), on="k", within=("-1s", "1s"), how="left"),
        "found": a.lookup(b.map(k="k", y="x").table("k"), on="k"),
        "first": both.distinct("k", "x", within="3s"),
        "frames": both.over("k", last=5, within="3s").map(k="k", s="sum(x)"),
        "sessions": both.window(gap="700ms", most="4s").group_by("k").agg(n="count(*)", s="sum(x)"),
        "counts": both.window(rows=7).group_by("k").agg(s="sum(x)"),
    }
    for name, rows in queries.items():
        app.query(name, rows, recovery=way)
    return app


def rows(offset: int) -> list[TimedRow]:
    return [
        (f"{n * 47 + offset}ms", {"k": "abcde"[(n * n + offset) % 5], "x": (n * 7919 + offset) % 100 / 8})
        for n in range(160)
    ]


def test_whoever_takes_over_begins_with_what_was_new(monkeypatch: pytest.MonkeyPatch) -> None:
    app, inputs = every_state(), {"a": rows(0), "b": rows(11)}
    loaded: Counter[bool] = Counter()
    load = CheckpointFiles._load

    def counted(self: CheckpointFiles, name: CheckpointName) -> LoadedCheckpoint | None:
        found = load(self, name)
        loaded[name.is_base] += found is not None
        return found

    monkeypatch.setattr(CheckpointFiles, "_load", counted)
    queries = app.describe().queries
    with World(app) as world:
        for source, some in inputs.items():
            world.send(source, *some)
        for _ in range(KILLS):
            world.advance("2.1s")
            running = [name for name, status in world.status().items() if status and status.state == "STABLE"]
            assert {name.partition(".")[0] for name in running} == set(queries)
            for name in running:
                world.kill(name, for_="1s")
        world.end()
        truth = run(app, inputs)
        for query in queries:
            assert world.corrected(query)
            assert world.corrected(query) == truth.corrected(query)
    assert loaded[False] > len(queries), "increments were begun with"
