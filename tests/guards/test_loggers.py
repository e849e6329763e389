"""A logger is called as the package that logs, so that a user can choose by names that are there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.guards.tree import PACKAGES, modules, tree

MAKERS = {"get_logger", "getLogger"}
LOGGERS_LEAST = 40


def loggers(parsed: ast.Module) -> Iterator[ast.Call]:
    """Each call that gives a logger."""
    for node in ast.walk(parsed):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKERS:
            yield node


def is_ours(call: ast.Call) -> bool:
    """Whether a call names a logger by its package; False: it is the root's, or another library's."""
    return bool(call.args) and isinstance(call.args[0], ast.Name) and call.args[0].id == "__package__"


def named_by_hand(parsed: ast.Module) -> list[int]:
    """Lines of calls that write out the name of a logger of the product, or derive it otherwise."""
    return [call.lineno for call in loggers(parsed) if call.args and not is_ours(call) and not is_foreign(call.args[0])]


def is_foreign(name: ast.expr) -> bool:
    if isinstance(name, ast.Name):  # in `config/logs.py`, of a table of libraries
        return name.id == "name"
    return isinstance(name, ast.Constant) and not str(name.value).startswith(("borealis", *PACKAGES))


def test_every_logger_is_called_as_its_package() -> None:
    assert sum(map(is_ours, (call for path in modules().values() for call in loggers(tree(path))))) > LOGGERS_LEAST
    found = {name: named_by_hand(tree(path)) for name, path in modules().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("structlog.get_logger(__package__)", []),
        ("logging.getLogger('py4j'); logging.getLogger()", []),
        ("structlog.get_logger('borealis.host')", [1]),
        ("logging.getLogger('reconcile.rpc')", [1]),
        ("logging.getLogger(__name__)", [1]),
    ],
)
def test_a_name_that_is_written_out_is_found(code: str, lines: list[int]) -> None:
    assert named_by_hand(ast.parse(code)) == lines
