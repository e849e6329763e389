"""The queries of docs/how-to/joins.md and windows.md compile, and none of them is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from borealis_py import App
from borealis_py.engine import compile_query
from borealis_py.engine.keyed.table_file import known
from borealis_py.query import Stream

PAGES = Path(__file__).parents[3] / "docs" / "how-to"


def compiled(
    page: str, app: App, sources: dict[str, Stream], queries: set[str], topics: frozenset[str] = frozenset()
) -> None:
    names: dict[str, object] = {"app": app, **sources}
    for block in re.findall(r"(?s)```python\n(.*?)```", (PAGES / page).read_text()):
        exec(block, names)
    made = {name: value for name, value in names.items() if isinstance(value, Stream)}
    assert made.keys() == sources.keys() | queries | topics
    for name in queries - app.describe().queries.keys():
        app.query(name, made[name])
    spec = app.describe().with_files(known)
    for name in spec.queries:
        compile_query(spec, name).close()


def test_every_query_over_windows_compiles() -> None:
    app = App("shop")
    orders = app.source("orders", schema={"shop": "string", "euros": "double"})
    clicks = app.source("clicks", schema={"visitor": "string", "page": "string"})
    names = {"weeks", "shifts", "days", "last_week", "business_days", "hundred", "visits"}
    compiled("windows.md", app, {"orders": orders, "clicks": clicks}, names)


def test_every_query_that_compares_rows_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shops.csv").write_text("shop,city\nmitte,Berlin\n")
    app = App("shop")
    orders = app.source("orders", schema={"id": "int", "shop": "string", "item": "string", "euros": "double"})
    payments = app.source("payments", schema={"id": "int", "amount": "double"})
    names = {"paid", "priced", "titled", "located", "once", "moving", "best", "best_shops", "busy"}
    compiled("joins.md", app, {"orders": orders, "payments": payments}, names, frozenset({"catalogue", "totals"}))
