"""Makes the engine's implicit casts explicit in the tree, so that `guards` treats them like the user's own.

`k = i` parses the text k as a number, and so do IN, CASE k WHEN i and the counts that some functions take. There is no
list of such cases: each part of an expression is bound with its own parts as columns, and the engine's plan shows the
casts. Those that may lose digits of a number get their guard here (`exact`). The engine is queried through
`CastEngine`; this module knows only trees and the text of plans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from borealis_py.engine.sql import exact
from borealis_py.engine.sql.guards import (
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
_PARTS = re.compile(rf"{PART}([0-9]+)")
_NUMBERS = re.compile(r"DECIMAL|DOUBLE|FLOAT")
_DECIMALS = re.compile(r"DECIMAL")
_LITERAL = re.compile(r"'([^']*)'(?:::VARCHAR)?")
_SMALL = re.compile(r"[0-9]{1,6}")
"""A literal that every type of number holds."""
_LEAVES = {"CONSTANT", "COLUMN_REF"}
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?P<cast>CAST\()|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<as> AS )"""
)


@dataclass(frozen=True)
class CastEngine:
    """Queries to the engine about expressions.

    `kind(tree)`: its type. `plan(tree, parts)`: how it is bound if its columns __part0, ... are these parts.
    `read(sql)`: its tree; None if it does not parse. `sql(tree)`: its SQL; `written(tree)`: as a user writes it.
    `holds(sql)`: whether a condition on constants is true.
    """

    kind: Callable[[Tree], str]
    plan: Callable[[Tree, Sequence[Tree]], str]
    read: Callable[[str], Tree | None]
    written: Callable[[Tree], str]
    holds: Callable[[str], bool]
    sql: Callable[[Tree], str]


def explicit(tree: Tree, engine: CastEngine) -> Tree:
    """The expression with every implicit cast that needs a guard written as a CAST, and with an error in place of each
    value that loses digits.

    Raises:
        Unbounded: such a CAST would change what the expression means, or texts within a value would be parsed.
        Inexact: a constant in it loses digits.
    """
    tree = _over_parts(tree, lambda part: explicit(part, engine))
    if tree["class"] != "CAST":
        return _asked(tree, engine)
    _check_texts(tree, engine)
    _check_numbers(tree, engine)
    return _cast_kept(tree, engine)


def _asked(tree: Tree, engine: CastEngine) -> Tree:
    """The expression with CASTs on those parts whose implicit cast needs a guard."""
    parts: list[Tree] = []

    def numbered(part: Tree) -> Tree:
        if constant(part):
            return part
        parts.append({**part, "alias": ""})
        return _column(len(parts) - 1, part["alias"])

    shell = {**_over_parts(tree, numbered), "alias": ""}
    plan = "" if tree["class"] in _LEAVES else engine.plan(shell, parts)
    casts = dict(_needed(plan, parts, engine))
    _check_literals(plan)
    kept = _kept(tree, shell, plan, parts, engine)
    if not casts:
        return tree if kept is parts else {**_filled(shell, kept), "alias": tree["alias"]}
    asked = _over_parts(
        shell, lambda part: part if (cast := casts.get(_number(part))) is None else {**cast, "alias": part["alias"]}
    )
    if engine.plan(asked, parts) != plan:
        cast = next(iter(casts.values()))
        raise Unbounded(
            f"the text {engine.written(parts[_number(cast['child'])])} is read as something else here without a CAST, "
            f"so that no bound could be checked: write {engine.written(_filled(cast, parts))}"
        )
    return {**_filled(asked, kept), "alias": tree["alias"]}


def _kept(tree: Tree, shell: Tree, plan: str, parts: list[Tree], engine: CastEngine) -> list[Tree]:
    """The parts, with an error in place of each value that a cast in the plan takes digits of. Raises Inexact."""
    kept, doubles = parts, exact.keeps_values(tree)
    for inner, to in casts_in(plan):
        if not (_NUMBERS if doubles else _DECIMALS).search(to) or _SMALL.fullmatch(inner):
            continue
        named = _PARTS.findall(inner)
        of = _kind(inner, parts, engine)
        if not of or not _loses(of, to, engine, doubles=doubles):
            continue
        before, after = exact.reason(_spelled(inner, parts, engine), of, to)
        if not named:
            if engine.holds(exact.loses(inner, of, to)):
                raise exact.Inexact(f"{before.removesuffix(' is ')}{after.removeprefix(',').replace(' and', '', 1)}")
            continue
        others = _siblings(shell, inner, engine) if exact.compares(tree) else ()
        checked = exact.checked(f"{PART}{named[0]}", inner, exact.loses(inner, of, to, others), (before, after))
        guard, number = engine.read(checked), int(named[0])
        if guard is None:
            raise Unbounded(f"the engine cannot read its own check {checked}, so nothing would check the value")
        kept = [*kept]
        kept[number] = {**_filled(guard, parts), "alias": kept[number]["alias"]}
    return kept


