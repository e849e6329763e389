"""Rows as tuples of (stime, value): what the pure data path needs of a world without Arrow.

The fragment is made to show every mistake: it passes each row on with its place in the total order, and closes a
window of four buckets with a hash that depends on that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sunion.bucket import Buckets
from sunion.model import FOREVER, Input, Output, Reject, SourceRecord
from sunion.union import SUnion

W = 100_000
BUCKETS = Buckets(W)
AHEAD_US = 3_600_000_000
LOOKBACK = 4
Row = tuple[int, int]


class ListOps:
    """`RowOps` over tuples. A row of a bucket in order is (stime, input, place, value)."""

    def take(self, rows: Sequence[Row], indices: Sequence[int]) -> tuple[Row, ...]:
        return tuple(rows[i] for i in indices)

    def concat(self, parts: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
        return tuple(row for part in parts for row in part)

    def settle(self, groups: Sequence[Sequence[Sequence[Row]]]) -> list[tuple[Row, ...]]:
        return [self.concat(parts) for parts in groups]

    def order(self, parts: Sequence[Sequence[Row] | None]) -> tuple[tuple[int, int, int, int], ...]:
        return tuple(
            sorted(
                (stime, index, place, value)
                for index, part in enumerate(parts)
                for place, (stime, value) in enumerate(part or ())
            )
        )

    def count(self, rows: Sequence[Row]) -> int:
        return len(rows)

    def size_bytes(self, rows: Sequence[Row]) -> int:
        return 16 * len(rows)

    def digest(self, rows: Sequence[Row]) -> bytes:
        return repr(list(rows)).encode()


OPS = ListOps()


class ListFragment:
    """State: (open window, hash, rows in it). The value -13 is refused, as a kernel refuses a bad row."""

    lookback_buckets = LOOKBACK - 1

    def initial(self) -> tuple[int, int, int]:
        return (-1, 0, 0)

    def step(
        self, state: tuple[int, int, int], first: int, end: int, buckets: Mapping[int, Sequence[tuple[int, ...]]]
    ) -> tuple[tuple[int, int, int], dict[int, Output]]:
        rows: dict[int, list[tuple[object, ...]]] = {}
        rejects: dict[int, tuple[Reject, ...]] = {}
        for bucket in sorted(buckets):
            assert first <= bucket < end, f"bucket {bucket} outside [{first}, {end})"
            state = self._close(state, bucket // LOOKBACK, rows)
            _, total, count = state
            for stime, index, _, value in buckets[bucket]:
                if value == -13:
                    rejects[bucket] = (*rejects.get(bucket, ()), Reject("q", -1, "unlucky"))
                    continue
                total, count = (total * 31 + value * 7 + index) % 1_000_003, count + 1
                rows.setdefault(bucket, []).append((stime, index, value))
            state = (bucket // LOOKBACK, total, count)
        state = self._close(state, end // LOOKBACK, rows)
        found = sorted({*rows, *rejects})
        return state, {b: Output(tuple(rows[b]) if b in rows else None, rejects.get(b, ())) for b in found}

    def _close(
        self, state: tuple[int, int, int], window: int, rows: dict[int, list[tuple[object, ...]]]
    ) -> tuple[int, int, int]:
        opened, total, count = state
        if opened >= window or not count:
            return state if opened >= window else self.initial()
        last = opened * LOOKBACK + LOOKBACK - 1
        rows.setdefault(last, []).append((BUCKETS.end(last) - 1, "window", total, count))
        return self.initial()


FRAGMENT = ListFragment()


def claim(offset: int, epoch: int = 1, uid: str = "a") -> SourceRecord:
    """An EPOCH record."""
    return SourceRecord(offset, epoch, uid, claim=True)


def batch(
    offset: int,
    first_seq: int,
    rows: Iterable[Row] = (),
    boundary: int | None = None,
    epoch: int = 1,
    uid: str = "a",
    rejects: tuple[Reject, ...] = (),
) -> SourceRecord:
    """Tuples first_seq, first_seq + 1, ... then a boundary."""
    held = tuple(rows)
    seqs = range(first_seq, first_seq + len(held))
    stimes = tuple(stime for stime, _ in held)
    return SourceRecord(offset, epoch, uid, False, seqs, stimes, held or None, boundary, rejects)


def bad(offset: int, source: str = "s0") -> SourceRecord:
    """A record that no publisher of ours has written."""
    return SourceRecord(offset, -1, "", rejects=(Reject(source, offset, "not an envelope"),))


def end(offset: int) -> SourceRecord:
    """END."""
    return batch(offset, 0, boundary=FOREVER)


def truth(logs: Sequence[Sequence[SourceRecord]], origin: int = 0) -> tuple[int, dict[int, Output]]:
    """What a run without failures says: (first bucket not complete, outputs by bucket)."""
    union = SUnion([Input.source(f"s{i}") for i in range(len(logs))], origin, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    for index, records in enumerate(logs):
        for record in records:
            union.feed(index, record)
    stop = max(union.complete, origin)
    _, outputs = FRAGMENT.step(FRAGMENT.initial(), origin, stop, union.ordered(origin, stop))
    return stop, union.with_rejects(origin, stop, outputs)


def opened(record: SourceRecord) -> SourceRecord:
    """The record with its rows taken out of their bytes."""
    held = record.opened()
    return replace(record, seqs=held.seqs, stimes=held.stimes, rows=held.rows, rejects=held.rejects, unpack=None)
