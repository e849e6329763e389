"""JSON objects that name a field twice: `{"a":1,"a":2}`. Decoders take the last value, the engine's functions the
first, and readers of a copied text whichever they like; so such an object is none. Knows no Arrow and no engine.

JSON decoders do not tell. A look at each object's names in Python would take longer than all the rest, so it is taken
only where the number of colons allows for a repetition: each field has one, and those in values can be counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_any = msgspec.json.Decoder().decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_FEW = 8
"""Up to so many names are counted in all objects at once: a scan for each. Of more, each object is decoded again."""
_SHOWN = 40
"""How much of a name or a value a reason shows."""


class Names:
    """Checks objects for repetitions of these fields; others are ignored, as decoders ignore them. `inner`: of objects
    that are fields, theirs."""

    def __init__(self, names: Sequence[str], inner: Mapping[str, Names] = MappingProxyType({})) -> None:
        self._inner = inner
        self._names = frozenset(names)
        written = [_encode(name) for name in names]
        one_way = not any(b"/" in name or b"\\" in name for name in written)
        self._written = written if one_way and len(names) <= _FEW else []
        self._colons = len(names) if ":" not in "".join(names) else -1  # -1: no count is sure

    def perhaps(self, text: bytes, objects: int, inside: Callable[[], int]) -> bool:
        """Whether one of so many objects in a text, each with all of the fields, may repeat one; False is sure.

        Args:
            inside: how many colons there are in their values.
        """
        more = text.count(b":") - objects * self._colons
        return more != 0 and (b"\\u" in text or more != inside())  # else there is one of each, and nothing else

    def suspects(self, texts: Sequence[bytes], rows: Sequence[tuple[object, ...]]) -> Iterable[int]:
        """Which of these objects may repeat a field, of which these values were decoded: null where there is none."""
        if self._inner:
            return (at for at, text in enumerate(texts) if _whole_lossy(text))
        together, count = b"\n".join(texts), len(texts)
        if together.count(b":") == count * self._colons and None not in chain.from_iterable(rows):
            return ()
        if self._written and b"\\u" not in together:
            columns = zip(self._written, zip(*rows, strict=True), strict=True)
            if all(together.count(name) == count - values.count(None) for name, values in columns):
                return ()  # each value has its name, and there are no more of them
        return (at for at, (text, row) in enumerate(zip(texts, rows, strict=True)) if self._suspect(text, row))

    def _suspect(self, text: bytes, row: tuple[object, ...]) -> bool:
        return text.count(b":") + row.count(None) != self._colons and _extra(text)

    def repeated(self, text: bytes) -> str | None:
        """Why an object is none; None: it repeats none of the fields, or is no JSON object."""
        if not self._inner and not _extra(text):
            return None
        pairs = _pairs(text)
        return None if pairs is None else self._twice(pairs)

    def _twice(self, pairs: _Pairs) -> str | None:
        if (why := _twice([pair for pair in pairs if pair[0] in self._names])) is not None:
            return why
        inner = ((self._inner[name], value) for name, value in pairs if name in self._inner)
        return next((why for names, value in inner if isinstance(value, _Pairs) and (why := names._twice(value))), None)


def repeated_within(text: bytes, value: object) -> str | None:
    """Why JSON is none, of which `value` was decoded: an object in it, however deep, repeats a field; None: none
    does."""
    if not _lossy(text, value):
        return None
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        if (why := _twice(pairs)) is not None:
            found.append(why)

    try:
        json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    return found[0] if found else None


def _lossy(text: bytes, value: object) -> bool:
    """Whether decoding this value of a text lost, or may have lost, a field."""
    colons = text.count(b":")
    return colons > 1 and (b"\\u" in text or _encode(value).count(b":") != colons)


def _whole_lossy(text: bytes) -> bool:
    try:
        return _lossy(text, _any(text))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):  # in a field that is ignored
        return True


def _extra(text: bytes) -> bool:
    """Whether an object has, or may have, more fields than different names."""
    if b"\\u" in text:  # a colon may be written so
        return True
    try:
        fields = _fields(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True
    inside = b"".join(fields.values()).count(b":") + "".join(fields).count(":")
    return text.count(b":") != len(fields) + inside


def _pairs(text: bytes) -> _Pairs | None:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    return pairs if isinstance(pairs, _Pairs) else None


class _Pairs(list[tuple[str, Any]]):
    """An object's fields, to tell it from an array."""


def _twice(pairs: Sequence[tuple[str, Any]]) -> str | None:
    known: dict[str, Any] = {}
    for name, value in pairs:
        if name in known:
            return (
                f"field {_short(name)!r} is there twice, with {_shown(known[name])} and {_shown(value)}, and nothing "
                "says which one counts: write each field once"
            )
        known[name] = value
    return None


def _shown(value: object) -> str:
    if isinstance(value, _Pairs):
        return "an object"
    return _short(repr(value) if isinstance(value, list) else str(value))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
