"""Checks a publisher's rows against its source's schema and encodes them. Bad rows are told why, field by field."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from borealis_py.protocol.settings import ROW_MAX_BYTES, ROW_MAX_LIMIT_BYTES

_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
TYPES: Mapping[str, Any] = {"string": str, "int64": _INT64, "double": float, "bool": bool}
ROW_BYTES_MAX = ROW_MAX_LIMIT_BYTES
"""The largest row that any app takes."""


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
        attributes = [(f"f{i}", TYPES[kind] | None) for i, kind in enumerate(schema.values())]
        names = {f"f{i}": name for i, name in enumerate(schema)}
        self._row = msgspec.defstruct("Row", attributes, rename=names, gc=False)
        self._encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
        self._doubles = [(f"f{i}", name) for i, (name, kind) in enumerate(schema.items()) if kind == "double"]

    def encode(self, row: Mapping[str, object]) -> bytes:
        """One JSON object with the schema's fields; others of the row are left out.

        Raises:
            BadRow: a field is missing, has another type, is not finite, or the row is too large.
        """
        try:
            checked = msgspec.convert(row, self._row)
            encoded = self._encode(checked)
        except msgspec.ValidationError as exc:
            raise BadRow(str(exc)) from exc
        except UnicodeEncodeError as exc:
            raise BadRow("a string is not valid Unicode") from exc
        for attribute, name in self._doubles:
            value = getattr(checked, attribute)
            if value is not None and not math.isfinite(value):
                raise BadRow(f"field `{name}` is {value}: not a number that JSON can carry; send null")
        if len(encoded) > self._row_max:
            raise BadRow(f"a row of {len(encoded)} bytes, row_max is {self._row_max}")
        return encoded


def raw_json(row: object) -> bytes:
    """Whatever somebody wanted to publish, as well as JSON can show it."""
    try:
        return msgspec.json.encode(row, enc_hook=repr)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        return msgspec.json.encode(ascii(row))
