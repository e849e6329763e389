"""Decodes a poll's records of one partition together: rows with their times, heartbeats, and what is neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.engine.rows import row_sizes
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.log.base import Record
from borealis_py.query.ingress_spec import StimeUnit

Int64s = npt.NDArray[np.int64]
IsHeartbeat = Callable[[pa.RecordBatch], npt.NDArray[np.bool_]]
"""Which rows only prove that their producer lives."""

_TIMES = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
STIME_MAX = 2**61
"""Larger times are no times: arithmetic on them would overflow."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records of one partition, in offset order, and what they are.

    `rows`, `at` and `stimes` run in parallel: a row, the position of its record in `records` (ascending), its stime.
    `bad`: (position, reason) of each record that is neither row nor heartbeat, ascending. `pings`, `pings_at`: the
    heartbeats, as rows, and the positions of their records.
    """

    records: Sequence[Record]
    rows: pa.RecordBatch
    at: Int64s
    stimes: Int64s
    bad: tuple[tuple[int, str], ...]
    pings: pa.RecordBatch
    pings_at: Int64s

    def __len__(self) -> int:
        return len(self.records)

    def cut(self, count: int) -> tuple[Decoded, Decoded]:
        """The first `count` records, and the others."""
        n, m = int(np.searchsorted(self.at, count)), int(np.searchsorted(self.pings_at, count))
        first = Decoded(
            self.records[:count],
            self.rows.slice(0, n),
            self.at[:n],
            self.stimes[:n],
            tuple(one for one in self.bad if one[0] < count),
            self.pings.slice(0, m),
            self.pings_at[:m],
        )
        rest = Decoded(
            self.records[count:],
            self.rows.slice(n),
            self.at[n:] - count,
            self.stimes[n:],
            tuple((position - count, reason) for position, reason in self.bad if position >= count),
            self.pings.slice(m),
            self.pings_at[m:] - count,
        )
        return first, rest


class TopicDecoder:
    """Decodes the records of one topic.

    Args:
        stime: the column with a row's time; None: the record's Kafka timestamp. unit: of its numbers.
        row_max_bytes: a larger row is bad.
        is_heartbeat: None: no record is.
    """

    def __init__(
        self,
        form: RecordFormat,
        stime: str | None,
        unit: StimeUnit,
        row_max_bytes: int,
        is_heartbeat: IsHeartbeat | None = None,
    ) -> None:
        self.schema = form.schema
        self._form, self._stime, self._unit = form, stime, unit
        self._row_max, self._is_heartbeat = row_max_bytes, is_heartbeat

    def ready(self, records: Sequence[Record]) -> int:
        """How many of the first records can be decoded now; what the others need is being asked for. Never waits."""
        return self._form.ready([record.value for record in records])

    def waits_for(self) -> str:
        """What the first record that is not ready waits for, for people; "": none does."""
        return self._form.waits_for()

    def decode(self, records: Sequence[Record]) -> Decoded:
        """Decode records of one partition, of which all are ready. Never raises for what they contain."""
        values = [record.value for record in records]
        found: list[tuple[int, str]] = []
        if None in values:
            there = [i for i, value in enumerate(values) if value is not None]
            none = self._form.tombstone
            found = [(i, none) for i, value in enumerate(values) if none and value is None]
            rows, some, bad = self._form.rows([value for value in values if value is not None])
            at = np.asarray(there, np.int64)[np.asarray(some, np.int64)]
            found += [(there[i], f"malformed: {reason}") for i, reason in bad]
        else:
            rows, some, bad = self._form.rows(cast("list[bytes]", values))
            at = np.asarray(some, np.int64)
            found += [(i, f"malformed: {reason}") for i, reason in bad]
        stimes, timed = self._stimes(records, rows, at)
        keep = np.ones(len(at), np.bool_)
        if self._is_heartbeat is not None and len(at):
            keep &= ~self._is_heartbeat(rows)
        pings, pings_at = (rows.slice(0, 0), at[:0]) if keep.all() else (rows.filter(pa.array(~keep)), at[~keep])
        for reason, wrong in (("stime missing", keep & ~timed), *self._too_large(rows, keep & timed)):
            found += [(int(at[i]), reason) for i in np.flatnonzero(wrong)]
            keep &= ~wrong
        if not keep.all():
            rows, at, stimes = rows.filter(pa.array(keep)), at[keep], stimes[keep]
        return Decoded(records, rows, at, stimes, tuple(sorted(found)), pings, pings_at)

    def _stimes(
        self, records: Sequence[Record], rows: pa.RecordBatch, at: Int64s
    ) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """The stime of each row in microseconds, and whether it has one."""
        if self._stime is None:
            told = np.fromiter((record.timestamp_ms for record in records), np.int64, len(records))[at]
            return told * 1_000, (told > 0) & (told < STIME_MAX // 1_000)
        column = rows.column(self._stime)
        times, over = (1, 1) if pa.types.is_timestamp(column.type) else _TIMES[self._unit]
        told = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        timed = np.asarray(column.is_valid()) & (told > 0) & (told < STIME_MAX // times)
        return np.where(timed, told, 0) * times // over, timed

    def _too_large(self, rows: pa.RecordBatch, among: npt.NDArray[np.bool_]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        if rows.nbytes <= self._row_max:
            return []
        return [(f"malformed: a row of more than {self._row_max} bytes", among & (row_sizes(rows) > self._row_max))]
