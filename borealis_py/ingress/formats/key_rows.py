"""Rows of records without a value (tombstones), where a column holds what the records' keys say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from borealis_py.ingress.formats.base import FormatRows, decoded
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.types.spelling import parse_type

NO_KEY = "no value, and no key that says which row it deletes"


class KeyRows:
    """Makes a row of a key alone: its column, and null in all others.

    A key is UTF-8: of a string column the text itself, or a JSON string; of another one its value in JSON.
    """

    def __init__(self, columns: Mapping[str, str], key: str) -> None:
        self._form = JsonFormat(columns)
        self._key, self._text = key, parse_type(columns[key]).kind == "string"

    def rows(self, keys: Sequence[bytes | None]) -> FormatRows:
        """Decode keys together. A bad one costs only itself, and never raises."""
        there = [i for i, key in enumerate(keys) if key]
        objects, spelt, unspelt = decoded(self._object, lambda _: "it is not UTF-8", [keys[i] or b"" for i in there])
        rows, at, bad = self._form.rows(objects)
        wrong = {there[i]: reason for i, reason in unspelt.items()} | {there[spelt[i]]: reason for i, reason in bad}
        told = [(i, f"no value, and its key is no {self._key!r}: {reason}") for i, reason in wrong.items()]
        told += [(i, NO_KEY) for i, key in enumerate(keys) if not key]
        return FormatRows(rows, [there[spelt[i]] for i in at], sorted(told))

    def _object(self, key: bytes) -> bytes:
        try:
            value = msgspec.json.decode(key)  # one value: a key must not bring columns of its own
        except (msgspec.MsgspecError, RecursionError):
            return msgspec.json.encode({self._key: key.decode()})
        if self._text and not isinstance(value, str):
            return msgspec.json.encode({self._key: key.decode()})
        return msgspec.json.encode({self._key: msgspec.Raw(key)})
