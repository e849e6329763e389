"""How much goes into one transaction: whole buckets while there is room; the first bucket whatever its size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sunion.model import Output, RowOps


@dataclass(frozen=True, slots=True)
class Most:
    """The limits of a portion: `buckets` with output, `rows` plus dead letters, `size_bytes` in memory."""

    buckets: int
    rows: int
    size_bytes: int


def size_of(output: Output, ops: RowOps) -> tuple[int, int]:
    """Number of rows plus dead letters of a bucket, and their bytes in memory."""
    rows, size_bytes = len(output.rejects), sum(len(r.raw) + len(r.reason) for r in output.rejects)
    if output.rows is not None:
        rows, size_bytes = rows + ops.count(output.rows), size_bytes + ops.size_bytes(output.rows)
    return rows, size_bytes


class Portion:
    """Counts what goes into one portion, bucket by bucket, in order."""

    def __init__(self, most: Most, ops: RowOps) -> None:
        self._most = most
        self._ops = ops
        self._buckets = 0
        self._rows = 0
        self._bytes = 0

    def takes(self, output: Output) -> bool:
        """Add the next bucket with output if it fits, and return whether it did. The first one always fits."""
        rows, size_bytes = size_of(output, self._ops)
        after = self._buckets + 1, self._rows + rows, self._bytes + size_bytes
        most = self._most.buckets, self._most.rows, self._most.size_bytes
        if self._buckets and any(n > limit for n, limit in zip(after, most, strict=True)):
            return False
        self._buckets, self._rows, self._bytes = after
        return True


def end_of(outputs: Iterable[tuple[int, Output]], end: int, most: Most, ops: RowOps) -> int:
    """The end of a portion of ordered (bucket, output) pairs: `end`, or the first bucket that does not fit."""
    portion = Portion(most, ops)
    return next((bucket for bucket, output in outputs if not portion.takes(output)), end)
