"""Keeps the digits of numbers where the engine finds a common type for several values.

Beside a decimal(38,2), which every sum of cents is, `coalesce`, CASE, `greatest`, `[a, b]` and others round a
decimal(18,8) to two digits after the point, and beside a double they make doubles of decimals and of int64. Which casts
the engine adds is in its plan (`implicit`). Here: which of them may lose digits, and the expression that raises an
error, the row's dead letter, where one does. Knows only trees, types as text, and SQL as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from borealis_py.engine.sql.functions import IN_DOUBLES

Tree = dict[str, Any]

_WHOLE_DIGITS = {
    "TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10,
    "UBIGINT": 20, "HUGEINT": 39, "UHUGEINT": 39,
}  # fmt: skip
_FLOAT_DIGITS = {"DOUBLE": 15, "FLOAT": 6}
"""How many decimal digits each value of a type keeps."""
_SCALAR = re.compile(r"([A-Z]+)(?:\(([0-9]+),([0-9]+)\))?")
_NUMBER = re.compile(r"\s*[+-]?([0-9_]*)(?:\.([0-9_]*))?(?:[eE]([+-]?[0-9]+))?\s*")
"""The engine's spelling of a number with a point or an exponent."""
_WIDTH_MAX = 38
_COMPARED = {"COMPARE_IN", "COMPARE_NOT_IN"}
_INTERPOLATED = {"median", "mad", "quantile_cont", "approx_quantile"}
"""Aggregates whose result lies between two values. The engine gives it their type: cents of half a cent."""
MARK = "Inexact: "
"""Begins the errors raised here (`checks.reason_of`)."""
_SHOWN = 60
"""How much of an expression or value a reason shows."""


class Inexact(ValueError):
    """An expression would round a value, whatever its rows hold; the message says what to write."""


def scalar(spelled: str) -> Tree | None:
    """The tree of a type that has no component types, as the engine spells it; None: it has some."""
    found = _SCALAR.fullmatch(spelled)
    if found is None or found[1] in ("STRUCT", "MAP", "UNION"):
        return None
    info = None if found[2] is None else {"width": int(found[2]), "scale": int(found[3])}
    return {"id": found[1], "type_info": info}


def lossy(of: Tree, to: Tree, *, doubles: bool) -> bool:
    """Whether a cast between these types may lose digits. `doubles`: whether casts to DOUBLE and FLOAT count."""
    theirs, ours = _inner(of), _inner(to)
    if theirs or ours:
        return len(theirs) == len(ours) and any(
            lossy(one, other, doubles=doubles) for one, other in zip(theirs, ours, strict=True)
        )
    whole, scale = _digits(of)
    if not whole:
        return False
    if (kept := _FLOAT_DIGITS.get(to["id"])) is not None:
        return doubles and whole > kept
    kept = digits_kept(to)
    return kept is not None and scale > kept


def digits_kept(type_: Tree) -> int | None:
    """How many digits after the point values of this type have: 0 of whole numbers. None: it is no exact number."""
    whole, scale = _digits(type_)
    return scale if whole else None


def spelled(type_: Tree) -> str:
    """An exact number's type, as a user writes it."""
    return "DECIMAL({},{})".format(*_digits(type_)) if type_["id"] == "DECIMAL" else str(type_["id"])


