"""Where the product turns bytes or text into values: calls of decoders, by the function that they are in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.guards.tree import modules, tree

DECODERS = {
    *((of, name) for of in ("json", "msgpack") for name in ("decode", "Decoder", "load", "loads")),
    ("pickle", "load"),
    ("pickle", "loads"),
    *((of, name) for of in ("struct", "_HEAD", "Struct") for name in ("unpack", "unpack_from", "iter_unpack")),
    *(("ipc", name) for name in ("open_stream", "open_file", "read_record_batch", "read_message", "read_schema")),
    ("yaml", "safe_load"),
    ("tomllib", "load"),
    ("tomllib", "loads"),
    ("csv", "reader"),
    ("csv", "DictReader"),
    ("csv", "read_csv"),
    ("parquet", "read_table"),
    ("gzip", "open"),
    ("FileDescriptorProto", "FromString"),
    ("fastavro", "schemaless_reader"),
    ("int", "from_bytes"),
    ("np", "frombuffer"),
}
"""The last two names of a call: what it is called on, and what is called."""
BESIDE = (
    "benchmarks",
    "borealis_py.bench",
    "borealis_py.simulation",
    "borealis_py.demo",
    "borealis_py.testing",
    "borealis_py.verify",
)
"""Not in the path of an app's data: they read what they, or an app that works, have written, and judge it."""


def decoding() -> Iterator[str]:
    """`module:function` of each call; a class for what it makes when it is loaded, "" for the module itself."""
    for name, path in modules().items():
        if not name.startswith(BESIDE):
            yield from (f"{name}:{where}" for where in _within(tree(path), ()))


def _within(node: ast.AST, where: tuple[str, ...]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inside = where
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = (*where, child.name)
        if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Load) and _names(child) in DECODERS:
            yield ".".join(where)
        yield from _within(child, inside)


def _names(node: ast.Attribute) -> tuple[str, str]:
    of = node.value
    return (of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else "", node.attr)
