"""An Avro writer's schema, as far as a reader of foreign records must know it: its fields, and that it is harmless.

fastavro decodes by recursion in C and by counts that the bytes give. So a schema that refers to itself, is nested
deeply, or has arrays whose items take no bytes could stop the process that reads with it. Such a schema is refused.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from borealis_py.ingress.formats.avro_json import marked
from borealis_py.ingress.formats.connect_schema import DAYS, LOCAL_TIMES, SCALE_MAX, VARIABLE_DECIMAL
from borealis_py.types.values import JSON_LEVELS_MAX, nesting

NODES_MAX = 10_000
"""Types in a schema, each counted as often as it is used."""
VALUES_A_BYTE_MAX = 18
"""Values that an item of an array or a value of a map may have for each of its bytes: a number, 16 that take no bytes
and the record around them. With more, a small record would be a large object."""
Path = tuple[str, ...]
"""Names of fields, each in the record that the one before it holds."""
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class UnusableSchema(ValueError):
    """Records cannot be read by this schema; the message says why."""


@dataclass(frozen=True, slots=True)
class AvroType:
    """One branch of a field's type: its `kind`, and of bytes and numbers what they mean (`logical`; "": nothing more),
    of a decimal with the digits after the point (`scale`). What Kafka Connect names is meant, too, where Avro has no
    word for it: `logical` is then "date", "variable-decimal", or the name of a time without a zone."""

    kind: str
    logical: str = ""
    scale: int = 0


class WriterSchema:
    """The schema of one writer, whose values are records.

    Args:
        text: of the schema, as JSON.
        references: texts of schemas that it refers to by name, each after those that it refers to itself.
        as_json: ways to fields whose values are to be such as JSON has (`avro_json`), with all that is in them; others
            are as they lie in the record.

    Raises:
        UnusableSchema: it is no schema of a record, or could be misused.
    """

    def __init__(self, text: str, references: Iterable[str] = (), as_json: Collection[Path] = ()) -> None:
        named: dict[str, Any] = {}
        for one in references:
            _parse(one, named)
        told = _parse(text, named)
        if not isinstance(told, dict) or told.get("type") != "record":
            raise UnusableSchema("it is no schema of a record")
        _Bounds(named).check(told)
        self._told = told
        self._named = named
        self.parsed = self.plain(as_json)
        """For fastavro: without logical types, so that values stay numbers and bytes, but for those of `as_json`."""
        self.fields: Mapping[str, tuple[AvroType, ...]] = {
            field["name"]: tuple(_branches(field["type"], named)) for field in told["fields"]
        }
        """What each field may be, null left out."""

    def field(self, path: Sequence[str]) -> tuple[AvroType, ...] | None:
        """What the field at the end of these names may be, null left out; None: no record has it."""
        records, found = [self._told], []
        for name in path:
            found = [f["type"] for record in records for f in record["fields"] if f["name"] == name]
            records = [record for one in found for record in _records(one, self._named)]
        return tuple(branch for one in found for branch in _branches(one, self._named)) if found else None

    def names(self, within: Sequence[str] = ()) -> list[str]:
        """The fields that the record at the end of these names may have; none: no record is there."""
        records = [self._told]
        for name in within:
            types = [f["type"] for record in records for f in record["fields"] if f["name"] == name]
            records = [record for one in types for record in _records(one, self._named)]
        return list(dict.fromkeys(field["name"] for record in records for field in record["fields"]))

    def plain(self, as_json: Collection[Path]) -> Any:
        """`parsed`, with other fields as JSON has them."""
        return _parsed(_Plain(self._named).record(self._told, frozenset(as_json)), {})


ALONE = "alone"


def as_record(text: str) -> str | None:
    """The schema of records with the field `ALONE`, whose bytes are those of a value by this schema; None: this is a
    record's schema itself. Raises ValueError: it is not JSON."""
    schema = json.loads(text)
    if isinstance(schema, dict) and schema.get("type") in ("record", "error"):
        return None
    return json.dumps({"type": "record", "name": "Alone", "fields": [{"name": ALONE, "type": schema}]})


def _parse(text: str, named: dict[str, Any]) -> Any:
    """The schema with all it says; it knows the types by name."""
    if nesting(text.encode()) > JSON_LEVELS_MAX:
        raise _too_deep()
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnusableSchema(f"it is no Avro schema: {type(exc).__name__}: {exc}") from None
    return _parsed(schema, named)


