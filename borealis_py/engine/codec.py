"""Encodes rows: a source's as JSON or Arrow, results as Arrow and JSON, state for checkpoints.

Implements `log.codec`. A bad row costs only that row, and the reason names the field; it never costs the query, nor its
neighbours as long as the payload as a whole is a JSON array.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.engine.arrow.ipc import Unclaimed, claims, spell
from borealis_py.engine.arrow.rows import Parsed, row_sizes, segment_schema
from borealis_py.engine.operators.increments import Partial, PartIncrement, StatePart
from borealis_py.engine.sql.checks import NESTING_MAX
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.query.names import STIME
from borealis_py.types.arrow import misfits, said, shown
from borealis_py.types.explained import undecoded
from borealis_py.types.ill_formed import ill_formed
from borealis_py.types.nulls import zero_nulls
from borealis_py.types.repeated import Names
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import WIRE, Misfit, nesting, ruled

_BAD = (msgspec.DecodeError, UnicodeDecodeError)  # the latter is not a msgspec error; UTF-8 is checked late
_FILL = 0.9
"""Target fill of a part whose rows differ in size."""
PUBLISHED_ROWS = 5_000
"""This many rows take about 5 ms to convert to JSON."""
BATCH_ROWS_MAX = 64
"""An Arrow batch may take as much memory as this many rows of the maximum size."""

_WITH_COLONS = ("string", "timestamp", "json")
"""Types of which a value may have colons in JSON."""

Bad = tuple[int, str, bytes]
T = TypeVar("T")

_SHOWN = 60
"""How much of a value a reason shows."""
_WANTED = {"string": "a string", "int64": "a whole number of 64 bits", "double": "a number", "bool": "true or false"}
"""What to send for a column of a type; of the others their normal form."""

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode


class ArrowSourceCodec:
    """Rows of one source.

    JSON: an array of objects with every column of the schema, each once. Values may be null; fields may not be missing;
    extra fields are ignored; 1.5 or "1" is not an int64, 1 is a valid double; decimals, times, binary and json are in
    their normal form (`types.values`). Arrow: an IPC stream with one batch of exactly these columns; text in UTF-8.

    Args:
        row_max_bytes: limit of a row's size: of its JSON object, or in Arrow as `engine.arrow.rows.row_sizes` counts.
            Larger rows are bad. All readers of the source must use the same limit.
    """

    def __init__(self, source: str, columns: Mapping[str, str], row_max_bytes: int = ROW_MAX_BYTES) -> None:
        self.source = source
        self._row_max = row_max_bytes
        self.schema = segment_schema(columns)
        self._columns = self.schema.remove(len(columns))
        # f0, f1, ...: a column's name may be invalid as a Python attribute
        fields = [(f"f{i}", _field(kind)) for i, kind in enumerate(columns.values())]
        rename = {f"f{i}": name for i, name in enumerate(columns)}
        self._ruled = [(f"f{i}", name, rule) for i, name, rule in ruled(columns)]
        row = msgspec.defstruct("Row", fields, rename=rename, gc=False)
        self._once = Names(list(columns))
        self._decode_all = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]
        self._decode_one = msgspec.json.Decoder(row).decode
        self._kinds = {name: parse_type(kind).kind for name, kind in columns.items()}
        self._texts = [attrgetter(f"f{i}") for i, kind in enumerate(self._kinds.values()) if kind in _WITH_COLONS]
        self._getters = [attrgetter(name) for name, _ in fields]

    def decode(
        self, payload: bytes, encoding: str, stimes: Sequence[int]
    ) -> tuple[pa.RecordBatch | Parsed | None, list[Bad]]:
        """`log.codec.SourceCodec`: the valid rows (None: none), and (position, reason, raw) of the bad ones."""
        if encoding == "json":
            return self._json(payload, stimes)
        if encoding == "arrow":
            return self._arrow(payload, stimes)
        return _nothing(payload, f"encoding {encoding!r} is neither json nor arrow: send one of these")

    def encode(self, rows: pa.RecordBatch) -> bytes:
        """Rows as an Arrow payload; stime is stored in the record's header."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._columns) as writer:
            writer.write_batch(rows.select(self._columns.names))
        return bytes(sink.getvalue())

    def _json(self, payload: bytes, stimes: Sequence[int]) -> tuple[Parsed | None, list[Bad]]:
        if _deep(payload, len(stimes)):
            return _nothing(payload, f"nested more than {NESTING_MAX} levels deep: send what is deeper as text")
        if len(payload) > self._row_max:
            return self._json_one_by_one(payload, stimes)
        try:
            rows = self._decode_all(payload)
        except _BAD:
            return self._json_one_by_one(payload, stimes)
        if len(rows) != len(stimes):
            return _nothing(payload, _unlike(len(rows), len(stimes)))
        if self._once.perhaps(payload, len(rows), lambda: self._colons(rows)) and any(
            map(self._once.repeated, map(bytes, _decode_raws(payload)))
        ):
            return self._json_one_by_one(payload, stimes)
        if self._ruled and not all(self._read(row) is None for row in rows):
            return self._json_one_by_one(payload, stimes)
        return self._parsed(rows, stimes), []

    def _colons(self, rows: list[Any]) -> int:
        """How many colons there are in the rows' values."""
        values = [value for get in self._texts for value in map(get, rows) if value is not None]
        texts = [value if isinstance(value, str) else bytes(value).decode(errors="replace") for value in values]
        return "".join(texts).count(":")

    def _read(self, row: Any) -> str | None:
        """Replace the normal forms in a row by values. Returns why it cannot be done; None: it was."""
        for field, name, rule in self._ruled:
            form = getattr(row, field)
            if form is not None:
                try:
                    setattr(row, field, rule.read(form))
                except Misfit as exc:
                    return f"column {name!r}: {exc}"
        return None

    def _json_one_by_one(self, payload: bytes, stimes: Sequence[int]) -> tuple[Parsed | None, list[Bad]]:
        try:
            raws = _decode_raws(payload)
        except _BAD as exc:
            return _nothing(payload, f"not a JSON array of objects: {exc}; send [{{...}}, ...], all of it")
        if len(raws) != len(stimes):
            return _nothing(payload, _unlike(len(raws), len(stimes)))
        rows, kept, bad = [], [], []
        for i, raw in enumerate(raws):
            if len(raw) > self._row_max:
                bad.append((i, self._too_large(len(raw)), bytes(raw)))
                continue
            try:
                row = self._decode_one(raw)
                why = self._once.repeated(bytes(raw)) or self._read(row)
            except _BAD as exc:
                why = self._readable(exc, raw)
            if why is None:
                rows.append(row)
                kept.append(stimes[i])
            else:
                bad.append((i, why, bytes(raw)))
        return self._parsed(rows, kept), bad

    def _parsed(self, rows: list[Any], stimes: Sequence[int]) -> Parsed | None:
        return Parsed(self.schema, self._arrays, rows, stimes) if rows else None

    def _arrays(self, rows: list[Any]) -> list[pa.Array]:
        return [
            pa.array(list(map(get, rows)), field.type) for get, field in zip(self._getters, self._columns, strict=True)
        ]

    def _arrow(self, payload: bytes, stimes: Sequence[int]) -> tuple[pa.RecordBatch | None, list[Bad]]:
        try:
            told = claims(payload, self._columns)
            count, size = sum(one.rows for one in told), sum(one.body_bytes for one in told)
            if len(told) > 1 or count != len(stimes):
                return _nothing(
                    payload,
                    f"{count} rows in {len(told)} batches but {len(stimes)} stimes in the record: send one batch, and "
                    "one stime for each of its rows",
                )
            if size > self._batch_max(count):
                return _nothing(
                    payload, f"{size} bytes decompressed, {self._batch_max(count)} may be: send fewer or smaller rows"
                )
            with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
                batch = reader.read_next_batch()
            unfit = ill_formed(batch)  # invalid offsets must not reach the engine
        except Unclaimed as exc:
            return _nothing(
                payload, f"{exc}: write it with pyarrow.ipc.new_stream, of one batch of the source's columns"
            )
        except (pa.ArrowException, OSError, EOFError, StopIteration) as exc:
            return _nothing(payload, f"not an Arrow IPC stream: {exc}: write it with pyarrow.ipc.new_stream")
        whole = pa.RecordBatch.from_arrays([*batch.columns, _stime_array(stimes)], schema=self.schema)
        if not unfit:
            return self._fitting(whole)
        places = [at for at in range(len(stimes)) if at not in unfit]
        rows, bad = self._fitting(whole.take(pa.array(places, pa.int64())))
        bad = [(places[at], why, raw) for at, why, raw in bad] + [(at, why, b"") for at, why in unfit.items()]
        return (rows if places else None), sorted(bad)

    def _fitting(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch | None, list[Bad]]:
        """The rows that are small enough and whose values are ones of their types."""
        bad: dict[int, str] = {}
        for name in (name for _, name, _ in self._ruled):
            bad |= {at: f"column {name!r}: {why}" for at, why in misfits(rows.column(name)).items() if at not in bad}
        if rows.nbytes > self._row_max:
            sizes = row_sizes(rows.select(self._columns.names))
            bad |= {int(i): self._too_large(int(sizes[i])) for i in np.flatnonzero(sizes > self._row_max)}
        if not bad:
            return rows, []
        good = [i for i in range(rows.num_rows) if i not in bad]
        return (rows.take(pa.array(good)) if good else None), [(i, bad[i], b"") for i in sorted(bad)]

    def _batch_max(self, rows: int) -> int:
        """Maximum size in bytes of an Arrow batch of this many rows: rows of the maximum size, plus alignment."""
        columns = len(self._columns)
        return min(rows, BATCH_ROWS_MAX) * (self._row_max + 16 * columns) + 256 * columns

    def _too_large(self, size: int) -> str:
        return f"a row of {size} bytes, row_max is {self._row_max}: send less in it, or raise `timing: row_max`"

    def _readable(self, error: Exception, raw: bytes) -> str:
        """msgspec's message with the column named first, its value, and what to send: "... - at `$.x`" becomes
        "column 'x': ..."."""
        if why := undecoded(bytes(raw)):
            return f"{why}: send text in UTF-8"
        text, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        if name not in self._kinds:
            return f"{text}: send an object with every column, null where there is no value"
        try:
            value = bytes(_decode_fields(raw)[name]).decode(errors="replace")
        except (*_BAD, KeyError):
            value = "not JSON"
        shown = value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "..."
        return (
            f"column {name!r}: {text}; it is {shown}: send {_WANTED.get(self._kinds[name], 'text in its normal form')}"
        )


