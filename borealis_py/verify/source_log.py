"""What a source's log holds, by the rules of A2, read by nobody else's code.

Tuples that are late, in the future, malformed or in no envelope are dead letters, and so is what its publisher refused;
repeated and fenced ones are nothing.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from borealis_py.verify.envelope import Raw, Row, Unreadable, open_envelope
from borealis_py.verify.values import JsonText, column, from_form, ill_formed, json_text

END = 1 << 62
AHEAD_MAX_US = 60_000_000
ROW_MAX_BYTES = 1_000_000
LATENESS_MAX_US = 366 * 86_400_000_000
NUMBER_MAX = 2**53
NESTING_MAX = 100
MISSING_MAX = 1_000
_INT64 = range(-(1 << 63), 1 << 63)
_PLAIN = ("int64", "double", "string", "bool", "")


@dataclass
class SourceHistory:
    """What a source's log holds by the rules of its fold. `rows` and `seqs`: accepted tuples and their sequence
    numbers, in log order. `boundary`: all later tuples have that stime or more; None: nothing was promised. Tuples that
    do not count: `fenced`, of publishers that did not own the source; `repeated`, with a sequence number that was there
    before."""

    rows: list[Row] = field(default_factory=list)
    """Empty where only numbers were asked for."""
    seqs: MutableSequence[int] = field(default_factory=list)
    dead: Counter[int] = field(default_factory=Counter)
    """How many dead letters each offset gives."""
    dead_buckets: dict[int, int] = field(default_factory=dict)
    """The bucket that the dead letters of an offset belong to: the first that the source had not closed."""
    gone: set[int] = field(default_factory=set)
    """Sequence numbers of tuples that ended as dead letters."""
    refused: dict[int, int] = field(default_factory=dict)
    """Sequence numbers of what its publisher refused, and the offset of the record that says so."""
    boundary: int | None = None
    fenced: int = 0
    repeated: int = 0
    trimmed: bool = False
    """Its beginning was deleted: nothing of this can be known."""

    @property
    def ended(self) -> bool:
        return self.boundary is not None and self.boundary >= END

    @property
    def gaps(self) -> list[range]:
        """Sequence numbers from 0 to the last that never came."""
        others = [*self.gone, *self.refused]
        there = np.unique(np.concatenate([np.asarray(self.seqs, np.int64), np.asarray(others, np.int64)]))
        if not len(there) or len(there) == int(there[-1]) + 1:
            return []
        return [range(a + 1, b) for a, b in pairwise([-1, *there.tolist()]) if b > a + 1]

    @property
    def missing(self) -> list[int]:
        """The first of them."""
        return list(islice((n for gap in self.gaps for n in gap), MISSING_MAX))


@dataclass(frozen=True)
class SourceRules:
    """What decides which tuples count.

    Attributes:
        columns: of its tuples, in the order that rows are to have, and their types ("": not looked at).
        origin_us: start of the app's first bucket.
        bucket_us: width of a bucket.
        ahead_max_us: what is further than this and the lateness beyond the boundary is in the future.
        row_max_bytes: of a row's JSON.
    """

    columns: Mapping[str, str]
    origin_us: int
    bucket_us: int
    ahead_max_us: int = AHEAD_MAX_US
    row_max_bytes: int = ROW_MAX_BYTES


class _Claim(msgspec.Struct, array_like=True, frozen=True):
    kind: str
    epoch: int
    uid: str
    lateness_us: int = 0


class _Batch(msgspec.Struct, array_like=True, frozen=True):
    kind: str
    epoch: int
    uid: str
    first_seq: int
    stimes: bytes
    boundary: int | None
    encoding: str
    read_to: int = 0
    rejects: tuple[tuple[Any, ...], ...] = ()
    at: tuple[tuple[int, int], ...] = ()


def fold(raw: Iterable[Raw], rules: SourceRules, keep_rows: bool = True) -> SourceHistory:
    """Read a source's log from its beginning. `keep_rows`: False where only what became of the tuples is asked for."""
    reader = _Fold(rules, keep_rows)
    for record in raw:
        reader.add_record(record)
    return reader.log


