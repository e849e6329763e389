"""Validates a publisher's rows against its source's schema and encodes them. Errors name the field and the reason."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from borealis_py.protocol.settings import ROW_MAX_BYTES, ROW_MAX_LIMIT_BYTES

_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
TYPES: Mapping[str, Any] = {"string": str, "int64": _INT64, "double": float, "bool": bool}
_FINITE = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_PLACE = re.compile(r"at `\$\[(\d+)\]")
"""Matches the index of the invalid row in a msgspec message."""
ROW_BYTES_MAX = ROW_MAX_LIMIT_BYTES
"""The largest row that any app accepts."""


class BadRow(ValueError):
    """The row cannot be published; the message says which field and why."""


class RowSchema:
    """The fields of a source, in order: each is one of "string", "int64", "double", "bool", and may be null.

    Raises:
        ValueError: unknown type, or no fields.
    """

    def __init__(self, schema: Mapping[str, str], row_max_bytes: int = ROW_MAX_BYTES) -> None:
        unknown = {name: kind for name, kind in schema.items() if kind not in TYPES}
        if unknown or not schema:
            raise ValueError(f"a schema maps fields to {', '.join(TYPES)}; got {unknown or 'no fields'}")
        self.fields = dict(schema)
        self._row_max = row_max_bytes
        self._row = _struct(schema, TYPES)
        self._finite = _struct(schema, {**TYPES, "double": _FINITE})
        self._rows = list[self._finite]  # type: ignore[name-defined]
        self._encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
        self._doubles = [(f"f{i}", name) for i, (name, kind) in enumerate(schema.items()) if kind == "double"]

    def encode(self, row: Mapping[str, object]) -> bytes:
        """One JSON object with the schema's fields; other fields of the row are ignored.

        Raises:
            BadRow: a field is missing, has another type or is not finite, or the row is too large.
        """
        try:
            encoded = self._encode(msgspec.convert(row, self._finite))
        except (msgspec.ValidationError, UnicodeEncodeError):
            raise self._bad(row) from None
        if len(encoded) > self._row_max:
            raise BadRow(f"a row of {len(encoded)} bytes, row_max is {self._row_max}")
        return encoded

    def checked(self, rows: Sequence[Mapping[str, object]]) -> list[Any]:
        """The rows before the first invalid one, converted for `joined` and `encoded`."""
        try:
            return msgspec.convert(rows, self._rows)
        except Exception as exc:  # a row of the caller's own class may raise anything; `encode` reports it
            place = _PLACE.search(str(exc)) if isinstance(exc, msgspec.ValidationError) else None
        return self._one_by_one(rows if place is None else rows[: int(place[1])])

    def joined(self, checked: Sequence[Any]) -> bytes | None:
        """What `encode` returns for checked rows, joined by commas. None: one may be too large, or is not valid
        Unicode.
        """
        try:
            encoded = self._encode(checked)[1:-1]
        except UnicodeEncodeError:
            return None
        return None if len(encoded) > self._row_max else encoded

    def encoded(self, checked: Sequence[Any]) -> list[bytes]:
        """What `encode` returns for checked rows, up to one that is too large or is not valid Unicode."""
        encoded = []
        with suppress(UnicodeEncodeError):
            for row in checked:
                one = self._encode(row)
                if len(one) > self._row_max:
                    break
                encoded.append(one)
        return encoded

    def _one_by_one(self, rows: Sequence[Mapping[str, object]]) -> list[Any]:
        fit = []
        with suppress(Exception):  # as in `checked`: the first that does not fit ends it
            for row in rows:
                fit.append(msgspec.convert(row, self._finite))
        return fit

    def _bad(self, row: Mapping[str, object]) -> BadRow:
        """The error for an invalid row."""
        try:
            checked = msgspec.convert(row, self._row)
            self._encode(checked)
        except msgspec.ValidationError as exc:
            return BadRow(str(exc))
        except UnicodeEncodeError:
            return BadRow("a string is not valid Unicode")
        for attribute, name in self._doubles:
            value = getattr(checked, attribute)
            if value is not None and not math.isfinite(value):
                return BadRow(f"field `{name}` is {value}: not a number that JSON can carry; send null")
        return BadRow("it changed while it was looked at")


def _struct(schema: Mapping[str, str], types: Mapping[str, Any]) -> Any:
    """The class of a row. f0, f1, ...: a field's name may be invalid as a Python attribute."""
    fields = [(f"f{i}", types[kind] | None) for i, kind in enumerate(schema.values())]
    names = {f"f{i}": name for i, name in enumerate(schema)}
    return msgspec.defstruct("Row", fields, rename=names, gc=False)


def raw_json(row: object) -> bytes:
    """A value that could not be published, as JSON if possible."""
    try:
        return msgspec.json.encode(row, enc_hook=repr)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        return msgspec.json.encode(ascii(row))