class ArrowRowCodec:
    """Results and state. `nonfinite_as_null` counts the doubles that JSON cannot represent (NaN, infinities)."""

    def __init__(self, schema: pa.Schema, state: Sequence[StatePart]) -> None:
        self.schema = schema
        self.nonfinite_as_null = 0
        self._state = tuple(state)
        self._names = [name for name in schema.names if name != STIME]
        fields = [(f"f{i}", Any) for i in range(len(self._names))]
        rename = {f"f{i}": name for i, name in enumerate(self._names)}
        self._row = msgspec.defstruct("ResultRow", fields, rename=rename, gc=False)
        self._encode = msgspec.json.Encoder().encode

    @property
    def schema_id(self) -> str:
        """Short hash of names and types, for record headers: Arrow decodes with a wrong schema without noticing."""
        return hashlib.blake2b(spell(self.schema).encode(), digest_size=6).hexdigest()

    def encode(self, rows: pa.RecordBatch) -> bytes:
        return _alone(rows)

    def decode(self, payload: bytes) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(pa.py_buffer(payload), self.schema)

    def encode_parts(self, rows: pa.RecordBatch, bytes_max: int) -> list[bytes]:
        """Like `encode`, but split so that no part exceeds `bytes_max`; each part holds at least one row."""
        count, fits = (
            rows.num_rows,
            _FILL * bytes_max / max(1, rows.nbytes),
        )  # the true size is known only after encoding
        each = max(1, count if fits >= 1 else int(count * fits))
        parts: list[bytes] = []
        todo = [rows.slice(at, each) for at in reversed(range(0, max(1, count), each))]
        while todo:
            piece = todo.pop()
            encoded, half = self.encode(piece), piece.num_rows // 2
            if len(encoded) <= bytes_max or not half:
                parts.append(encoded)
            else:
                todo += [piece.slice(half), piece.slice(0, half)]
        return parts

    def join(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def encode_state(self, state: Sequence[Sequence[Partial]]) -> bytes:
        return msgspec.msgpack.encode([_packed(part) for part in state])

    def decode_state(self, payload: bytes) -> tuple[tuple[Partial, ...], ...]:
        """Raises ValueError for bytes that are not a state of this query."""
        parts = _state_of(payload, list[_Entries])
        self._check(len(parts))
        return tuple(_unpacked(of, part.schema) for of, part in zip(parts, self._state, strict=True))

    def encode_increment(
        self, before: Sequence[Sequence[Partial]], after: Sequence[Sequence[Partial]], since: int, end: int
    ) -> bytes:
        """`log.codec.RowCodec`."""
        made = [part.increment(b, a, since, end) for part, b, a in zip(self._state, before, after, strict=True)]
        return msgspec.msgpack.encode(
            [_Increment(of.left, _packed(of.entries), None if of.rows is None else _alone(of.rows)) for of in made]
        )

    def decode_increment(
        self, before: Sequence[Sequence[Partial]], payload: bytes, end: int
    ) -> tuple[tuple[Partial, ...], ...]:
        """`log.codec.RowCodec`. Raises ValueError for bytes that are no increment of this state."""
        parts = _state_of(payload, list[_Increment])
        self._check(len(parts))
        return tuple(part.grown(b, of.read(part), end) for of, b, part in zip(parts, before, self._state, strict=True))

    def _check(self, parts: int) -> None:
        if parts != len(self._state):
            raise ValueError(f"state of {parts} operators, the query has {len(self._state)}")

    def published(self, rows: pa.RecordBatch) -> Iterator[tuple[bytes, int]]:
        """(JSON object, stime) of each row: columns in order without stime, doubles in their shortest exact form, other
        types in their normal form (`types.values`).

        Converted in pieces: pyarrow holds the GIL while it makes Python values, and a million rows take seconds.
        """
        for start in range(0, rows.num_rows, PUBLISHED_ROWS):
            piece = rows.slice(start, PUBLISHED_ROWS)
            yield from zip(self._to_json(piece), piece.column(STIME).to_pylist(), strict=True)

    def _to_json(self, rows: pa.RecordBatch) -> list[bytes]:
        for name in self._names:
            column = rows.column(name)
            values = column.flatten() if pa.types.is_list(column.type) else column
            if pa.types.is_floating(values.type):
                finite = pc.sum(pc.is_finite(values)).as_py() or 0
                self.nonfinite_as_null += len(values) - values.null_count - finite
        columns = [said(rows.column(name)) for name in self._names]
        row, encode = self._row, self._encode
        return [encode(row(*values)) for values in zip(*columns, strict=True)]

    def to_dicts(self, rows: pa.RecordBatch) -> list[dict[str, object]]:
        """The rows as a reader of their JSON gets them, but NaN and infinities are kept."""
        columns = [shown(rows.column(name)) for name in self._names]
        return [dict(zip(self._names, values, strict=True)) for values in zip(*columns, strict=True)]


_Entries = list[tuple[int, bytes]]
"""Entries of a part of a state, by bucket, each with its rows encoded."""


class _Increment(msgspec.Struct, array_like=True, frozen=True):
    """A `PartIncrement` as stored."""

    left: tuple[tuple[int, int], ...]
    entries: _Entries
    rows: bytes | None

    def read(self, part: StatePart) -> PartIncrement:
        rows = None if self.rows is None else _batch_of(self.rows, part.row_schema)
        return PartIncrement(self.left, _unpacked(self.entries, part.schema), rows)


def _state_of(payload: bytes, kind: type[T]) -> T:
    """Raises ValueError, whatever the bytes are."""
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (*_BAD, RecursionError) as exc:
        raise ValueError(f"no state: {exc}") from exc


def _batch_of(raw: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Raises ValueError, whatever the bytes are."""
    try:
        return pa.ipc.read_record_batch(pa.py_buffer(raw), schema)
    except (pa.ArrowException, OSError) as exc:
        raise ValueError(f"no rows of a state: {exc}") from exc


def _packed(part: Sequence[Partial]) -> _Entries:
    return [(bucket, _alone(batch)) for bucket, batch in part]


def _unpacked(part: _Entries, schema: pa.Schema) -> tuple[Partial, ...]:
    return tuple((bucket, _batch_of(raw, schema)) for bucket, raw in part)


def _alone(rows: pa.RecordBatch) -> bytes:
    """Equal rows as equal bytes: nothing of a slice's neighbours is in them, nor what lay under a null."""
    return bytes(pa.concat_batches([zero_nulls(rows)]).serialize())


def _field(kind: str) -> Any:
    """What a column's value is to the JSON decoder. The null of a json column is decoded by its rules."""
    decoded = WIRE[parse_type(kind).kind]
    return decoded if decoded is msgspec.Raw else decoded | None


def _stime_array(stimes: Sequence[int]) -> pa.Array:
    return pa.array(np.asarray(stimes, dtype=np.int64))


def _nothing(payload: bytes, reason: str) -> tuple[None, list[Bad]]:
    return None, [(-1, reason, bytes(payload))]


def _unlike(rows: int, stimes: int) -> str:
    return f"{rows} rows but {stimes} stimes in the record: send one stime for each row"


def _deep(payload: bytes, rows: int) -> bool:
    """Whether a row is nested too deeply. The decoder's own limit depends on its caller's stack depth."""
    outside = NESTING_MAX + 1  # the array around the rows
    return payload.count(b"[") + payload.count(b"{") > rows + outside - 1 and nesting(payload) > outside
