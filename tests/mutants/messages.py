"""Which lines of a source only make a text for people: whether a message reads otherwise is no test's matter."""

from __future__ import annotations

import ast
from collections.abc import Sequence

TELLING = frozenset({"Note", "Exit", "warn", "debug", "info", "warning", "error", "exception", "_fail", "_refuse"})
"""Calls whose arguments are read by people: log lines, notes of the protocol, warnings, why a job failed."""


def message_lines(source: str) -> set[int]:
    """Lines, from 1, of the arguments of `raise` statements, of log calls and of notes, and of `__str__` methods."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        parts: Sequence[ast.expr | ast.stmt]
        if isinstance(node, ast.FunctionDef) and node.name == "__str__":
            parts = node.body
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            parts = [*node.exc.args, *(k.value for k in node.exc.keywords)]
        elif isinstance(node, ast.Call) and _name(node.func) in TELLING:
            parts = [*node.args, *(k.value for k in node.keywords)]
        else:
            continue
        for part in parts:
            found.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return found


def _name(of: ast.expr) -> str:
    if isinstance(of, ast.Attribute):
        return of.attr
    return of.id if isinstance(of, ast.Name) else ""
