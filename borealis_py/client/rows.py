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
from borealis_py.types.spelling import NAMES, is_name, parse_type
from borealis_py.types.values import PLAIN, WIRE, Misfit, ruled, sent

_FINITE = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_PLACE = re.compile(r"at `\$\[(\d+)\]")
"""Matches the index of the invalid row in a msgspec message."""
ROW_BYTES_MAX = ROW_MAX_LIMIT_BYTES
"""The largest row that any app accepts."""


class BadRow(ValueError):
    """The row cannot be published; the message says which field and why."""


class RowSchema:
    """The fields of a source, in order: each has a column type, and may be null.

    Python's datetime, date, Decimal and bytes are values of theirs, dicts and lists of json; `msgspec.Raw` is the JSON
    text of a value, as other programs write it (`types.values`).

    Raises:
        ValueError: unknown type, or no fields.
    """

    def __init__(self, schema: Mapping[str, str], row_max_bytes: int = ROW_MAX_BYTES) -> None:
        unknown = {name: kind for name, kind in schema.items() if not is_name(kind)}
        if unknown or not schema:
            raise ValueError(f"a schema maps fields to {NAMES}; got {unknown or 'no fields'}")
        self.fields = dict(schema)
        self._row_max = row_max_bytes
        self._ruled = [(f"f{i}", name, rule) for i, name, rule in ruled(schema)]
        kinds = {kind: WIRE[kind] for kind in PLAIN}
        self._row = _struct(schema, kinds)
        self._finite = _struct(schema, {**kinds, "double": _FINITE})
        self._rows = list[self._finite]  # type: ignore[name-defined]
        self._encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
        self._doubles = [(f"f{i}", name) for i, (name, kind) in enumerate(schema.items()) if kind == "double"]

    def encode(self, row: Mapping[str, object]) -> bytes:
        """One JSON object with the schema's fields; other fields of the row are ignored.

        Raises:
            BadRow: a field is missing, has another type or is not finite, or the row is too large.
        """
        try:
            encoded = self._encode(self._normal(msgspec.convert(row, self._finite)))
        except (msgspec.ValidationError, UnicodeEncodeError):
            raise self._bad(row) from None
        if len(encoded) > self._row_max:
            raise BadRow(f"a row of {len(encoded)} bytes, row_max is {self._row_max}")
        return encoded

    def checked(self, rows: Sequence[Mapping[str, object]]) -> list[Any]:
        """The rows before the first invalid one, converted for `joined` and `encoded`."""
        try:
            fit = msgspec.convert(rows, self._rows)
        except Exception as exc:  # a row of the caller's own class may raise anything; `encode` reports it
            place = _PLACE.search(str(exc)) if isinstance(exc, msgspec.ValidationError) else None
            return self._one_by_one(rows if place is None else rows[: int(place[1])])
        if self._ruled:
            for at, row in enumerate(fit):
                try:
                    self._normal(row)
                except Exception:  # as above: so may a value
                    return fit[:at]
        return fit

    def _normal(self, row: Any) -> Any:
        """The row with its values in their normal form. Raises BadRow."""
        for attribute, name, rule in self._ruled:
            try:
                setattr(row, attribute, sent(rule, getattr(row, attribute)))
            except Misfit as exc:
                raise BadRow(f"field `{name}`: {exc}") from None
        return row

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
                fit.append(self._normal(msgspec.convert(row, self._finite)))
        return fit

    def _bad(self, row: Mapping[str, object]) -> BadRow:
        """The error for an invalid row."""
        try:
            checked = msgspec.convert(row, self._row)
            self._encode(self._normal(checked))
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
    of = [types.get(parse_type(kind).kind) for kind in schema.values()]
    fields = [(f"f{i}", Any if type_ is None else type_ | None) for i, type_ in enumerate(of)]
    names = {f"f{i}": name for i, name in enumerate(schema)}
    return msgspec.defstruct("Row", fields, rename=names, gc=False)


def raw_json(row: object) -> bytes:
    """A value that could not be published, as JSON if possible."""
    try:
        return msgspec.json.encode(row, enc_hook=repr)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        return msgspec.json.encode(ascii(row))
