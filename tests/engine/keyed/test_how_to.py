"""The queries of docs/how-to/joins.md compile, and none of them is left out."""

from __future__ import annotations

import re
from pathlib import Path

from borealis_py import App
from borealis_py.engine import compile_query
from borealis_py.query import Stream

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "joins.md"


def test_every_query_of_the_page_compiles() -> None:
    app = App("shop")
    orders = app.source("orders", schema={"id": "int", "shop": "string", "item": "string", "euros": "double"})
    payments = app.source("payments", schema={"id": "int", "amount": "double"})
    known: dict[str, object] = {"app": app, "orders": orders, "payments": payments}
    for block in re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text()):
        exec(block, known)
    made = {name: value for name, value in known.items() if isinstance(value, Stream)}
    assert set(made) - {"orders", "payments"} == {"paid", "priced", "catalogue", "titled", "once", "moving", "best", "busy"}
    for name in ("priced", "titled", "once", "moving", "best", "busy"):
        app.query(name, made[name])
    spec = app.describe()
    for name in spec.queries:
        compile_query(spec, name).close()
