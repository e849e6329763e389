"""JSON objects as other programs write them, read by a schema. Knows no Arrow: an ingress makes columns of it.

Fields that the schema does not name are ignored, missing ones are null. A decimal may be a number, which is read as
text, so that it keeps its digits; a time is ISO 8601, with UTC where it names no zone; a whole number is a double too.
Anything else is an object that cannot be used, with the reason; so is one that has a field of the schema twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from borealis_py.types.explained import explained, not_json, shown_value
from borealis_py.types.repeated import Names
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import JSON_LEVELS_MAX, PLAIN, WIRE, Misfit, nesting, ruled, sent

_NULL = msgspec.Raw(b"null")
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_OR_JSON = "read it whole as a json column, without columns for its fields"
_AS_TEXT = ("decimal", "binary", "json")


class PlainDecoder:
    """Decodes records that are one JSON object each.

    Args:
        schema: column -> type.
        paths: of columns that are not the field of their name, the names that lead to their field. Where an object on
            the way is missing or null, so is the column.
    """

    def __init__(self, schema: Mapping[str, str], paths: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
        self.schema = dict(schema)
        self._ruled = [(i, name, rule) for i, name, rule in ruled(schema)]
        self._columns = {tuple(paths.get(name, (name,))): name for name in schema}
        self._outer = {path[:depth] for path in self._columns for depth in range(1, len(path))}
        self._ways = [*self._columns, *sorted(self._outer - self._columns.keys())]
        self._object = _Object([(path, schema[name], i) for i, (path, name) in enumerate(self._columns.items())])
        self._decode = msgspec.json.Decoder(self._object.type).decode
        self._values = self._object.reader(len(schema))
        self._once = self._object.once

    def rows(self, records: Sequence[bytes]) -> list[tuple[object, ...] | str]:
        """`row` of each record."""
        if not self._ruled and not any(map(_deep, records)):
            try:
                found: list[Any] = list(map(self._values, map(self._decode, records)))
            except _BAD:
                pass  # one of them: which one, and why?
            else:
                for at in self._once.suspects(records, found):
                    found[at] = self._once.repeated(records[at]) or found[at]
                return found
        return list(map(self.row, records))

    def row(self, record: bytes) -> tuple[object, ...] | str:
        """The row's values as Arrow takes them, in the schema's order, or why there is none."""
        if _deep(record):
            return f"nested more than {JSON_LEVELS_MAX + 1} levels deep"
        try:
            values = self._values(self._decode(record))
        except _BAD as exc:
            return self._reason(exc, record)
        if not self._ruled:
            return self._once_each(record, values)
        row = list(values)
        for i, name, rule in self._ruled:
            try:
                form = sent(rule, row[i])
                row[i] = None if form is None else rule.read(form)
            except Misfit as exc:
                return explained(name, rule.type, _value(row[i]), str(exc))
        return self._once_each(record, tuple(row))

    def repeated(self, record: bytes) -> str | None:
        """Why an object is none: it has a field of the schema twice; None: it has not, or is no object."""
        return self._once.repeated(record)

    def _once_each(self, record: bytes, row: tuple[object, ...]) -> tuple[object, ...] | str:
        """The row, or why there is none: a field is there twice."""
        for _ in self._once.suspects([record], [row]):
            return self._once.repeated(record) or row
        return row

    def _reason(self, error: Exception, record: bytes) -> str:
        """A decoder's message, with the column named first, or the object on the way to some."""
        if not isinstance(error, msgspec.ValidationError):
            return not_json(record, str(error))
        text, _, at = str(error).partition(" - at `$.")
        if not at:
            return f"{text}; let the producer write a JSON object"
        field = at.rstrip("`")
        path = next((path for path in self._ways if ".".join(path) == field), None)
        if path is None:
            return f"field {field!r}: {text}"
        column = self._columns.get(path)
        value = _value(_at(record, path))
        if path in self._outer:
            what = f"field {field!r}" if column is None else f"column {column!r}"
            return f"{what}: {text} ({shown_value(value)}); let the producer write an object there, or {_OR_JSON}"
        assert column is not None
        return explained(column, parse_type(self.schema[column]), value, text)


Leaf = tuple[tuple[str, ...], str, int]
"""A column's field as the way to it, its type, its position."""


