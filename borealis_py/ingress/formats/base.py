"""What an ingress asks of a format, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

T = TypeVar("T")
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