def _parsed(schema: Any, named: dict[str, Any]) -> Any:
    from fastavro import parse_schema  # an extra: loaded by those who need it

    try:
        return parse_schema(schema, named_schemas=named)
    except RecursionError:
        raise UnusableSchema("it is nested too deeply") from None
    except Exception as exc:  # whatever is wrong with a schema that others wrote
        raise UnusableSchema(f"it is no Avro schema: {type(exc).__name__}: {exc}") from None


def _too_deep() -> UnusableSchema:
    return UnusableSchema(f"it is nested more than {JSON_LEVELS_MAX} levels deep")


_WHOLE: frozenset[Path] = frozenset([()])
_NONE: frozenset[Path] = frozenset()


class _Plain:
    """Writes a schema anew, by which fastavro reads the same bytes without knowing what they mean. Each use of a type
    is a type of its own, since the same one may be read as JSON here and as it is there. It is checked: it has an end.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._numbers = count()

    def record(self, schema: Any, as_json: frozenset[Path]) -> dict[str, Any]:
        """Of a record's schema."""
        fields = []
        for one in schema["fields"]:
            inner = as_json if () in as_json else frozenset(p[1:] for p in as_json if p[:1] == (one["name"],))
            fields.append({"name": one["name"], "type": self._of(one["type"], inner)})
        return {"type": "record", "name": self._name(), "fields": fields}

    def _of(self, schema: Any, as_json: frozenset[Path]) -> Any:
        """`as_json`: ways from here; the empty one: all of it."""
        whole = () in as_json
        if isinstance(schema, list):
            return [self._of(one, as_json) for one in schema]
        if isinstance(schema, str):
            if schema not in PRIMITIVES:
                return self._of(self._named[schema], as_json)
            return marked({"type": schema}, "") if whole else schema
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self._of(kind, as_json)
        if kind in ("record", "error"):
            plain = self.record(schema, as_json)
        elif kind == "array":
            return {"type": kind, "items": self._of(schema["items"], _WHOLE if whole else _NONE)}
        elif kind == "map":
            return {"type": kind, "values": self._of(schema["values"], _WHOLE if whole else _NONE)}
        elif kind not in PRIMITIVES and kind not in ("enum", "fixed"):
            return self._of(self._named[kind], as_json)
        else:
            plain = {"type": kind} if kind in PRIMITIVES else {"type": kind, "name": self._name()}
            plain |= {key: schema[key] for key in ("symbols", "size") if key in schema}
        if not whole:
            return plain
        logical, scale = _meaning(schema)
        return marked(plain, logical, scale)

    def _name(self) -> str:
        return f"T{next(self._numbers)}"


def _records(schema: Any, named: Mapping[str, Any]) -> Iterable[Any]:
    """The records that a value by a schema may be."""
    if isinstance(schema, list):
        for one in schema:
            yield from _records(one, named)
    elif isinstance(schema, str):
        if schema not in PRIMITIVES:
            yield from _records(named[schema], named)
    elif isinstance(schema["type"], dict | list):
        yield from _records(schema["type"], named)
    elif schema["type"] in ("error", "record"):
        yield named.get(schema.get("name"), schema)


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
        yield AvroType("record", *_meaning(schema))
    elif isinstance(schema["type"], dict | list):
        yield from _branches(schema["type"], named)
    elif schema["type"] != "null":
        yield AvroType(schema["type"], *_meaning(schema))


def _meaning(schema: Mapping[str, Any]) -> tuple[str, int]:
    """What values of a type mean, and the digits after the point of a decimal. Raises UnusableSchema."""
    logical, scale, kind = schema.get("logicalType", ""), schema.get("scale", 0), schema["type"]
    whole = isinstance(scale, int) and not isinstance(scale, bool)
    if whole and logical == "decimal" and abs(scale) > SCALE_MAX:
        raise UnusableSchema(f"it has a decimal with {scale} digits after the point, more than {SCALE_MAX}")
    connect = schema.get("connect.name")
    if kind in ("error", "record"):
        return ("variable-decimal" if connect == VARIABLE_DECIMAL else "", 0)
    if not isinstance(logical, str) or not whole:
        return "", scale if whole else 0
    if not logical and kind in ("int", "long") and isinstance(connect, str):
        logical = "date" if connect in DAYS and kind == "int" else connect if connect in LOCAL_TIMES else ""
    return logical, scale


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
        if not all(isinstance(field["name"], str) for field in schema["fields"]):
            raise UnusableSchema("it has a field whose name is no text")
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
