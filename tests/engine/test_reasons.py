"""Every reason that the engine's own code gives for a dead letter says what to write, send or choose instead.

The reasons are read from the code, so that a new one is on the list; what the engine's messages get is in
`test_causes.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import borealis_py.engine
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.engine.sql import causes

_RAISED = {"TooMuch": 0, "RowError": 0, "_nothing": 1, "Inexact": 0}
"""What takes a reason, and which of its arguments that is."""
_ADVISES = (": send ", ": write ", "; send ", "CAST ", "raise `timing", " instead of a ", "a table {}", "narrower")
_ROOT = Path(borealis_py.engine.__file__).parent
_NAMED = {
    "{}: {}", "it returned {}", "the result has {}",
    "{}: it returned {} rows for {}", "{}: it returned {} rows for one group, over {}",
    "it returned a table {} column {} (a {}); columns: {}",
}  # fmt: skip
"""Reasons made of another one, and those of Python functions, which say what was returned and what is expected."""


def _text(node: ast.expr) -> str:
    """A literal with {} for what is filled in; empty: it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def reasons() -> Iterator[str]:
    for path in sorted(_ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _RAISED:
                text = _text(node.args[_RAISED[node.func.id]])
                if text:
                    yield text


def advises(reason: str) -> bool:
    whole = causes.NamedExpression("map(v)", "v", "v", ())
    generic = causes.advice("anything else", causes.ExpressionStage(str, (whole,), {}), whole)
    return any(word in reason for word in _ADVISES) or (
        causes.advice(reason.replace("{}", "1"), causes.ExpressionStage(str, (whole,), {}), whole) != generic
    )


def test_there_are_reasons() -> None:
    assert len(set(reasons())) > 20


@pytest.mark.parametrize("reason", sorted(set(reasons()) - _NAMED))
def test_each_reason_says_what_to_do(reason: str) -> None:
    assert advises(reason)


def test_that_would_be_seen() -> None:
    assert not advises("the value is not nice")


COLUMNS = {"k": "string", "i": "int64", "x": "double", "b": "bool", "m": "decimal(12,2)", "j": "json"}
_GOOD = {"k": '"a"', "i": "1", "x": "2", "b": "true", "m": '"1.50"', "j": "null"}


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("k", "7", "column 'k': Expected `str | null`, got `int`; it is 7: send a string"),
        ("i", "1.5", "column 'i': Expected `int | null`, got `float`; it is 1.5: send a whole number of 64 bits"),
        ("i", '"1"', "column 'i': Expected `int | null`, got `str`; it is \"1\": send a whole number of 64 bits"),
        ("i", "9223372036854775808", "it is 9223372036854775808: send a whole number of 64 bits"),
        ("x", '"2"', "column 'x': Expected `float | null`, got `str`; it is \"2\": send a number"),
        ("b", "1", "column 'b': Expected `bool | null`, got `int`; it is 1: send true or false"),
        ("m", "1.5", "column 'm': Expected `str | null`, got `float`; it is 1.5: send text in its normal form"),
        ("m", '"1.005"', "column 'm': '1.005' is not a decimal with 2 digits after the point"),
        (
            "k",
            None,
            "Object missing required field `k`: send an object with every column, null where there is no value",
        ),
    ],
)
def test_a_row_of_a_source_names_column_value_and_what_to_send(column: str, value: str | None, reason: str) -> None:
    fields = {name: text for name, text in {**_GOOD, column: value}.items() if text is not None}
    payload = "[{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}]"
    rows, bad = ArrowSourceCodec("s", COLUMNS).decode(payload.encode(), "json", [1])
    assert rows is None
    assert reason in bad[0][1]
