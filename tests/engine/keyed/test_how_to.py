"""The queries of docs/how-to/joins.md compile, and none of them is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from borealis_py import App
from borealis_py.engine import compile_query
from borealis_py.engine.keyed.table_file import known
from borealis_py.query import Stream

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "joins.md"


def test_every_query_of_the_page_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shops.csv").write_text("shop,city\nmitte,Berlin\n")
    app = App("shop")
    orders = app.source("orders", schema={"id": "int", "shop": "string", "item": "string", "euros": "double"})
    payments = app.source("payments", schema={"id": "int", "amount": "double"})
    names: dict[str, object] = {"app": app, "orders": orders, "payments": payments}
    for block in re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text()):
        exec(block, names)
    made = {name: value for name, value in names.items() if isinstance(value, Stream)}
    queries = ("priced", "titled", "located", "once", "moving", "best", "busy")
    assert set(made) == {"orders", "payments", "catalogue", "paid", *queries}
    for name in queries:
        app.query(name, made[name])
    spec = app.describe().with_files(known)
    for name in spec.queries:
        compile_query(spec, name).close()
