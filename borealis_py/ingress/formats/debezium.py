"""Debezium's change events as JSON: a row's values after the change are the row, of a delete those before it."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from borealis_py.engine.rows import segment_schema
from borealis_py.ingress.formats.base import FormatRows, ImmediateFormat
from borealis_py.types.arrow import array
from borealis_py.types.plain_json import PlainDecoder

_NULL = msgspec.Raw(b"null")
AFTER, DELETE = ("c", "u", "r"), "d"
"""Operations whose row is `after`: create, update, read (of a snapshot); and the one whose row is `before`."""


class _Envelope(msgspec.Struct, gc=False):
    """A change, or a `payload` that is one: Kafka Connect puts its schema beside it unless it is told not to."""

    payload: msgspec.Raw = _NULL
    op: str = ""
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL


_decode = msgspec.json.Decoder(_Envelope).decode
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class DebeziumFormat(ImmediateFormat):
    """Reads rows by `columns` as `JsonFormat` does.

    Args:
        op: the column that takes the operation; deletes are rows then. None: they are dead letters.
    """

    tombstone = ""
    """It follows a delete, for compaction, and says nothing new."""

    def __init__(self, columns: Mapping[str, str], op: str | None) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._op = op
        self._names = [name for name in columns if name != op]
        self._decoder = PlainDecoder({name: columns[name] for name in self._names})

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        bad: dict[int, str] = {}
        at, ops, states = [], [], []
        for i, value in enumerate(values):
            change = self._change(value)
            if isinstance(change, str) and value.startswith(BOM_UTF8):
                change = self._change(value.removeprefix(BOM_UTF8))
            if isinstance(change, str):
                bad[i] = change
                continue
            at.append(i)
            ops.append(change[0])
            states.append(change[1])
        found = self._decoder.rows(states)
        bad |= {at[k]: row for k, row in enumerate(found) if isinstance(row, str)}
        good = [k for k, row in enumerate(found) if not isinstance(row, str)]
        columns = dict(zip(self._names, zip(*(found[k] for k in good), strict=True), strict=True)) if good else {}
        told: Mapping[str, Sequence[object]] = {**columns, **({self._op: [ops[k] for k in good]} if self._op else {})}
        arrays = [array(told.get(field.name, ()), field.type) for field in self.schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return FormatRows(rows, [at[k] for k in good], sorted(bad.items()))

    def _change(self, value: bytes) -> tuple[str, bytes] | str:
        """The operation, and the row as JSON; or why there is none."""
        try:
            event = _decode(value)
            if bytes(event.payload) != b"null":
                event = _decode(event.payload)
        except _BAD as exc:
            return f"not a change event: {exc}"
        if event.op == DELETE and self._op is None:
            return "a delete: name a column with op= to have deletes as rows"
        if event.op != DELETE and event.op not in AFTER:
            return f"not a change event: {f'its op is {event.op[:20]!r}' if event.op else 'it has no op'}"
        where = "before" if event.op == DELETE else "after"
        state = bytes(getattr(event, where))
        return f"a change with op {event.op!r} without `{where}`" if state == b"null" else (event.op, state)
