"""What an ingress asks of a format, whatever it is."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

T = TypeVar("T")
_NULL = msgspec.Raw(b"null")
_objects = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
Paths = Mapping[str, Sequence[str]]
"""Of columns that are not the field of their name, the names that lead to their field, each in the object before."""
NO_PATHS: Paths = MappingProxyType({})
NO_ROW = "no value: a tombstone is no row"


class FormatRows(NamedTuple):
    """What a format makes of some values: `rows`, the position of each row's value (`at`, ascending), and (position,
    reason) of each value that is no row (`bad`, ascending). A value in neither says nothing, and is passed over."""

    rows: pa.RecordBatch
    at: Sequence[int]
    bad: list[tuple[int, str]]


def decoded(
    decode: Callable[[bytes], T], reason: Callable[[Exception], str], values: Sequence[bytes]
) -> tuple[list[T], Sequence[int], dict[int, str]]:
    """The values that can be decoded, their positions, and by position why the others cannot (`reason`)."""
    try:
        return list(map(decode, values)), range(len(values)), {}
    except Exception:  # one of them: which one, and why?
        good: dict[int, T] = {}
        bad: dict[int, str] = {}
    for i, value in enumerate(values):
        try:
            good[i] = decode(value)
        except Exception as exc:  # decoders of foreign bytes raise what happens
            bad[i] = reason(exc)
    return list(good.values()), list(good), bad


def together(parts: Sequence[tuple[Sequence[int], FormatRows]], schema: pa.Schema) -> FormatRows:
    """What groups of values have made, in the order of all values. Each part: the positions of its values, its rows."""
    bad = sorted((own[i], reason) for own, part in parts for i, reason in part.bad)
    if len(parts) == 1:
        own, part = parts[0]
        return FormatRows(part.rows, np.asarray(own, np.int64)[np.asarray(part.at, np.int64)].tolist(), bad)
    if not parts:
        return FormatRows(pa.RecordBatch.from_pylist([], schema), [], bad)
    at = np.concatenate([np.asarray(own, np.int64)[np.asarray(part.at, np.int64)] for own, part in parts])
    order = np.argsort(at)
    rows = pa.concat_batches([part.rows for _, part in parts]).take(pa.array(order))
    return FormatRows(rows, at[order].tolist(), bad)


class RecordFormat(Protocol):
    """How a topic's values say rows. The same bytes give the same rows in every process."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""

    @property
    def tombstone(self) -> str:
        """Why a record without a value is no row; "": it says nothing, and is passed over."""

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """Decode values together, of which all are ready. A bad one costs only itself, and never raises."""

    def ready(self, values: Sequence[bytes | None]) -> int:
        """How many of the first values can be decoded now. What the others need is being asked for. Never waits."""

    def waits_for(self) -> str:
        """What the first value that is not ready waits for, for people; "": none does."""

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """Names of the fields of a value, be they null; none, where it is no row.

        Args:
            within: names that lead to an object in it: of this one the fields. None: it is null.
        """

    def has(self, values: Sequence[bytes], columns: Paths) -> set[str]:
        """Those of the columns whose fields are in some of the values. `columns`: column -> the way to its field."""


class ImmediateFormat:
    """What formats share that need nothing but the values."""

    tombstone = NO_ROW
    """See `RecordFormat.tombstone`."""

    def ready(self, values: Sequence[bytes | None]) -> int:
        """All of them."""
        return len(values)

    def waits_for(self) -> str:
        """Nothing."""
        return ""

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        return ()

    def has(self, values: Sequence[bytes], columns: Paths) -> set[str]:
        """See `RecordFormat.has`."""
        found: set[str] = set()
        for value in values:
            if len(found) == len(columns):
                break
            walk = FieldWalk(self, value)
            found |= {name for name, path in columns.items() if name not in found and walk.along(path) is Walked.FOUND}
        return found


class Walked(Enum):
    """What is at the end of the way to a field."""

    FOUND = "found"
    NULL = "null"
    """An object on the way is null: it could have had the field."""


class _HasFields(Protocol):
    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None: ...


class FieldWalk:
    """Ways to fields in one value; each object on them is looked at once."""

    def __init__(self, form: _HasFields, value: bytes) -> None:
        self._form = form
        self._value = value
        self.objects: dict[tuple[str, ...], Collection[str] | None] = {}
        """The names in each object that was looked at."""

    def along(self, path: Sequence[str]) -> Walked | int:
        """What is at the end of these names; or how many of them lead to an object without the next one."""
        for depth, name in enumerate(path):
            within = tuple(path[:depth])
            if within not in self.objects:
                self.objects[within] = self._form.fields(self._value, within)
            names = self.objects[within]
            if names is None:
                return Walked.NULL
            if name not in names:
                return depth
        return Walked.FOUND


class JsonFields(ImmediateFormat):
    """What formats share whose values have the names of their fields as JSON has them."""

    def has(self, values: Sequence[bytes], columns: Paths) -> set[str]:
        """See `RecordFormat.has`. Values that do not hold a field's name anywhere are not parsed. A name may be written
        with escapes, so those with any are."""
        whole = b"\n".join(values)  # looking through it at once is many times as fast as through each
        words = {path[-1].encode(errors="surrogatepass") for path in columns.values()}
        sought = [word for word in (*words, b"\\") if word in whole]
        if not sought:
            return set()
        return super().has([value for value in values if any(word in value for word in sought)], columns)


def names_in(value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
    """The names in the JSON object at the end of some names; none, where that is no object. None: it is null."""
    try:
        found = _objects(value.removeprefix(BOM_UTF8))
        for name in within:
            inner = found.get(name, _NULL)
            if bytes(inner) == b"null":
                return None
            found = _objects(inner)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    return found
