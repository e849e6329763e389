"""An Avro writer's schema, as far as a reader of foreign records must know it: its fields, and that it is harmless.

fastavro decodes by recursion in C and by counts that the bytes give. So a schema that refers to itself, is nested
deeply, or has arrays whose items take no bytes could stop the process that reads with it. Such a schema is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from borealis_py.types.values import JSON_LEVELS_MAX, nesting

NODES_MAX = 10_000
"""Types in a schema, each counted as often as it is used."""
VALUES_A_BYTE_MAX = 18
"""Values that an item of an array or a value of a map may have for each of its bytes: a number, 16 that take no bytes
and the record around them. With more, a small record would be a large object."""
SCALE_MAX = 1_000
"""Digits after the point of a decimal: far more than any column has, and few enough to compute with exactly."""
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class UnusableSchema(ValueError):
    """Records cannot be read by this schema; the message says why."""


@dataclass(frozen=True, slots=True)
class AvroType:
    """One branch of a field's type: its `kind`, and of bytes and numbers what they mean (`logical`; "": nothing more),
    of a decimal with the digits after the point (`scale`)."""

    kind: str
    logical: str = ""
    scale: int = 0


class WriterSchema:
    """The schema of one writer, whose values are records.

    Args:
        text: of the schema, as JSON.
        references: texts of schemas that it refers to by name, each after those that it refers to itself.

    Raises:
        UnusableSchema: it is no schema of a record, or could be misused.
    """

    def __init__(self, text: str, references: Iterable[str] = ()) -> None:
        named: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        for one in references:
            _parse(one, named, plain)
        told, self.parsed = _parse(text, named, plain)
        """For fastavro: without logical types, so that values stay numbers and bytes."""
        if not isinstance(told, dict) or told.get("type") != "record":
            raise UnusableSchema("it is no schema of a record")
        _Bounds(named).check(told)
        self.fields: Mapping[str, tuple[AvroType, ...]] = {
            field["name"]: tuple(_branches(field["type"], named)) for field in told["fields"]
        }
        """What each field may be, null left out."""


def _parse(text: str, named: dict[str, Any], plain: dict[str, Any]) -> tuple[Any, Any]:
    """The schema with all it says, and without logical types. Both know the types by name."""
    from fastavro import parse_schema  # an extra: loaded by those who need it

    if nesting(text.encode()) > JSON_LEVELS_MAX:
        raise _too_deep()
    try:
        schema = json.loads(text)
        return (
            parse_schema(schema, named_schemas=named),
            parse_schema(_without_logical(schema), named_schemas=plain),
        )
    except RecursionError:
        raise UnusableSchema("it is nested too deeply") from None
    except Exception as exc:  # whatever is wrong with a schema that others wrote
        raise UnusableSchema(f"it is no Avro schema: {type(exc).__name__}: {exc}") from None


def _too_deep() -> UnusableSchema:
    return UnusableSchema(f"it is nested more than {JSON_LEVELS_MAX} levels deep")


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: value for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _without_logical(found[key])
    if isinstance(found.get("fields"), list):
        found["fields"] = [_without_logical(field) for field in found["fields"]]
    return found


def _branches(schema: Any, named: Mapping[str, Any]) -> Iterable[AvroType]:
    if isinstance(schema, list):
        for one in schema:
            yield from _branches(one, named)
    elif isinstance(schema, str):
        if schema not in PRIMITIVES:
            yield from _branches(named[schema], named)
        elif schema != "null":
            yield AvroType(schema)
    elif schema["type"] in ("error", "record"):
        yield AvroType("record")
    elif isinstance(schema["type"], dict | list):
        yield from _branches(schema["type"], named)
    elif schema["type"] != "null":
        logical, scale = schema.get("logicalType", ""), schema.get("scale", 0)
        whole = isinstance(scale, int) and not isinstance(scale, bool)
        if whole and logical == "decimal" and abs(scale) > SCALE_MAX:
            raise UnusableSchema(f"it has a decimal with {scale} digits after the point, more than {SCALE_MAX}")
        yield AvroType(schema["type"], logical if isinstance(logical, str) and whole else "", scale if whole else 0)


class _Cost(NamedTuple):
    """What a type may cost its reader."""

    levels: int = 1
    types: int = 1
    empty: bool = False
    """A value of it takes no bytes."""
    unpaid: int = 1 - VALUES_A_BYTE_MAX
    """Values in one of it, itself among them, less those that its bytes allow; of all it may be, the most."""


class _Bounds:
    """Finds what a type may cost its reader."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, _Cost | None] = {}

    def check(self, schema: Any) -> None:
        """Raises UnusableSchema."""
        self._of(schema, 1)

    def _of(self, schema: Any, depth: int) -> _Cost:
        """Of what is so deep in the schema."""
        if depth > JSON_LEVELS_MAX:  # before what is in it: schemas that are chained by name are as deep as they like
            raise _too_deep()
        if isinstance(schema, str):
            return _leaf(schema == "null") if schema in PRIMITIVES else self._by_name(schema, depth)
        if isinstance(schema, list):
            inner = [self._of(one, depth + 1) for one in schema]
            most = max([0, *(one.unpaid for one in inner)])
            return _around(inner, unpaid=most - VALUES_A_BYTE_MAX)  # a byte says which
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self._of(kind, depth + 1)
        if kind in ("record", "error"):
            return self._by_name(schema["name"], depth)
        if kind == "array":
            item = self._of(schema["items"], depth + 1)
            if item.empty:
                raise UnusableSchema(
                    "it has an array whose items take no bytes: a record could claim any number of them"
                )
            return _many(item)
        if kind == "map":
            one = self._of(schema["values"], depth + 1)
            return _many(one._replace(unpaid=one.unpaid - VALUES_A_BYTE_MAX))  # its key takes a byte
        return _leaf(kind == "null" or (kind == "fixed" and schema.get("size") == 0))

    def _by_name(self, name: str, depth: int) -> _Cost:
        if name in self._known:
            found = self._known[name]
            if found is None:
                raise UnusableSchema(f"it refers to itself ({name}): a record could be nested without end")
            return found
        schema = self._named[name]
        if schema["type"] not in ("record", "error"):
            return _leaf(schema["type"] == "fixed" and schema.get("size") == 0)
        self._known[name] = None
        fields = [self._of(field["type"], depth + 1) for field in schema["fields"]]
        empty = all(one.empty for one in fields)
        found = _around(fields, empty, 1 + sum(one.unpaid for one in fields))
        self._known[name] = found
        return found


def _leaf(empty: bool) -> _Cost:
    return _Cost(empty=True, unpaid=1) if empty else _Cost()


def _many(one: _Cost) -> _Cost:
    """An array or a map of these."""
    if one.unpaid > 0:
        raise UnusableSchema(
            f"it has an array or a map whose items may have more than {VALUES_A_BYTE_MAX} values for each byte: a "
            "small record could be a large object"
        )
    return _around([one], unpaid=1 - VALUES_A_BYTE_MAX)


def _around(inner: list[_Cost], empty: bool = False, unpaid: int = 0) -> _Cost:
    levels = 1 + max((one.levels for one in inner), default=0)
    types = 1 + sum(one.types for one in inner)
    if levels > JSON_LEVELS_MAX:
        raise _too_deep()
    if types > NODES_MAX:
        raise UnusableSchema(f"it has more than {NODES_MAX} types in it")
    return _Cost(levels, types, empty, unpaid)
