"""The simulator's toy query: small, ordered, stateful, and sensitive to any wrong order.

A row is (stime, kind, value, hash): of a source, kind "row" and hash 0. Each node keeps a hash over all rows of a
window in their order (not commutative), passes on odd values with the hash so far, passes on its upstream's windows,
and emits each window's hash and count at its end. The value `UNLUCKY` is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa

from borealis_py.query.names import part_index
from sunion.model import Output, Reject

PRIME = (1 << 61) - 1
UNLUCKY = -13
POISON = -17
"""The kernel raises whenever it meets this value; the product has to find out which row it was."""
BIG = 60
"""Number of rows above which an output must be split, in most worlds."""
BIG_ROWS = BIG + 20
"""Number of rows of the bucket with which a fault splits one."""
ROW_BYTES = 40
"""Size that a row counts for."""
_PADDING = b" " * 1_000_001
_STATE_PADDING = b" " * 250
"""As long as some increments: a base has three behind it."""
QUERY = "q"
ToyRow = tuple[int, str, int, int]
ToyRows = tuple[int, int, str, int, int]
"""A row with the index of its input."""
ToyState = tuple[int, int, int]
_encode = msgspec.json.Encoder().encode
_decode_rows = msgspec.json.Decoder(list[ToyRow]).decode


def mix(before: int, stime: int, source: int, value: int) -> int:
    """The hash after one more row. Not commutative."""
    return (before * 1_000_003 + stime * 31 + source * 7 + value) % PRIME


class ToySource:
    """Rows of a source: a JSON array of {"v": integer}."""

    def decode(
        self, payload: bytes, encoding: str, stimes: Sequence[int]
    ) -> tuple[list[ToyRow] | None, list[tuple[int, str, bytes]]]:
        try:
            objects = msgspec.json.decode(payload)
        except msgspec.DecodeError as exc:
            return None, [(-1, str(exc), payload)]
        if not isinstance(objects, list) or len(objects) != len(stimes):
            return None, [(-1, "not one object for each stime", payload)]
        good: list[ToyRow] = []
        bad: list[tuple[int, str, bytes]] = []
        for i, (stime, row) in enumerate(zip(stimes, objects, strict=True)):
            value = row.get("v") if isinstance(row, dict) else None
            if isinstance(value, int):
                good.append((stime, "row", value, 0))
            else:
                bad.append((i, "v is no integer", _encode(row)))
        return good or None, bad


class KernelFailed(Exception):
    """The engine as a whole failed, and no row is to blame: out of memory, an internal error."""


def _sound() -> bool:
    return False


class _Raises:
    """Implements `engine.operators.poison_rows.Runs`: fails as a whole on any poison, like an engine on a value."""

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        from borealis_py.engine.sql.duck_faults import RowError

        if POISON in batch.column(0).to_pylist():
            raise RowError("poison: the engine raised", sure=False)
        return batch

    run_afresh = run


class ToyKernel:
    """Implements `log.kernel.Kernel`.

    `span`: buckets in a window; `width_us`: of a bucket; `node`: its node. `part_rows`: an output of more rows is
    split, as if it exceeded a record. `fails`: asked before each step whether to raise `KernelFailed`. `picks`: inputs
    of which only one partition of `parts`, given by the node's name, is used.
    """

    schema_id = "toy"

    def __init__(
        self,
        width_us: int,
        span: int,
        node: str = QUERY,
        part_rows: int = BIG,
        fails: Callable[[], bool] = _sound,
        picks: frozenset[int] = frozenset(),
        parts: int = 1,
    ) -> None:
        self._picks = picks
        self._parts = parts
        self._part = part_index(node)
        self._fails = fails
        self._width_us = width_us
        self._span = span
        self._node = node
        self._part_rows = part_rows
        self.ran = 0
        """Number of rows so far."""
        self.largest = 0
        """Rows of the largest bucket since this was last set to 0."""

    # Fragment ---------------------------------------------------------------------------------------------------------

    @property
    def lookback_buckets(self) -> int:
        return self._span - 1

    @property
    def unbounded(self) -> tuple[str, ...]:
        return ()

    def initial(self) -> ToyState:
        return (0, 0, 0)

    def step(
        self, state: ToyState, first: int, end: int, buckets: Mapping[int, Sequence[ToyRows]]
    ) -> tuple[ToyState, Mapping[int, Output]]:
        if self._fails():
            raise KernelFailed(f"{self._node}: simulated: out of memory")
        window, digest, count = state
        rows: dict[int, list[ToyRow]] = {}
        rejects: dict[int, list[Reject]] = {}
        for bucket in sorted(buckets):
            if not first <= bucket < end:
                raise ValueError(f"bucket {bucket} outside of [{first}, {end})")
            if bucket // self._span != window:
                self._close(window, digest, count, rows)
                window, digest, count = bucket // self._span, 0, 0
            ordered = buckets[bucket]
            self.ran += len(ordered)
            self.largest = max(self.largest, len(ordered))
            if any(row[3] == POISON for row in ordered):
                ordered, reasons = self._without_poison(ordered)
                rejects.setdefault(bucket, []).extend(Reject(self._node, -1, reason) for reason in reasons)
            for stime, source, kind, value, before in ordered:
                if source in self._picks and value % self._parts != self._part:
                    continue
                if value == UNLUCKY:
                    rejects.setdefault(bucket, []).append(Reject(self._node, -1, "unlucky: value refused"))
                    continue
                digest = mix(digest, stime, source, value + before)
                count += 1
                if kind == "window" or value % 2:
                    rows.setdefault(bucket, []).append((stime, kind, value, digest))
        if count and self._last(window) < end:
            self._close(window, digest, count, rows)
            digest = count = 0
        outputs = {b: Output(rows.get(b), tuple(rejects.get(b, ()))) for b in sorted(rows.keys() | rejects.keys())}
        return (window, digest, count), outputs

    def _without_poison(self, rows: Sequence[ToyRows]) -> tuple[list[ToyRows], list[str]]:
        """The rows without those to blame, and the reasons for the rejects that belong to this node."""
        from borealis_py.engine.operators.poison_rows import isolate_bad_rows

        picked = [r for r in rows if r[1] not in self._picks or r[3] % self._parts == self._part]
        batch = pa.record_batch({"value": pa.array([row[3] for row in picked], pa.int64())})
        bad = isolate_bad_rows(_Raises(), batch).bad if picked else {}
        return [row for i, row in enumerate(picked) if i not in bad], list(bad.values())

    def _last(self, window: int) -> int:
        return (window + 1) * self._span - 1

    def _close(self, window: int, digest: int, count: int, rows: dict[int, list[ToyRow]]) -> None:
        if count:
            last = self._last(window)
            rows.setdefault(last, []).append(((last + 1) * self._width_us - 1, "window", count, digest))

    # Row operations ---------------------------------------------------------------------------------------------------

    def take(self, rows: Sequence[ToyRow], indices: Sequence[int]) -> list[ToyRow]:
        return [rows[i] for i in indices]

    def concat(self, parts: Sequence[Sequence[ToyRow]]) -> list[ToyRow]:
        return [row for part in parts for row in part]

    def settle(self, groups: Sequence[Sequence[Sequence[ToyRow]]]) -> list[list[ToyRow]]:
        return [self.concat(parts) for parts in groups]

    def order(self, parts: Sequence[Sequence[ToyRow] | None]) -> list[ToyRows]:
        merged = [(row[0], i, *row[1:]) for i, part in enumerate(parts) for row in part or ()]
        return sorted(merged, key=_stime_and_input)

    def count(self, rows: Sequence[ToyRow]) -> int:
        return len(rows)

    def size_bytes(self, rows: Sequence[ToyRow]) -> int:
        return ROW_BYTES * len(rows)

    def digest(self, rows: Sequence[ToyRow]) -> bytes:
        return _encode(rows)

    def divide(self, rows: Sequence[ToyRow], by: Sequence[str], count: int) -> list[list[ToyRow] | None]:
        return [[row for row in rows if row[2] % count == index] or None for index in range(count)]

    # Bytes ------------------------------------------------------------------------------------------------------------

    def source_codec(self, name: str) -> ToySource:
        return ToySource()

    def stream_codec(self, name: str) -> ToyKernel:
        return self  # all nodes have the same row type

    def encode(self, rows: Sequence[ToyRow]) -> bytes:
        encoded = _encode(rows)
        return encoded + _PADDING if len(rows) > self._part_rows else encoded

    def decode(self, payload: bytes) -> list[ToyRow]:
        return _decode_rows(payload)

    def encode_parts(self, rows: Sequence[ToyRow], bytes_max: int) -> list[bytes]:
        middle = len(rows) // 2
        if middle == 0 or len(rows) <= self._part_rows:
            encoded = self.encode(rows)
            if middle == 0 or len(encoded) <= bytes_max:
                return [encoded]
        return self.encode_parts(rows[:middle], bytes_max) + self.encode_parts(rows[middle:], bytes_max)

    def join(self, parts: Sequence[Sequence[ToyRow]]) -> list[ToyRow]:
        return self.concat(parts)

    def encode_state(self, state: ToyState) -> bytes:
        return _encode(state) + _STATE_PADDING

    def decode_state(self, payload: bytes) -> ToyState:
        window, digest, count = msgspec.json.decode(payload, type=list[int])
        return (window, digest, count)

    def encode_increment(self, before: ToyState, after: ToyState, since: int, end: int) -> bytes:
        """The numbers that are not what they were, by their place."""
        return _encode([(n, new) for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new])

    def decode_increment(self, before: ToyState, payload: bytes, end: int) -> ToyState:
        new = dict(msgspec.json.decode(payload, type=list[tuple[int, int]]))
        window, digest, count = (new.get(n, old) for n, old in enumerate(before))
        return (window, digest, count)

    def published(self, rows: Sequence[ToyRow]) -> Iterator[tuple[bytes, int]]:
        return ((_encode(row), row[0]) for row in rows)

    def to_dicts(self, rows: Sequence[ToyRow]) -> list[dict[str, object]]:
        return [{"kind": kind, "value": value, "hash": digest} for _, kind, value, digest in rows]

    def close(self) -> None:
        pass


def _stime_and_input(row: ToyRows) -> tuple[int, int]:
    return row[:2]
