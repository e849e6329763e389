"""The names of column types, as people write them and as descriptions hold them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

PRECISION_MAX = 38
"""The most digits that a decimal can have: those of 128 bits, in Arrow and in the engine."""

WORDS = {
    "string": "string", "str": "string", "text": "string", "varchar": "string",
    "int64": "int64", "int": "int64", "bigint": "int64", "long": "int64",
    "double": "double", "float": "double", "float64": "double",
    "bool": "bool", "boolean": "bool",
    "decimal": "decimal", "numeric": "decimal",
    "timestamp": "timestamp", "datetime": "timestamp",
    "date": "date",
    "binary": "binary", "bytes": "binary", "blob": "binary",
    "json": "json",
}  # fmt: skip
"""Spellings of the column types. A decimal is followed by its digits: decimal(12,2)."""

NAMES = ", ".join(f"{kind}(p,s)" if kind == "decimal" else kind for kind in dict.fromkeys(WORDS.values()))
"""The types by their names in descriptions, for messages."""

_SPELLED = re.compile(r"\s*([a-z0-9]+)\s*(?:\(\s*([0-9]{1,3})\s*(?:,\s*([0-9]{1,3})\s*)?\)\s*)?", re.IGNORECASE)


class UnknownType(ValueError):
    """A spelling that is no column type; the message says why."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type: its `kind`, and of a decimal the number of digits (`precision`), of which `scale` follow the
    point; 0 for all others. As text it is its name in descriptions."""

    kind: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind == "decimal" else self.kind


def parse_type(text: str) -> ColumnType:
    """The column type of any of its spellings: "int", "decimal(12, 2)". Raises UnknownType."""
    found = _SPELLED.fullmatch(text)
    kind = None if found is None else WORDS.get(found[1].lower())
    if found is None or kind is None:
        raise UnknownType("")
    digits, after = found[2], found[3]
    if kind != "decimal":
        if digits is not None:
            raise UnknownType(f"{kind} takes no size")
        return ColumnType(kind)
    if digits is None:
        raise UnknownType("say how many digits, and how many of them after the point: decimal(12,2)")
    precision, scale = int(digits), int(after or 0)
    if not 1 <= precision <= PRECISION_MAX or scale > precision:
        raise UnknownType(
            f"a decimal has 1 to {PRECISION_MAX} digits, and at most as many of them after the point: decimal(12,2)"
        )
    return ColumnType(kind, precision, scale)


def is_name(text: object) -> bool:
    """Whether this is a type's name as descriptions have it, not another spelling."""
    try:
        return isinstance(text, str) and str(parse_type(text)) == text
    except UnknownType:
        return False


def described() -> str:
    """The types with their other spellings, for messages."""
    of = {kind: [word for word, means in WORDS.items() if means == kind != word] for kind in WORDS.values()}
    names = {kind: f"{kind}(p,s)" if kind == "decimal" else kind for kind in of}
    return ", ".join(f"{names[kind]} ({', '.join(words)})" if words else names[kind] for kind, words in of.items())
