"""Columns that records' keys hold, as producers of Kafka write keys: for records with a value and for tombstones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from reprlib import repr as short
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.ingress.formats.base import NO_PATHS, FormatRows, ImmediateFormat, Paths, decoded
from borealis_py.ingress.formats.delimited import text_fit
from borealis_py.ingress.formats.fits import rows_of
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.registered import HEAD, is_framed, unframed
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import Misfit

NO_KEY = "no value, and no key, which names the row that it deletes"
INT_BYTES = (2, 4, 8)
"""What Kafka's serializers of a short, an int and a long write."""
OTHER_KEYS = "where keys mean something else, leave key= out, and read a table as app.topic(...).table(...)"
_ENVELOPE = {"schema", "payload"}
"""What Kafka Connect's JSON converter puts around a key."""


class KeyFormat(Protocol):
    """Reads keys as rows of the key's columns. See `RecordFormat`."""

    def rows(self, values: Sequence[bytes]) -> FormatRows: ...

    def ready(self, values: Sequence[bytes | None]) -> int: ...

    def waits_for(self) -> str: ...


class RecordKeys:
    """Puts what keys hold into the rows of their records.

    Where key and value both hold a column they must agree, and one of them must hold it; else the record is bad.

    Args:
        columns: of the topic. key: those of them that keys hold. form: reads keys as rows of these.
    """

    def __init__(self, columns: Mapping[str, str], key: Sequence[str], form: KeyFormat) -> None:
        self._schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._key = tuple(key)
        self._form = form
        self.columns = frozenset(key)
        """Those that keys hold."""
        self._names = " and ".join(map(repr, self._key))
        self.ready = form.ready
        self.waits_for = form.waits_for

    def filled(self, found: FormatRows, keys: Sequence[bytes | None]) -> FormatRows:
        """The rows of values with what keys add. `keys`: of all the values from which `found` was made."""
        at = np.asarray(found.at, np.int64)
        mine = [keys[i] for i in found.at]
        there = [j for j, key in enumerate(mine) if key is not None]
        rows, of, wrong = self._form.rows([key for key in mine if key is not None])
        place = np.full(len(mine), -1, np.int64)
        place[np.asarray(there, np.int64)[np.asarray(of, np.int64)]] = np.arange(len(of))
        index = pa.array(place, mask=place < 0)
        bad = {there[j]: f"malformed: its key is no {self._names}: {reason}; {OTHER_KEYS}" for j, reason in wrong}
        columns = dict(zip(found.rows.schema.names, found.rows.columns, strict=True))
        for name in self._key:
            kind = columns[name].type
            value, key = _plain(columns[name]), _plain(rows.column(name)).take(index)
            filled = pc.coalesce(value, key)
            columns[name] = filled if filled.type == kind else pa.ExtensionArray.from_storage(kind, filled)
            for j in _where(pc.not_equal(value, key)):
                ours, theirs = short(key[j].as_py()), short(value[j].as_py())
                bad.setdefault(
                    j, f"malformed: its key holds {name} = {ours}, its value {name} = {theirs}; {OTHER_KEYS}"
                )
            for j in _where(columns[name].is_null()):
                bad.setdefault(j, f"malformed: neither its key nor its value holds {name!r}")
        whole = pa.RecordBatch.from_arrays(list(columns.values()), schema=found.rows.schema)
        told = sorted([*found.bad, *((int(at[j]), reason) for j, reason in bad.items())])
        if not bad:
            return FormatRows(whole, found.at, told)
        good = np.ones(len(at), np.bool_)
        good[list(bad)] = False
        return FormatRows(whole.filter(pa.array(good)), at[good].tolist(), told)

    def alone(self, keys: Sequence[bytes | None]) -> FormatRows:
        """The rows of records without a value: what their keys hold, and null in all other columns."""
        there = [i for i, key in enumerate(keys) if key is not None]
        rows, of, wrong = self._form.rows([key for key in keys if key is not None])
        null = reduce(np.logical_or, (_mask(rows.column(name).is_null()) for name in self._key))
        bad = {there[j]: reason for j, reason in wrong}
        bad |= {there[of[j]]: "it does not hold it" for j in np.flatnonzero(null).tolist()}
        told = [(i, f"no value, and its key is no {self._names}: {reason}") for i, reason in bad.items()]
        told += [(i, NO_KEY) for i, key in enumerate(keys) if key is None]
        good = rows.filter(pa.array(~null))
        held = dict(zip(good.schema.names, good.columns, strict=True))
        whole = [held[f.name] if f.name in held else pa.nulls(good.num_rows, f.type) for f in self._schema]
        at = [there[of[j]] for j in np.flatnonzero(~null).tolist()]
        return FormatRows(pa.RecordBatch.from_arrays(whole, schema=self._schema), at, sorted(told))


