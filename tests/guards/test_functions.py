"""A function fits on a screen, and takes few enough arguments to be called from memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.guards.tree import modules, tree

LINES_MAX = 60
"""Of code: docstring and signature are not counted."""
PARAMETERS_MAX = 10
"""Besides `self` and `cls`."""
APART = ".simulation."
"""Part of the names of the modules that are left out: those that draw and build random worlds."""
OPTIONS = "a command: each parameter is an option of the command line"
PUBLIC = "public, and keyword-only but for the first: each parameter is a choice that has a default"
WIDER: Mapping[str, str] = {
    "borealis_py.cli.commands.publish.publish": OPTIONS,
    "borealis_py.cli.commands.sim.sim": OPTIONS,
    "borealis_py.cli.commands.up.up": OPTIONS,
    "borealis_py.client.publisher.Publisher.__init__": PUBLIC,
    "borealis_py.client.subscriber.LiveSubscription.__init__": PUBLIC,
    "borealis_py.node.replica.Replica.__init__": "keyword-only: what a replica works with, each from another part",
    "borealis_py.query.app.App.topic": "public: five belong to formats, and become objects of their own",
    "borealis_py.query.app.App.table": PUBLIC,
    "borealis_py.query.app.App.query": PUBLIC,
    "borealis_py.query.foreign.ingress_of": "the parameters of `App.topic`, checked",
}
"""Functions with more parameters, and why."""


def functions(parsed: ast.AST, inside: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function with its dotted name, those within functions and classes too."""
    for node in ast.iter_child_nodes(parsed):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{inside}.{node.name}", node
        within = f"{inside}.{node.name}" if isinstance(node, ast.ClassDef | ast.FunctionDef) else inside
        yield from functions(node, within)


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From the first statement after the docstring to the last."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    args = function.args
    named = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"])) + (args.vararg is not None) + (args.kwarg is not None)


def measured() -> Iterator[tuple[str, int, int]]:
    """(function, lines, parameters) of the product."""
    for name, path in modules().items():
        if APART not in name:
            yield from ((full, lines(node), parameters(node)) for full, node in functions(tree(path), name))


def test_functions_are_short() -> None:
    assert {name: n for name, n, _ in measured() if n > LINES_MAX} == {}


def test_functions_take_few_parameters_or_have_a_reason() -> None:
    assert {name for name, _, n in measured() if n > PARAMETERS_MAX} == WIDER.keys()


@pytest.mark.parametrize(
    ("code", "size", "width"),
    [
        ("def f(a, *b, c=1, **d):\n  'Text.'\n  x = 1\n\n  return x", 3, 4),
        ("def f(self,\n  a):\n  return (\n    1)", 2, 1),
        ("async def f(): 'Text.'", 0, 0),
    ],
)
def test_what_is_counted(code: str, size: int, width: int) -> None:
    ((name, function),) = functions(ast.parse(code), "m")
    assert (name, lines(function), parameters(function)) == ("m.f", size, width)
