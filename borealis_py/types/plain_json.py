"""JSON objects as other programs write them, read by a schema. Knows no Arrow: an ingress makes columns of it.

Fields that the schema does not name are ignored, missing ones are null. A decimal may be a number, which is read as
text, so that it keeps its digits; a time is ISO 8601, with UTC where it names no zone; a whole number is a double too.
Anything else is an object that cannot be used, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from borealis_py.types.spelling import parse_type
from borealis_py.types.values import JSON_LEVELS_MAX, WIRE, Misfit, nesting, ruled, sent

_NULL = msgspec.Raw(b"null")
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_AS_TEXT = ("decimal", "binary", "json")


class PlainDecoder:
    """Decodes records that are one JSON object each. `schema`: column -> type."""

    def __init__(self, schema: Mapping[str, str]) -> None:
        self.schema = dict(schema)
        self._ruled = [(f"f{i}", name, rule) for i, name, rule in ruled(schema)]
        by_rules = {attribute for attribute, _, _ in self._ruled}
        fields: list[Any] = []
        for i, kind in enumerate(schema.values()):
            plain = (f"f{i}", WIRE[parse_type(kind).kind] | None, None)
            fields.append((f"f{i}", msgspec.Raw, _NULL) if f"f{i}" in by_rules else plain)
        rename = {f"f{i}": name for i, name in enumerate(schema)}
        self._decode = msgspec.json.Decoder(msgspec.defstruct("PlainRow", fields, rename=rename, gc=False)).decode

    def rows(self, records: Sequence[bytes]) -> list[tuple[object, ...] | str]:
        """`row` of each record."""
        if not self._ruled and not any(map(_deep, records)):
            try:
                return list(map(msgspec.structs.astuple, map(self._decode, records)))
            except _BAD:
                pass  # one of them: which one, and why?
        return list(map(self.row, records))

    def row(self, record: bytes) -> tuple[object, ...] | str:
        """The row's values as Arrow takes them, in the schema's order, or why there is none."""
        if _deep(record):
            return f"nested more than {JSON_LEVELS_MAX + 1} levels deep"
        try:
            row = self._decode(record)
        except _BAD as exc:
            return _reason(exc)
        for attribute, name, rule in self._ruled:
            try:
                form = sent(rule, getattr(row, attribute))
                setattr(row, attribute, None if form is None else rule.read(form))
            except Misfit as exc:
                return f"column {name!r}: {exc}"
        return msgspec.structs.astuple(row)


def _reason(error: Exception) -> str:
    """A decoder's message, with the column named first."""
    if isinstance(error, msgspec.ValidationError):
        text, _, path = str(error).partition(" - at `$.")
        return f"column {path.rstrip('`')!r}: {text}" if path else text
    return f"not JSON: {error}"


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
    decode = msgspec.json.Decoder(dict[str, object]).decode
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