def _plain(column: pa.Array) -> pa.Array:
    """Of an extension type (json) what Arrow computes with."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _mask(found: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(found.fill_null(False), np.bool_)


def _where(found: pa.Array) -> list[int]:
    return np.flatnonzero(_mask(found)).tolist()


class JsonKeys(ImmediateFormat):
    """A key is JSON: an object with the columns, as Kafka Connect writes it too, or the value of the only column.

    Args:
        fields: of columns that are not the field of their name.
        or_text: of an only column that is a string, any other key is the text itself.
        framed: the id of a schema stands before it, as the serializers of JSON Schema write it.
    """

    def __init__(
        self, columns: Mapping[str, str], fields: Paths = NO_PATHS, or_text: bool = False, framed: bool = False
    ) -> None:
        self._form = JsonFormat(columns, fields)
        self._names = [fields.get(name, (name,))[0] for name in columns]
        self._alone = self._names[0] if len(columns) == 1 else None
        self._kind = parse_type(next(iter(columns.values()))).kind
        self._text = or_text and self._alone is not None and self._kind == "string"
        self._framed = framed

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        objects, spelt, unspelt = decoded(self._object, _reason, values)
        rows, at, bad = self._form.rows(objects)
        wrong = [*unspelt.items(), *((spelt[i], reason) for i, reason in bad)]
        return FormatRows(rows, [spelt[i] for i in at], sorted(wrong))

    def _object(self, key: bytes) -> bytes:
        """The key as an object with the columns."""
        if not self._framed:
            return self._of_json(key)
        if not is_framed(key[:HEAD]):
            raise Misfit(unframed(key[:HEAD]))
        return self._of_json(key[HEAD:])

    def _of_json(self, key: bytes) -> bytes:
        try:
            value = msgspec.json.decode(key)  # one value: a key must not bring columns of its own
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            if not self._text:
                raise
            return self._of_text(key)
        if isinstance(value, dict) and not (self._alone is not None and self._kind == "json"):
            return self._of_object(key, value)
        if self._alone is None:
            raise Misfit("it is no JSON object")
        if self._text and not isinstance(value, str):
            return self._of_text(key)
        return msgspec.json.encode({self._alone: msgspec.Raw(key)})

    def _of_object(self, key: bytes, value: Mapping[str, object]) -> bytes:
        if value.keys() == _ENVELOPE and not _ENVELOPE & set(self._names):
            return self._of_json(bytes(msgspec.json.decode(key, type=dict[str, msgspec.Raw])["payload"]))
        absent = [name for name in self._names if name not in value]
        if absent:
            raise Misfit(f"it is an object without {', '.join(absent)}; it has {short(', '.join(value))}")
        return key

    def _of_text(self, key: bytes) -> bytes:
        if key[:1] == b"\0":
            raise Misfit("it begins with a zero byte, so it is no text; name its form with key_format=")
        return msgspec.json.encode({self._alone: key.decode()})


class TextKeys(ImmediateFormat):
    """A key is the UTF-8 text of the only column, whatever it looks like."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        [(self._name, kind)] = columns.items()
        self._schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._string = parse_type(kind).kind == "string"
        self._fit = text_fit(kind)

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        texts, at, bad = decoded(bytes.decode, _reason, values)
        if self._string:
            rows = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=self._schema)
            return FormatRows(rows, at, sorted(bad.items()))
        return rows_of(self._schema, {self._name: self._fit}, [texts], at, bad)


class IntKeys(ImmediateFormat):
    """A key is a big-endian signed integer, as Kafka's serializers of a short, an int and a long write it."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._schema: pa.Schema = segment_schema(columns).remove(len(columns))

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        numbers, at, bad = decoded(_int, _reason, values)
        rows = pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], schema=self._schema)
        return FormatRows(rows, at, sorted(bad.items()))


def _int(key: bytes) -> int:
    if len(key) not in INT_BYTES:
        raise Misfit(f"it has {len(key)} bytes; an integer of Kafka's serializers has 2, 4 or 8")
    return int.from_bytes(key, signed=True)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(error) if isinstance(error, Misfit) else f"not JSON: {error}"
