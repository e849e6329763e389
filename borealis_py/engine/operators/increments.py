"""What a part of a kernel's state has that an earlier one had not, and the state made whole again of both.

A state is a value that an operator makes of the one before, so most of it has been there before. `PartIncrement` names
what of the earlier state is left and holds the rest. Whatever a part of a state cannot tell apart is in it whole: then
it is large, and never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import pyarrow as pa

Partial = tuple[int, pa.RecordBatch]
"""An entry of a state: (bucket, its partial aggregates or rows)."""


@dataclass(frozen=True, slots=True)
class PartIncrement:
    """Of one part of a state.

    `left`: which entries of the earlier state are still there, as ranges [first, end) of their numbers. `entries`: the
    others. `rows`: instead of both, rows that came since, for a part that files them by itself; None: it does not.
    """

    left: tuple[tuple[int, int], ...] = ()
    entries: tuple[Partial, ...] = ()
    rows: pa.RecordBatch | None = None


class StatePart(Protocol):
    """How one part of a kernel's state changes. `schema`: of its entries."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def row_schema(self) -> pa.Schema:
        """Of `PartIncrement.rows`."""

    def increment(self, before: Sequence[Partial], after: Sequence[Partial], since: int, end: int) -> PartIncrement:
        """What the state at bucket `end` has that the one at bucket `since` had not; these two are given."""

    def grown(self, before: Sequence[Partial], by: PartIncrement, end: int) -> tuple[Partial, ...]:
        """The state at bucket `end`, bit for bit. `before`: the state that `by` was made for."""


class EntriesPart:
    """A part whose entries come and go as they are."""

    @property
    def row_schema(self) -> pa.Schema:
        """It has none."""
        return pa.schema([])

    def grown(self, before: Sequence[Partial], by: PartIncrement, end: int) -> tuple[Partial, ...]:
        return grown(before, by)


@dataclass(frozen=True)
class WindowEntries(EntriesPart):
    """A window's partials or rows, an entry for each bucket: the last are new, and the first no longer needed (Hwang et
    al., ICDE 2005, H 115). `schema`: of an entry."""

    schema: pa.Schema

    def increment(self, before: Sequence[Partial], after: Sequence[Partial], since: int, end: int) -> PartIncrement:
        old = sum(bucket < since for bucket, _ in after)
        first = len(before) - old
        if first < 0 or [_shape(e) for e in before[first:]] != [_shape(e) for e in after[:old]]:
            return PartIncrement(entries=tuple(after))  # another state than the one it grew from
        return PartIncrement(((first, len(before)),) if old else (), tuple(after[old:]))


def increment_by_identity(before: Sequence[Partial], after: Sequence[Partial]) -> PartIncrement:
    """For entries that a step leaves as they are, or makes anew: what is not the same object is new."""
    known = {id(batch): number for number, (_, batch) in enumerate(before)}
    found = [known.get(id(batch)) for _, batch in after]
    same = [n is not None and before[n][0] == bucket for n, (bucket, _) in zip(found, after, strict=True)]
    numbers = [n for n, is_same in zip(found, same, strict=True) if is_same and n is not None]
    entries = tuple(entry for entry, is_same in zip(after, same, strict=True) if not is_same)
    return PartIncrement(_ranges(numbers), entries)


def grown(before: Sequence[Partial], by: PartIncrement) -> tuple[Partial, ...]:
    """What is left of the earlier entries, and the new ones, by bucket. Raises ValueError: `by` is of another state."""
    if any(not 0 <= first < end <= len(before) for first, end in by.left):
        raise ValueError(f"entries {by.left} of a state that has {len(before)}")
    left = [entry for first, end in by.left for entry in before[first:end]]
    return tuple(sorted((*left, *by.entries), key=_bucket))


def _ranges(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    runs = [list(run) for _, run in groupby(enumerate(numbers), key=lambda of: of[1] - of[0])]
    return tuple((run[0][1], run[-1][1] + 1) for run in runs)


def _shape(entry: Partial) -> tuple[int, int]:
    return entry[0], entry[1].num_rows


def _bucket(entry: Partial) -> int:
    return entry[0]