def digits_of(text: str) -> int:
    """How many digits after the point the number in a text needs; 0 also where the text is no number."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return 0
    whole, fraction = ((found[n] or "").replace("_", "") for n in (1, 2))
    digits = (whole + fraction).rstrip("0")
    if not digits.strip("0"):
        return 0
    return max(0, len(digits) - len(whole) - int(found[3] or 0))


def text_reason(text: str, digits: int, type_: str) -> str:
    """Why the number in a text is refused, which has more digits after the point than the `digits` of the type."""
    needed = digits_of(text)
    held = f"DECIMAL(38,{needed})" if needed <= _WIDTH_MAX else "DOUBLE"
    return (
        f"'{shortened(text)}' would be rounded by a CAST to {type_}: "
        f"write CAST(round(CAST(... AS {held}), {digits}) AS {type_})"
    )


def holds_decimals(type_: Tree) -> bool:
    return type_["id"] == "DECIMAL" or any(map(holds_decimals, _inner(type_)))


def holds_numbers(type_: Tree) -> bool:
    """Whether values of this type have exact numbers in them."""
    return digits_kept(type_) is not None or any(map(holds_numbers, _inner(type_)))


def interpolates(name: str, chosen: str | None) -> bool:
    """Whether a function gives what may lie between its values. `chosen`: as for `objection`."""
    return (chosen or name).lower().removeprefix("list_") in _INTERPOLATED


def objection(name: str, of: str, chosen: str | None) -> str | None:
    """Why a call of a function on values of this type is refused: it rounds, as nobody asked it to; None: it is not.

    Args:
        name: of the function. chosen: the aggregate that it computes over a list, if it takes one by name.
    """
    computes = (chosen or name).lower().removeprefix("list_")
    if not interpolates(name, chosen) or not of.startswith("DECIMAL"):
        return None
    other = ", or quantile_disc, which takes one of the values" if computes != "mad" else ""
    return (
        f"{computes} of a {of.rstrip('[]')} is computed as a double, and rounded to the digits of the decimal: "
        f"CAST the values to DOUBLE{other}"
    )


def _digits(type_: Tree) -> tuple[int, int]:
    """How many digits a number has at most, and how many of them after the point; (0, 0): it is no exact number."""
    if type_["id"] == "DECIMAL":
        info = type_["type_info"] or {"width": 18, "scale": 3}  # the engine's default
        return int(info["width"]), int(info["scale"])
    return _WHOLE_DIGITS.get(type_["id"], 0), 0


def _inner(type_: Tree) -> list[Tree]:
    info = type_.get("type_info") or {}
    if "child_type" in info:
        return [info["child_type"]]
    return [child["second"] for child in info.get("child_types", ())]


def keeps_values(tree: Tree) -> bool:
    """Whether an expression passes its parts on, or compares them: it does not compute with them in doubles."""
    return not (tree["class"] == "FUNCTION" and tree["function_name"].lower() in IN_DOUBLES)


def compares(tree: Tree) -> bool:
    """Whether an expression is a comparison of its parts: a rounded part matters only where it is equal to another."""
    return tree["class"] in ("COMPARISON", "BETWEEN") or tree["type"] in _COMPARED


def loses(operand: str, of: str, to: str, others: Sequence[str] = ()) -> str:
    """SQL of whether a cast of this operand loses digits. `others`: only where the result is equal to one of them."""
    lost = f"TRY_CAST(CAST({operand} AS {to}) AS {of}) IS DISTINCT FROM {operand}"
    return f"{lost} AND CAST({operand} AS {to}) IN ({', '.join(others)})" if others else lost


def checked(part: str, operand: str, lost: str, told: tuple[str, str]) -> str:
    """SQL of a part that raises where `lost` is true. `told`: the reason, around the operand's value."""
    before, after = (_quoted(text) for text in told)
    value = f"left(CAST({operand} AS VARCHAR), {_SHOWN})"
    return f"CASE WHEN {lost} THEN error('{MARK}' || {before} || {value} || {after}) ELSE {part} END"


def reason(written: str, of: str, to: str) -> tuple[str, str]:
    """Why a value is refused, before and after the value. `written`: the operand as its user writes it."""
    name, type_ = shortened(written), scalar(of)
    if to.rstrip("[]0123456789") in _FLOAT_DIGITS:
        other = of if len(of) <= _SHOWN else "a decimal"
        return (
            f"{name} is ",
            f", and as a {to}, like what it stands beside, it would lose digits: CAST that to {other}, "
            f"or {name} to {to}",
        )
    if type_ is None:
        return (
            f"{name} is ",
            f", and would be rounded to {shortened(to)} here: CAST both to one type that holds all digits",
        )
    scale, kept = _digits(type_)[1], int((scalar(to) or {"type_info": {"scale": 0}})["type_info"]["scale"])
    return (
        f"{name} is ",
        f", and would be rounded to {to}, like what it stands beside: CAST that to DECIMAL(38,{scale}), "
        f"or write round({name}, {kept})",
    )


def cast_reason(written: str, to: str) -> tuple[str, str]:
    """The same of a CAST that the query has."""
    name, type_ = shortened(written), scalar(to)
    kept = 0 if type_ is None else _digits(type_)[1]
    return f"{name} is ", f", and CAST to {to} would round it: write CAST(round({name}, {kept}) AS {to})"


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
