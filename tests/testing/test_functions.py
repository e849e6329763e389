"""Python functions in the production replicas of a world: lost inputs, killed replicas, partitions, audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from borealis_py import App
from borealis_py.testing import World, run
from tests.engine.applied.modules import imported
from tests.testing.apps import audited

TEXT = """
import pyarrow as pa
import pyarrow.compute as pc

def taxed(orders):
    if "stolen" in orders["item"].to_pylist():
        raise ValueError("nobody pays for this")
    return pa.table({"euros": pc.multiply(orders["euros"], 1.19)})

def best(group):
    top = group.sort_values(["euros", "stime"], ascending=[False, True], kind="stable").head(2)
    return top[["euros", "stime"]].rename(columns={"stime": "paid_at"})
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("shop") / "shop_functions.py"
    file.write_text(TEXT)
    return imported(file)


def shop(functions: Any, partitions: int | None = None) -> App:
    app = App("shop", modules=[Path(functions.__file__)])
    by = None if partitions is None else "item"
    columns = {"item": "string", "euros": "double"}
    paid = app.union(app.source("web", schema=columns), app.source("till", schema=columns)).apply(
        functions.taxed, {"euros": "double"}, keep=("item",)
    )
    paid = paid.node("paid", partitions=partitions, by=by)
    best = paid.window("1s").group_by("item").apply(
        functions.best, {"euros": "double", "paid_at": "int64"}, style="pandas"
    )  # fmt: skip
    app.query("best", best, partitions=partitions, by=by)
    return app


def orders(count: int, every_ms: int = 250) -> list[tuple[str, dict[str, object]]]:
    items = ("tea", "rum", "stolen", "oil")
    return [(f"{n * every_ms}ms", {"item": items[n % 4], "euros": 1.1 * (n % 7)}) for n in range(count)]


def test_functions_run_in_replicas_redos_and_audits_alike(functions: Any) -> None:
    given = {"web": orders(40), "till": orders(60, every_ms=160)}
    expected = run(shop(functions), given)
    assert {row["item"] for row in expected["best"]} == {"tea", "rum", "oil"}
    assert len(expected.dead_letters) == 25
    assert "shop_functions.taxed: ValueError: nobody pays for this (line 7)" in expected.dead_letters[0].reason
    with World(shop(functions, partitions=2)) as world:
        for source, rows in given.items():
            world.send(source, *rows)
        world.advance("3s")
        world.lose("web", for_="4s")
        world.advance("5s")
        labels = {change.missing_sources for change in world.live("best") if change.kind == "TENTATIVE"}
        assert labels == {("web",)}
        world.kill("best.0.r1")
        world.end()
        found, wanted = (sorted(repr((r.stime, r.value)) for r in on.corrected("best")) for on in (world, expected))
        assert found == wanted
        assert sorted(letter.reason for letter in world.dead_letters()) == sorted(
            letter.reason for letter in expected.dead_letters
        )
        audited(world, "best")
