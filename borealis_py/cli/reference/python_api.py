"""docs/reference/python.md, from the signatures and docstrings of the public names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields

from borealis_py import api, testing
from borealis_py.client import publisher, reading, stimes, subscriber
from borealis_py.config.reference import documented
from borealis_py.query import app, errors, formats, stream, tables

HEAD = """# Python API

`from borealis_py import App, QueryError, publisher, read, subscribe` and, for the formats of topics, `JSON`, `CSV`,
`Avro`, `Protobuf`, `JSONSchema`, `Debezium`, `Text`. These return objects of the other classes on this page.
`from borealis_py.testing import World, run` is for [tests of your app](../how-to/testing.md). This page is generated
from the code.
"""
CLASSES = (app.App, stream.Stream, stream.Windowed, stream.Framed, tables.Table)
FORMATS = (
    formats.JSON,
    formats.CSV,
    formats.Avro,
    formats.Protobuf,
    formats.JSONSchema,
    formats.Debezium,
    formats.Text,
)
FUNCTIONS = (api.publisher, api.read, api.subscribe)
FOR_TESTS = (testing.run, testing.to_stime)
RESULTS = (
    publisher.Publisher,
    stimes.PublishCounts,
    reading.TypedRow,
    subscriber.Row,
    subscriber.CorrectedGap,
    subscriber.LiveChange,
    errors.QueryError,
)
IN_TESTS = (
    testing.World,
    testing.Results,
    testing.ShownChange,
    testing.RefusedRow,
    testing.TopicRecord,
    testing.WorldError,
)
MADE_BY_OTHERS = {"Stream", "Windowed", "Framed", "Table", "Publisher"}
"""Nobody calls their constructors."""
_HEADING = re.compile(r"(Args|Returns|Raises):")
_ITEM = re.compile(r"( {4})(\w[\w, ]*): ")


def page() -> str:
    """The whole page."""
    parts = [HEAD, *(_class(kind) for kind in CLASSES), *(_format(kind) for kind in FORMATS)]
    parts += [_function(function) for function in FUNCTIONS]
    parts += [_class(kind) for kind in RESULTS]
    parts += [_function(function) for function in FOR_TESTS]
    return "".join(parts) + "".join(_class(kind) for kind in IN_TESTS)


def _class(kind: type) -> str:
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    documented = ast.get_docstring(tree) or ""
    made = "" if kind.__name__ in MADE_BY_OTHERS else _constructor(tree)
    said = _prose(documented.partition("\nArgs:")[0] if kind.__name__ == "Publisher" else documented)
    return f"\n## {kind.__name__}\n{made}\n{said}\n" + "".join(_method(kind.__name__, m) for m in _public(tree))


def _format(kind: type[formats.TopicFormat]) -> str:
    """A format of topics: how it is made, and what each of its options means."""
    options = fields(kind)  # type: ignore[arg-type]
    given = [f"{option.name}: {option.type}={option.default!r}" for option in options]
    call = ", ".join(["*", *given] if any(option.kw_only for option in options) else given)
    meanings = "".join(f"- `{name}`: {text}\n" for name, text in documented(kind))
    said = "\n\n".join(filter(None, (inspect.getdoc(kind), meanings.rstrip())))
    return f"\n## {kind.__name__}\n{_code(f'{kind.__name__}({call})')}\n{said}\n"


def _constructor(tree: ast.ClassDef) -> str:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return _code(f"{tree.name}({_arguments(node)})")
    fields = [ast.unparse(n) for n in tree.body if isinstance(n, ast.AnnAssign)]
    return _code("\n".join(fields)) if fields else ""


def _public(tree: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def _method(kind: str, node: ast.FunctionDef) -> str:
    attribute = any(ast.unparse(d) == "property" for d in node.decorator_list)
    return _documented(f"### {kind}.{node.name}", node, attribute)


def _function(function: object) -> str:
    (node,) = ast.parse(inspect.getsource(function)).body  # type: ignore[arg-type]
    assert isinstance(node, ast.FunctionDef)
    return _documented(f"## {node.name}", node, attribute=False)


def _documented(heading: str, node: ast.FunctionDef, attribute: bool) -> str:
    given = "" if attribute else f"({_arguments(node)})"
    gives = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"\n{heading}\n{_code(node.name + given + gives)}\n{_prose(ast.get_docstring(node) or '')}\n"


def _arguments(node: ast.FunctionDef) -> str:
    return ast.unparse(node.args).removeprefix("self").removeprefix(", ")


def _code(text: str) -> str:
    return f"\n```python\n{text}\n```\n"


def _prose(text: str) -> str:
    """A docstring as Markdown: its headings bold, what stands under them a list."""
    out: list[str] = []
    listing = False
    for line in text.splitlines():
        heading, item = _HEADING.match(line), _ITEM.match(line)
        if heading:
            listing = True
            rest = line[heading.end() :].strip()
            out += [f"**{heading[1]}**", "", *([f"- {rest}"] if rest else [])]
        elif listing and item:
            out.append(f"- `{item[2].replace(', ', '`, `')}`: {line[item.end() :]}")
        elif listing and line.strip():
            out.append(f"  {line.strip()}" if out[-1].startswith(("-", "  ")) else f"- {line.strip()}")
        else:
            listing = listing and not line.strip()
            out.append(line)
    return "\n".join(out).strip()