class _Fold:
    """The log so far: who owns it, its last sequence number, boundary and lateness."""

    def __init__(self, rules: SourceRules, keep_rows: bool) -> None:
        self.log = SourceHistory(seqs=array("q"))
        self._rules = rules
        self._keep = keep_rows
        self._epoch = 0
        self._owner = ""
        self._last = -1
        self._lateness_us = 0
        self._boundary = rules.origin_us

    def add_record(self, record: Raw) -> None:
        """One record."""
        try:
            header, payload = open_envelope(record.value)
            if header[0] == "EPOCH":
                self._claimed(msgspec.convert(header, _Claim))
                return
            if header[0] != "TUPLES":
                raise Unreadable(f"kind {header[0]!r}")
            batch = _possible(msgspec.convert(header, _Batch))
            stimes = struct.unpack(f"<{len(batch.stimes) // 8}q", batch.stimes)
            refused = _refused(batch, len(stimes))
        except (Unreadable, msgspec.ValidationError, struct.error):
            self._dead(record.offset, 0 if self.log.ended else 1)
            return
        if not self._epoch or (batch.epoch, batch.uid) != (self._epoch, self._owner):
            self.log.fenced += len(stimes) + len(refused)
        elif not self.log.ended:
            self._batch(record.offset, batch, stimes, refused, payload)

    def _claimed(self, claim: _Claim) -> None:
        if not 0 <= claim.epoch <= NUMBER_MAX or not 0 <= claim.lateness_us <= LATENESS_MAX_US:
            raise Unreadable("a claim that cannot be")
        if claim.epoch > self._epoch:
            self._epoch, self._owner, self._lateness_us = claim.epoch, claim.uid, claim.lateness_us

    def _batch(
        self, offset: int, batch: _Batch, stimes: Sequence[int], refused: Sequence[int], payload: memoryview
    ) -> None:
        positions = range(batch.first_seq, batch.first_seq + len(stimes) + len(refused))
        gone = set(refused)
        numbers = [p for p in positions if p not in gone]
        rows = _rows(payload, batch.encoding, len(stimes), self._rules) if stimes else []
        if rows is None:
            self._dead(offset, 1)
            self.log.gone.update(n for n in numbers if n > self._last)
            rows, numbers = [], []
        said = [*zip(numbers, stimes, rows, strict=False), *((seq, 0, None) for seq in refused)]
        for seq, stime, row in sorted(said, key=lambda one: one[0]) if refused else said:
            if row is _MALFORMED:
                self._dead(offset, 1)
                self.log.gone.add(seq)
            elif seq <= self._last:
                self.log.repeated += 1
            elif row is None:
                self._dead(offset, 1)
                self.log.refused[seq] = offset
                self._last = seq
            else:
                self._tuple(offset, seq, stime, row)
        if batch.boundary is not None and batch.boundary > self._boundary:
            self._boundary = min(batch.boundary, END)
        if batch.boundary is not None:
            self.log.boundary = self._boundary

    def _tuple(self, offset: int, seq: int, stime: int, row: Row) -> None:
        late = stime < self._boundary
        if late or stime >= self._boundary + self._lateness_us + self._rules.ahead_max_us:
            self._dead(offset, 1)
            self.log.gone.add(seq)
        else:
            if self._keep:
                self.log.rows.append((*row, stime))
            self.log.seqs.append(seq)
        if not late:
            self._last = seq

    def _dead(self, offset: int, count: int) -> None:
        if count:
            self.log.dead[offset] += count
            self.log.dead_buckets[offset] = self._boundary // self._rules.bucket_us


_MALFORMED: Row = ("malformed",)
"""Stands for a row that does not fit the schema; told apart by identity."""


def _possible(batch: _Batch) -> _Batch:
    """The batch. Raises Unreadable: nobody can have counted up to a number in it."""
    numbers = [batch.epoch, batch.first_seq, *(partition for partition, _ in batch.at)]
    if batch.boundary is not None and batch.boundary != END:
        numbers.append(abs(batch.boundary))
    numbers += [offset for _, offset in batch.at if offset != -1]  # -1: none
    if not all(0 <= number <= NUMBER_MAX for number in numbers):
        raise Unreadable("numbers that cannot be")
    return batch


def _refused(batch: _Batch, tuples: int) -> list[int]:
    """Positions that the publisher refused. Raises Unreadable: they do not fit the batch."""
    found = [one[0] if one else None for one in batch.rejects]
    numbers = [seq for seq in found if isinstance(seq, int)]
    inside = range(batch.first_seq, batch.first_seq + tuples + len(found))
    if len(numbers) < len(found) or any(a >= b for a, b in pairwise(numbers)):
        raise Unreadable("rejects that cannot be")
    if numbers and (numbers[0] not in inside or numbers[-1] not in inside):
        raise Unreadable("rejects outside their batch")
    return numbers


