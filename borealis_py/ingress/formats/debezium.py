"""Debezium's change events as JSON: a row's values after the change are the row, of a delete those before it.

What a value is, Kafka Connect's schema in the record says. Without one, text that may be two things is none.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.ingress.formats.base import NO_PATHS, FormatRows, JsonFields, Paths, names_in
from borealis_py.ingress.formats.connect_schema import ConnectType, Reading, reading, row_types
from borealis_py.types.arrow import array
from borealis_py.types.plain_json import PlainDecoder
from borealis_py.types.repeated import Names
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import Misfit

_NULL = msgspec.Raw(b"null")
AFTER, DELETE = ("c", "u", "r"), "d"
"""Operations whose row is `after`: create, update, read (of a snapshot); and the one whose row is `before`."""
SCHEMAS_MAX = 100
"""Schemas that are remembered: a topic has one, and another one after each change of its table."""


class _Envelope(msgspec.Struct, gc=False):
    """A change, or a `payload` that is one: Kafka Connect puts its schema beside it unless it is told not to."""

    schema: msgspec.Raw = _NULL
    payload: msgspec.Raw = _NULL
    op: str = ""
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL


class _Change(NamedTuple):
    """A row as JSON, the operation, and of what field it is by which schema (`null`: by none)."""

    op: str
    state: bytes
    where: str
    schema: bytes


_decode = msgspec.json.Decoder(_Envelope).decode
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_ONCE = Names(["schema", "payload", "op", "before", "after"])
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class DebeziumFormat(JsonFields):
    """Reads rows by `columns` as `JsonFormat` does.

    Args:
        op: the column that takes the operation; deletes are rows then. None: they are dead letters.
        decimals: what text in decimal columns is where no schema in the record tells: "text", the number; or "base64",
            bytes with as many digits after the point as the column has. None: text that may be base64 is a dead letter.
    """

    tombstone = ""
    """It follows a delete, for compaction, and says nothing new."""

    def __init__(
        self, columns: Mapping[str, str], op: str | None, decimals: str | None = None, paths: Paths = NO_PATHS
    ) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._op = op
        self._decimals = decimals
        self._names = [name for name in columns if name != op]
        self._types = {name: parse_type(columns[name]) for name in self._names}
        self._paths = {name: tuple(paths.get(name, (name,))) for name in self._names}
        self._decoder = PlainDecoder({name: columns[name] for name in self._names}, self._paths)
        self._flat = PlainDecoder({name: columns[name] for name in self._names})
        """Of rows that `_told` has made."""
        self._readings: dict[tuple[bytes, str], dict[str, Reading]] = {}

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        bad: dict[int, str] = {}
        at, ops, states = [], [], []
        flat: list[bool] = []
        for i, value in enumerate(values):
            change = self._change(value)
            if isinstance(change, str) and value.startswith(BOM_UTF8):
                change = self._change(value.removeprefix(BOM_UTF8))
            if isinstance(change, str):
                bad[i] = change
                continue
            try:
                state = self._told(change)
            except Misfit as exc:
                bad[i] = str(exc)
                continue
            at.append(i)
            ops.append(change.op)
            flat.append(state is not None)
            states.append(change.state if state is None else state)
        found = self._decoded(states, flat)
        bad |= {at[k]: row for k, row in enumerate(found) if isinstance(row, str)}
        good = [k for k, row in enumerate(found) if not isinstance(row, str)]
        columns = dict(zip(self._names, zip(*(found[k] for k in good), strict=True), strict=True)) if good else {}
        told: Mapping[str, Sequence[object]] = {**columns, **({self._op: [ops[k] for k in good]} if self._op else {})}
        arrays = [array(told.get(field.name, ()), field.type) for field in self.schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return FormatRows(rows, [at[k] for k in good], sorted(bad.items()))

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        change = self._change(value.removeprefix(BOM_UTF8))
        return () if isinstance(change, str) else names_in(change.state, within)

    def _decoded(self, states: Sequence[bytes], flat: Sequence[bool]) -> list[tuple[object, ...] | str]:
        """The row of each state, or why there is none. `flat`: whether `_told` has made it."""
        if all(flat):
            return self._flat.rows(states)
        if not any(flat):
            return self._decoder.rows(states)
        return [(self._flat if own else self._decoder).row(one) for one, own in zip(states, flat, strict=True)]

    def _told(self, change: _Change) -> bytes | None:
        """An object with the columns by their names, whose values are as they read them; None: the row is that, or
        none. Each column has a form of its own: another one may be an object with this field in it. Raises Misfit."""
        readings = self._readings_by(change.schema, change.where)
        if not readings:
            return None
        if (why := self._decoder.repeated(change.state)) is not None:
            raise Misfit(why)
        found = {}
        objects: dict[tuple[str, ...], dict[str, msgspec.Raw] | None] = {}
        try:
            objects[()] = _parts(change.state)
            for name, path in self._paths.items():
                raw = _at(objects, path)
                if raw is not None:
                    found[name] = raw
        except _BAD:
            return None  # the decoder says what is wrong with it
        for name, read in readings.items():
            if name in found:
                try:
                    found[name] = read(found[name])
                except Misfit as exc:
                    raise Misfit(f"column {name!r}: {exc}") from None
        encoded: bytes = _encode(found)
        return encoded

    def _readings_by(self, schema: bytes, where: str) -> dict[str, Reading]:
        found = self._readings.get((schema, where))
        if found is None:
            types = row_types(schema, where)
            found = {}
            for name, type_ in self._types.items():
                scale = type_.scale if self._decimals == "base64" else None
                told = _type_at(types, self._paths[name])
                if told is None and type_.kind == "decimal" and self._decimals == "text":
                    continue
                if (read := reading(type_.kind, told, scale)) is not None:
                    found[name] = read
            if len(self._readings) == SCHEMAS_MAX:
                self._readings.clear()
            self._readings[schema, where] = found
        return found

    def _change(self, value: bytes) -> _Change | str:
        """The operation, and the row as JSON; or why there is none."""
        try:
            event, schema = _decode(value), b"null"
            why = _ONCE.repeated(value)
            if bytes(event.payload) != b"null":
                schema = bytes(event.schema)
                why = why or _ONCE.repeated(bytes(event.payload))
                event = _decode(event.payload)
        except _BAD as exc:
            return f"not a change event: {exc}"
        if why is not None:
            return f"not a change event: {why}"
        if event.op == DELETE and self._op is None:
            return "a delete: name a column with Debezium(op=...) to have deletes as rows"
        if event.op != DELETE and event.op not in AFTER:
            return f"not a change event: {f'its op is {event.op[:20]!r}' if event.op else 'it has no op'}"
        where = "before" if event.op == DELETE else "after"
        state = bytes(getattr(event, where))
        return (
            f"a change with op {event.op!r} without `{where}`"
            if state == b"null"
            else _Change(event.op, state, where, schema)
        )


def _type_at(types: Mapping[str, ConnectType], path: Sequence[str]) -> ConnectType | None:
    """What the field at the end of these names is; None: the schema does not say it."""
    found = types.get(path[0])
    for name in path[1:]:
        if found is None:
            break
        found = found.fields.get(name, found.items if found.kind == "map" else None)
    return found


def _at(objects: dict[tuple[str, ...], dict[str, msgspec.Raw] | None], path: tuple[str, ...]) -> msgspec.Raw | None:
    """The value at the end of these names; None: it is null, or is missing.

    Args:
        objects: those that were parsed, with what leads to each; None: there is none. At least the outermost.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: what is on the way is no object.
    """
    *outer, name = path
    within = tuple(outer)
    if within not in objects:
        inner = _at(objects, within)
        objects[within] = None if inner is None else _parts(inner)
    found = (objects[within] or {}).get(name, _NULL)
    return None if bytes(found) == b"null" else found
