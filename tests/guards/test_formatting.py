"""ruff decides how code is laid out, except tables of literals; each attribute is assigned on a line of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import pytest

from tests.guards.tree import modules, tree

SKIP = "# fmt: skip"
CELLS = (ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp, ast.BinOp)
"""What a cell of a table may be, besides a table and a call whose arguments are cells."""
DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict)


def is_cell(node: ast.expr | None) -> bool:
    """Whether an expression is one value that is written out: nothing loops, chooses or builds texts in it."""
    if isinstance(node, ast.Starred):
        return is_cell(node.value)
    if isinstance(node, ast.Call):
        return is_cell(node.func) and all(map(is_cell, [*node.args, *(k.value for k in node.keywords)]))
    return node is None or isinstance(node, CELLS) or is_table(node)


def is_table(node: ast.expr | None) -> bool:
    """Whether an expression is a display of cells, the union of two, or a call such as `frozenset` with one of them."""
    if isinstance(node, ast.Dict):
        return all(map(is_cell, [*node.keys, *node.values]))
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(map(is_cell, node.elts))
    if isinstance(node, ast.BinOp):
        return is_table(node.left) and is_table(node.right)
    if isinstance(node, ast.Compare):  # a test compares with a table
        return any(map(is_table, node.comparators)) and is_cell(node.left)
    if isinstance(node, ast.Call):
        return any(map(is_table, node.args)) and all(map(is_cell, [*node.args, *(k.value for k in node.keywords)]))
    return False


def written(node: ast.AST) -> Iterator[tuple[int, int, ast.expr | None]]:
    """First and last line of each statement and decorator, and the expression that it gives a name or returns."""
    for part in ast.walk(node):
        if isinstance(part, ast.Assign | ast.AnnAssign | ast.Return):
            yield part.lineno, part.end_lineno or 0, part.value
        elif isinstance(part, ast.Assert):
            yield part.lineno, part.end_lineno or 0, part.test
        elif isinstance(part, ast.stmt):
            yield part.lineno, part.end_lineno or 0, None
        for decorator in getattr(part, "decorator_list", []):
            yield decorator.lineno, decorator.end_lineno or 0, decorator


def unformatted(source: str, parsed: ast.Module) -> list[int]:
    """The lines that keep ruff from laying out what is no table."""
    lines = [number for number, line in enumerate(source.splitlines(), 1) if line.endswith(SKIP)]
    parts = list(written(parsed)) if lines else []
    found = []
    for line in lines:
        around = [(first, -last, value) for first, last, value in parts if first <= line <= last]
        if not is_table(max(around, key=lambda part: part[:2])[2]):
            found.append(line)
    return found


def packed(parsed: ast.Module) -> list[int]:
    """The lines of `__init__` methods that assign several values to attributes at once."""
    return [
        part.lineno
        for function in ast.walk(parsed)
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
        for part in ast.walk(function)
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Tuple) and of_self(part.targets)
    ]


def of_self(targets: Sequence[ast.expr]) -> bool:
    return any(
        isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name) and name.value.id == "self"
        for target in targets
        if isinstance(target, ast.Tuple)
        for name in target.elts
    )


def test_only_tables_of_literals_are_laid_out_by_hand() -> None:
    found = {name: unformatted(path.read_text(), tree(path)) for name, path in modules().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_each_attribute_is_assigned_on_a_line_of_its_own() -> None:
    found = {name: packed(tree(path)) for name, path in modules().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("code", "table"),
    [
        ("A = {\n  'a': 1, 'b': -2}", True),
        ("A: T = frozenset({\n  'a', b.C})", True),
        ("A = {\n  'a': Rule(1, x=True), **B}", True),
        ("@parametrize('a', [\n  1, 2])", True),
        ("assert f(x) == [\n  1, 2]", True),
        ("A = [\n  x for x in b]", False),
        ("A = f(\n  a=1, b=2)", False),
        ("A = {\n  'a': lambda: 1}", False),
        ("f(\n  [1, 2])", False),
    ],
)
def test_what_counts_as_a_table(code: str, table: bool) -> None:
    source = f"{code}  {SKIP}" + ("\ndef test(): pass" if code.startswith("@") else "")
    assert unformatted(source, ast.parse(source)) == ([] if table else [2])


def test_packed_attributes_are_found() -> None:
    code = "class A:\n  def __init__(self):\n    self.a, self.b = 1, 2\n    self.c, d = 1, 2\n    a, b = 1, 2\n"
    assert packed(ast.parse(code)) == [3, 4]