def _rows(payload: memoryview, encoding: str, count: int, rules: SourceRules) -> list[Row] | None:
    """The rows of a batch, `_MALFORMED` in place of a bad one. None: it cannot be taken apart as a whole."""
    if encoding == "arrow":
        return _arrow(payload, count, rules)
    if encoding != "json" or _nested(payload):
        return None
    try:
        texts = msgspec.json.decode(payload, type=list[msgspec.Raw])
        if len(texts) != count:
            return None
        return [_row(bytes(text), rules) for text in texts]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class _Fields(list[tuple[str, Any]]):
    """An object's fields, as often as they are there."""


def _row(text: bytes, rules: SourceRules) -> Row:
    try:
        fields = json.loads(text, object_pairs_hook=_Fields)
    except (ValueError, RecursionError):
        return _MALFORMED
    if len(text) > rules.row_max_bytes or not isinstance(fields, _Fields):
        return _MALFORMED
    row = dict(fields)
    if sum(name in rules.columns for name, _ in fields) > sum(name in rules.columns for name in row):
        return _MALFORMED  # a column's field is there twice
    if "json" in rules.columns.values():
        raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        row |= {n: bytes(raw[n]).decode() for n, kind in rules.columns.items() if kind == "json" and n in raw}
    values = [_value(row.get(name, _MALFORMED), kind) for name, kind in rules.columns.items()]
    return _MALFORMED if any(value is _MALFORMED for value in values) else tuple(values)


def _value(value: Any, kind: str) -> Any:
    """A value as its column has it, `_MALFORMED` where its type is another."""
    if value is None or value is _MALFORMED or not kind:
        return value
    if kind not in _PLAIN:
        try:
            return from_form(value, kind)
        except ValueError:
            return _MALFORMED
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind == "double":
        return float(value) if isinstance(value, float) or (whole and abs(value) < 1 << 1023) else _MALFORMED
    fits = {"int64": whole and value in _INT64, "string": isinstance(value, str), "bool": isinstance(value, bool)}
    return value if fits[kind] else _MALFORMED


def _nested(payload: memoryview) -> bool:
    """Whether a row is nested too deeply: brackets outside of strings."""
    text = bytes(payload)
    if text.count(b"[") + text.count(b"{") <= NESTING_MAX:
        return False
    return any(depth > NESTING_MAX + 1 for depth in _depths(text))


def _depths(text: bytes) -> Iterator[int]:
    depth, inside, escaped = 0, False, False
    for one in text:
        if inside:
            inside = escaped or one != ord('"')
            escaped = one == ord("\\") and not escaped
        elif one == ord('"'):
            inside = True
        elif one in b"[{":
            depth += 1
            yield depth
        elif one in b"]}":
            depth -= 1


def _arrow(payload: memoryview, count: int, rules: SourceRules) -> list[Row] | None:
    try:
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            batches = list(reader)
            fits = reader.schema.names == list(rules.columns)
        if len(batches) != 1 or batches[0].num_rows != count or not fits:
            return None
        bad = _ill_formed(batches[0])
    except (pa.ArrowException, OSError, EOFError):
        return None
    if bad:
        return [_MALFORMED if at in bad else _arrow_alone(batches[0].slice(at, 1)) for at in range(count)]
    try:
        return list(map(_arrow_row, zip(*(column(values) for values in batches[0].columns), strict=True)))
    except ValueError:  # a time that cannot be: all rows but those with one
        return [_arrow_alone(batches[0].slice(at, 1)) for at in range(count)]


def _ill_formed(batch: pa.RecordBatch) -> set[int]:
    """The rows with a value whose bytes are none of its type. Raises pa.ArrowInvalid: they cannot be told apart."""
    columns = batch.columns
    try:
        batch.validate(full=True)
        columns = [values for values in columns if pa.types.is_decimal(values.type)]  # Arrow misses the least one
    except pa.ArrowInvalid:
        pass
    return set[int]().union(*map(ill_formed, columns))


def _arrow_alone(batch: pa.RecordBatch) -> Row:
    try:
        return _arrow_row(tuple(column(values)[0] for values in batch.columns))
    except ValueError:
        return _MALFORMED


def _arrow_row(row: Row) -> Row:
    """The row, where its json is in its normal form."""
    try:
        fits = all(json_text(value) == value for value in row if isinstance(value, JsonText))
    except ValueError:
        fits = False
    return row if fits else _MALFORMED