def _cast_kept(cast: Tree, engine: CastEngine) -> Tree:
    """A CAST of decimals to exact numbers, with an error in place of each value that it would round; null if it is a
    TRY_CAST."""
    if not exact.holds_numbers(cast["cast_type"]):
        return cast
    child = cast["child"]
    of, to = engine.kind(child), engine.kind({**cast, "child": NOTHING})
    if not _loses(of, to, engine, doubles=False):
        return cast
    lost = exact.loses(f"{PART}0", of, to)
    told = exact.cast_reason(engine.written(child), to)
    instead = f"CASE WHEN {lost} THEN NULL ELSE {PART}0 END" if cast["try_cast"] else None
    guard = engine.read(instead or exact.checked(f"{PART}0", f"{PART}0", lost, told))
    if guard is None:
        raise Unbounded(f"the engine cannot read its own check {lost}, so nothing would check the cast")
    return {**cast, "child": _filled(guard, [child])}


def _loses(of: str, to: str, engine: CastEngine, *, doubles: bool) -> bool:
    one, other = (exact.scalar(type_) or _type(type_, engine) for type_ in (of, to))
    return one is not None and other is not None and exact.lossy(one, other, doubles=doubles)


def _kind(inner: str, parts: Sequence[Tree], engine: CastEngine) -> str:
    """The type of a cast's operand; empty where the plan's text of it cannot be read."""
    tree = engine.read(inner)
    return "" if tree is None else engine.kind(_typed(_filled(tree, parts)))


def _spelled(inner: str, parts: Sequence[Tree], engine: CastEngine) -> str:
    tree = engine.read(inner)
    return inner if tree is None else engine.written(_filled(tree, parts))


def _type(spelled: str, engine: CastEngine) -> Tree | None:
    tree = engine.read(f"CAST(NULL AS {spelled})")
    return None if tree is None else tree["cast_type"]


def _siblings(shell: Tree, inner: str, engine: CastEngine) -> list[str]:
    """The other direct parts of a comparison, as SQL over the columns that stand for parts."""
    found: list[str] = []

    def seen(part: Tree) -> Tree:
        sql = engine.sql(part)
        if sql.strip("()").strip('"') != inner:
            found.append(sql)
        return part

    _over_parts(shell, seen)
    return found


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
        _check_numbers(filled, engine)
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


def _check_numbers(cast: Tree, engine: CastEngine) -> None:
    """Raises Inexact if decimals would be made of numbers within a text, a JSON or a list of texts: the engine rounds
    them."""
    to = cast["cast_type"]
    if to["id"] == "DECIMAL" or not exact.holds_decimals(to):
        return
    of = engine.kind(cast["child"])
    if TEXT in of or "JSON" in of:
        raise exact.Inexact(
            f"the decimals of a {exact.shortened(engine.kind({**cast, 'child': NOTHING}))} would be rounded where the "
            "text has more digits: take each of them out and CAST it by itself"
        )


def _check_literals(plan: str) -> None:
    """Raises Inexact if the engine would round the number in a text literal to the type of what it stands beside."""
    for inner, to in casts_in(plan):
        literal, type_ = _LITERAL.fullmatch(inner), exact.scalar(to)
        digits = None if type_ is None else exact.digits_kept(type_)
        if literal is not None and digits is not None and (needed := exact.digits_of(literal[1])) > digits:
            raise exact.Inexact(
                f"{inner} would be rounded to {to}, like what it stands beside: write {literal[1]}, or "
                f"CAST({inner} AS DECIMAL(38,{min(needed, 38)}))"
            )


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
        "class": "COLUMN_REF",
        "type": "COLUMN_REF",
        "alias": alias,
        "query_location": 0,
        "column_names": [f"{PART}{number}"],
    }


def _number(tree: Tree) -> int:
    """The number of the part that this column stands for; -1: it stands for none."""
    name = tree["column_names"][-1] if tree["class"] == "COLUMN_REF" else ""
    return int(name.removeprefix(PART)) if name.startswith(PART) else -1
