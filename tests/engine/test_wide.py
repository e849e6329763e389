"""The work of compiling a query grows with its width, not with its square: counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from borealis_py import App
from borealis_py.engine import compile_query
from borealis_py.engine.sql import expressions, statements
from borealis_py.engine.sql.duck_statement import ScanInput
from borealis_py.engine.sql.expressions import Expression
from borealis_py.query import Stream

QUERIES: dict[str, Callable[[Stream, list[str]], Stream]] = {
    "map": lambda rows, names: rows.map(**{name: f"{name} + 1" for name in names}),
    "maps": lambda rows, names: rows.map(**{n: f"{n} + 1" for n in names}).map(**{n: f"{n} * 2" for n in names}),
    "filtered": lambda rows, names: rows.filter(" AND ".join(f"{n} > 0" for n in names)).map(**{n: n for n in names}),
    "window": lambda rows, names: rows.window("1s").group_by(names[0]).agg(**{f"s{n}": f"sum({n} + 1)" for n in names}),
    "rows": lambda rows, names: rows.window("1s").agg(**{f"s{n}": f"list({n} + 1)" for n in names}),
    "over": lambda rows, names: rows.over(last=3, within="1s").map(**{f"l{n}": f"lag({n}) + 1" for n in names}),
}


def work(build: Callable[[Stream, list[str]], Stream], width: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the engine was given a relation to bind to, how many columns these had, and how much SQL was bound."""
    done: Counter[str] = Counter()

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(connection: object, select: str, error: object) -> object:
            done["sql"] += len(select)
            return function(connection, select, error)

        return call

    class Counted(ScanInput):
        def __init__(self, schema: object) -> None:
            done["relations"] += 1
            done["columns"] += len(schema)  # type: ignore[arg-type]
            super().__init__(schema)

    columns = Expression.columns

    def used(expression: Expression) -> set[str]:
        done["expressions looked through"] += 1
        return columns(expression)

    app, names = App("p"), [f"c{i}" for i in range(width)]
    app.query("q", build(app.source("s", dict.fromkeys(names, "double")), names))
    with monkeypatch.context() as patched:
        patched.setattr("borealis_py.engine.sql.duck_statement.ScanInput", Counted)
        patched.setattr(Expression, "columns", used)
        for function in (expressions.describe, expressions.bound):
            patched.setattr(statements, function.__name__, counted(function))
        compile_query(app.describe(), "q").close()
    return done


@pytest.mark.parametrize("name", QUERIES)
def test_four_times_the_columns_are_four_times_the_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = (work(QUERIES[name], width, monkeypatch) for width in (10, 40))
    assert narrow["columns"] >= 10
    for what in ("relations", "columns", "sql", "expressions looked through"):
        assert wide[what] <= 4.5 * narrow[what], (what, narrow, wide)
