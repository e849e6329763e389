"""Every public field of a record says what it is: in a docstring after it, or by name in its class's docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("borealis_py", "sunion", "reconcile")
APART = {"bench", "simulation", "demo"}
"""Folders of `borealis_py` whose records nobody else uses."""
RECORDS = {"Struct", "BaseModel", "BaseSettings"}
"""Base classes whose annotated attributes are fields; so are those of dataclasses."""
FIELDS_LEAST = 1000


@cache
def classes() -> dict[str, tuple[Path, ast.ClassDef]]:
    """Every public class of the product by name; no two have the same."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {
        node.name: (path, node)
        for path in files
        if not APART & set(path.relative_to(ROOT).parts)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def name_of(node: ast.expr) -> str:
    """`f` of f, m.f, f(...) and f[...]."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Subscript):
        return name_of(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_record(node: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> bool:
    """Whether it is a dataclass, msgspec struct or pydantic model."""
    if "dataclass" in map(name_of, node.decorator_list):
        return True
    bases = set(map(name_of, node.bases))
    return bool(bases & RECORDS) or any(is_record(known[base], known) for base in bases & known.keys())


def fields(node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    """(public field, whether a docstring follows it) of a record."""
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name = field.target.id
        if not name.startswith("_") and name_of(field.annotation) != "ClassVar":
            said = after.value if isinstance(after, ast.Expr) else None
            yield name, isinstance(said, ast.Constant) and isinstance(said.value, str)


def is_named(field: str, docstring: str) -> bool:
    """Whether a docstring names a field in code, in an entry like "first, end:", or in a range like [first, end)."""
    entry = rf"\b{field}(?:, \w+)*: "
    span = rf"[\[(](?:{field}, \w+|\w+, {field})[\])]"
    return re.search(rf"`[^`]*\b{field}\b[^`]*`|{entry}|{span}", docstring) is not None


def undocumented(node: ast.ClassDef) -> Iterable[str]:
    docstring = ast.get_docstring(node) or ""
    return [name for name, said in fields(node) if not said and not is_named(name, docstring)]


def test_every_public_field_of_a_record_says_what_it_is() -> None:
    known = {name: node for name, (_, node) in classes().items()}
    records = {name: found for name, found in classes().items() if is_record(found[1], known)}
    assert sum(len(list(fields(node))) for _, node in records.values()) > FIELDS_LEAST
    lacking = {f"{path.relative_to(ROOT)}: {name}": undocumented(node) for name, (path, node) in records.items()}
    assert {record: names for record, names in lacking.items() if names} == {}


@pytest.mark.parametrize(
    ("body", "lacking"),
    [
        ("a: int\n b: int\n 'What b is.'", ["a"]),
        ("'`a`: what it is.'\n a: int\n b: int = 0", ["b"]),
        ("'''Attributes:\n  a, b: what they are.'''\n a: int\n b: int", []),
        ("'Buckets [a, b).'\n a: int\n b: int", []),
        ("'What a is.'\n a: int", ["a"]),
        ("a: ClassVar[int] = 1\n _b: int\n c = 1", []),
    ],
)
def test_a_field_that_says_nothing_is_found(body: str, lacking: list[str]) -> None:
    (node,) = ast.parse(f"@dataclass(frozen=True)\nclass A:\n {body}\n").body
    assert isinstance(node, ast.ClassDef)
    assert is_record(node, {})
    assert undocumented(node) == lacking


@pytest.mark.parametrize(
    ("head", "record"),
    [("A(msgspec.Struct)", True), ("A(Base)", True), ("A(BaseSettings)", True), ("A(Protocol)", False), ("A", False)],
)
def test_what_counts_as_a_record(head: str, record: bool) -> None:
    base, node = ast.parse(f"class Base(Struct, frozen=True): pass\nclass {head}: pass").body
    assert isinstance(base, ast.ClassDef)
    assert isinstance(node, ast.ClassDef)
    assert is_record(node, {"Base": base}) is record
