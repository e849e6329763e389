"""Makes the engine's implicit casts explicit in the tree, so that `guards` treats them like the user's own.

`k = i` parses the text k as a number, and so do IN, CASE k WHEN i and the counts that some functions take. There is no
list of such cases: each part of an expression is bound with its own parts as columns, and the engine's plan shows the
casts. The engine is queried through `CastEngine`; this module knows only trees and the text of plans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from borealis_py.engine.guards import (
    NOTHING,
    PARSED,
    TEXT,
    WHOLE,
    Tree,
    Unbounded,
    cast_checked,
    constant,
    inner_types,
    names_of,
)

PART = "__part"
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?P<cast>CAST\()|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<as> AS )"""
)


@dataclass(frozen=True)
class CastEngine:
    """Queries to the engine about expressions.

    `kind(tree)`: its type. `plan(tree, parts)`: how it is bound if its columns __part0, ... are these parts.
    `read(sql)`: its tree; None if it does not parse. `written(tree)`: its SQL.
    """

    kind: Callable[[Tree], str]
    plan: Callable[[Tree, Sequence[Tree]], str]
    read: Callable[[str], Tree | None]
    written: Callable[[Tree], str]


def explicit(tree: Tree, engine: CastEngine) -> Tree:
    """The expression with every implicit cast that needs a guard written as a CAST.

    Raises:
        Unbounded: such a CAST would change what the expression means, or texts within a value would be parsed.
    """
    tree = _over_parts(tree, lambda part: explicit(part, engine))
    if tree["class"] != "CAST":
        return _asked(tree, engine)
    _check_texts(tree, engine)
    return tree


def _asked(tree: Tree, engine: CastEngine) -> Tree:
    """The expression with CASTs on those parts whose implicit cast needs a guard."""
    parts: list[Tree] = []

    def numbered(part: Tree) -> Tree:
        if constant(part):
            return part
        parts.append({**part, "alias": ""})
        return _column(len(parts) - 1, part["alias"])

    shell = {**_over_parts(tree, numbered), "alias": ""}
    plan = engine.plan(shell, parts) if parts else ""
    casts = dict(_needed(plan, parts, engine))
    if not casts:
        return tree
    asked = _over_parts(
        shell, lambda part: part if (cast := casts.get(_number(part))) is None else {**cast, "alias": part["alias"]}
    )
    if engine.plan(asked, parts) != plan:
        cast = next(iter(casts.values()))
        raise Unbounded(
            f"the text {engine.written(parts[_number(cast['child'])])} is read as something else here without a CAST, "
            f"so that no bound could be checked: write {engine.written(_filled(cast, parts))}"
        )
    return {**_filled(asked, parts), "alias": tree["alias"]}


def _needed(plan: str, parts: Sequence[Tree], engine: CastEngine) -> Iterator[tuple[int, Tree]]:
    """(number of a part, CAST of its column) for each cast in a plan that needs a guard."""
    for inner, type_ in casts_in(plan):
        if PART not in inner:
            continue
        child, cast = engine.read(inner), engine.read(f"CAST({inner} AS {type_})")
        if cast is not None and names_of(cast["cast_type"]) & WHOLE:
            continue
        of = TEXT if child is None else engine.kind(_typed(_filled(child, parts)))
        if TEXT not in of and "JSON" not in of:
            continue
        if child is None or cast is None:
            raise Unbounded(
                f"a text is read as {type_} without a CAST that could be checked: write one, and {{...}} for row(...)"
            )
        filled = _filled(cast, parts)
        if cast_checked(filled, filled["child"], engine.kind) is filled["child"]:
            continue
        if _number(child) < 0:
            raise Unbounded(f"{engine.written(filled['child'])} is read as {type_}, and no bound can be checked")
        _check_texts(filled, engine)
        yield _number(child), cast


def _typed(tree: Tree) -> Tree:
    """A tree of the same type."""
    return {**tree, "child": NOTHING} if tree["class"] == "CAST" else tree


def _check_texts(cast: Tree, engine: CastEngine) -> None:
    """Raises Unbounded if texts within a value would be parsed: no guard sees each of them."""
    if constant(cast["child"]) or not any(names_of(t) & PARSED for t in inner_types(cast["cast_type"]).values()):
        return
    of = engine.kind(cast["child"])
    found = engine.read(f"CAST(NULL AS {of})")
    if TEXT in of and (found is None or _parses(found["cast_type"], cast["cast_type"], outermost=True)):
        raise Unbounded(f"the texts within a {of} would be parsed: take each of them out and CAST it by itself")


def _parses(of: Tree, to: Tree, *, outermost: bool = False) -> bool:
    """Whether a cast between these types parses text within a value."""
    if of["id"] == TEXT:
        return bool(names_of(to) & PARSED) and not outermost
    if "JSON" in names_of(to):
        return False
    theirs, ours = inner_types(of), inner_types(to)
    if theirs.keys() == ours.keys():
        return any(_parses(theirs[name], ours[name]) for name in theirs)
    return any(_parses(one, other) for one in theirs.values() for other in ours.values())


def casts_in(plan: str) -> Iterator[tuple[str, str]]:
    """(operand, type as written) of each CAST in the text of a bound expression, innermost first."""
    opened: list[list[int]] = []
    for token in _TOKEN.finditer(plan):
        kind = token.lastgroup
        if kind in ("cast", "open"):
            opened.append([token.end()] if kind == "cast" else [])
        elif kind == "as" and opened and len(opened[-1]) == 1:
            opened[-1] += token.span()
        elif kind == "close" and len(bounds := opened.pop()) > 1:
            yield plan[bounds[0] : bounds[1]], plan[bounds[2] : token.start()]


def _over_parts(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """The expression with each of its direct subexpressions changed."""

    def go(value: Any) -> Any:
        if isinstance(value, list):
            return [go(v) for v in value]
        if not isinstance(value, dict):
            return value
        return change(value) if "class" in value else {name: go(v) for name, v in value.items()}

    return {name: go(value) for name, value in tree.items()}


def _filled(tree: Tree, parts: Sequence[Tree]) -> Tree:
    """The expression with columns replaced by the parts they stand for."""
    number = _number(tree)
    if number >= 0:
        return {**parts[number], "alias": tree["alias"]}
    return _over_parts(tree, lambda part: _filled(part, parts))


def _column(number: int, alias: str) -> Tree:
    return {
        "class": "COLUMN_REF", "type": "COLUMN_REF", "alias": alias, "query_location": 0,
        "column_names": [f"{PART}{number}"],
    }  # fmt: skip


def _number(tree: Tree) -> int:
    """The number of the part that this column stands for; -1: it stands for none."""
    name = tree["column_names"][-1] if tree["class"] == "COLUMN_REF" else ""
    return int(name.removeprefix(PART)) if name.startswith(PART) else -1