class _Object:
    """How an object with some columns is decoded: `type` by msgspec; what `reader` makes takes their values out.
    `once` finds those that have one of the fields twice.

    Args:
        leaves: none of them twice; one that lies within another one's field is of a json column.
    """

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._own = {path[0]: (kind, i) for path, kind, i in leaves if len(path) == 1}
        inner: dict[str, list[Leaf]] = {}
        for path, kind, i in leaves:
            if len(path) > 1:
                inner.setdefault(path[0], []).append((path[1:], kind, i))
        self._inner = {name: _Object(some) for name, some in inner.items()}
        self._names = list(dict.fromkeys([*self._own, *self._inner]))
        self.once: Names = Names(self._names, {name: one.once for name, one in self._inner.items()})
        fields = [(f"f{k}", *self._field(name)) for k, name in enumerate(self._names)]
        rename = {f"f{k}": name for k, name in enumerate(self._names)}
        self.type: Any = msgspec.defstruct("PlainRow", fields, rename=rename, gc=False)

    def _field(self, name: str) -> tuple[Any, Any]:
        """Its type for msgspec, and its default."""
        if name not in self._inner and (kind := parse_type(self._own[name][0]).kind) in PLAIN:
            return WIRE[kind] | None, None
        return (self._inner[name].type | None, None) if name not in self._own else (msgspec.Raw, _NULL)

    def reader(self, count: int) -> Callable[[Any], tuple[object, ...]]:
        """Takes the values of `count` columns out of a decoded object. Raises any of `_BAD`."""
        if not self._inner:
            return msgspec.structs.astuple
        defaults: list[object] = [None] * count

        def values(found: Any) -> tuple[object, ...]:
            row = defaults.copy()
            self.fill(row, found)
            return tuple(row)

        return values

    def fill(self, row: list[object], found: Any) -> None:
        """Put the values of a decoded object where their columns are; None: there is no object."""
        for name, value in zip(self._names, msgspec.structs.astuple(found), strict=True):
            inner = self._inner.get(name)
            if name in self._own:
                row[self._own[name][1]] = value
                if inner is not None:  # a json column, and some of its fields
                    value = self._within(name, value, inner)
            if inner is not None and value is not None:
                inner.fill(row, value)

    @staticmethod
    def _within(name: str, text: msgspec.Raw, inner: _Object) -> Any:
        """An object of which the text is a column, too."""
        try:
            return msgspec.json.decode(text, type=inner.type | None)
        except msgspec.ValidationError as exc:
            why, _, path = str(exc).partition(" - at `$")
            raise msgspec.ValidationError(f"{why} - at `$.{name}{path.rstrip('`')}`") from None


def _at(record: bytes, path: Sequence[str]) -> msgspec.Raw:
    """The value at the end of these names; null: it is missing, or there are several on the way of the same name."""
    found = msgspec.Raw(record)
    try:
        for name in path:
            found = _fields(found).get(name, _NULL)
    except _BAD:
        return _NULL
    return found


def _value(raw: object) -> object:
    """A value of JSON as Python has it; its text, if it is none."""
    try:
        return msgspec.json.decode(bytes(raw)) if isinstance(raw, msgspec.Raw) else raw
    except _BAD:
        return bytes(raw).decode(errors="replace") if isinstance(raw, msgspec.Raw) else raw


def _deep(record: bytes) -> bool:
    """Whether an object is nested too deeply; a short one cannot be."""
    levels = JSON_LEVELS_MAX + 1
    if len(record) < 2 * levels:
        return False
    return record.count(b"[") + record.count(b"{") > levels and nesting(record) > levels


def object_decoder(schema: Mapping[str, str], but: Collection[str] = ()) -> Callable[[bytes], dict[str, object]]:
    """Decodes an object with all its fields. Of the schema's columns, those that Python would read as something else
    stay text (`msgspec.Raw`): a decimal would lose its last digits. `but`: columns that do not.
    """
    names = [name for _, name, rule in ruled(schema) if rule.type.kind in _AS_TEXT and name not in but]
    plain, once = msgspec.json.Decoder(dict[str, object]).decode, Names(list(schema))

    def decode(line: bytes) -> dict[str, object]:
        row = plain(line)
        if line.count(b":") != len(row) and (why := once.repeated(line)) is not None:
            raise msgspec.ValidationError(why)
        return row

    if not names:
        return decode
    fields = [(f"f{i}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for i in range(len(names))]
    kept = msgspec.defstruct("Kept", fields, rename={f"f{i}": name for i, name in enumerate(names)}, gc=False)
    texts = msgspec.json.Decoder(kept).decode

    def decoded(line: bytes) -> dict[str, object]:
        row, raw = decode(line), texts(line)
        for name, value in zip(names, msgspec.structs.astuple(raw), strict=True):
            if value is not msgspec.UNSET:
                row[name] = msgspec.Raw(bytes(value))
        return row

    return decoded
