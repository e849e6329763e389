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
from borealis_py.ingress.formats.base import FormatRows, RecordFormat, together
from borealis_py.ingress.formats.key_rows import KeyRows
from borealis_py.log.base import Record
from borealis_py.query.ingress_spec import StimeUnit
from borealis_py.query.units import TIME_UNITS, WRONG_UNIT_US, looks_like, of_year

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
    heartbeats, as rows, and the positions of their records. `misread`: in which unit numbers that are no times are
    ones, for people; "": in none.
    """

    records: Sequence[Record]
    rows: pa.RecordBatch
    at: Int64s
    stimes: Int64s
    bad: tuple[tuple[int, str], ...]
    pings: pa.RecordBatch
    pings_at: Int64s
    misread: str = ""

    def __len__(self) -> int:
        return len(self.records)

    def before(self, wrong: npt.NDArray[np.bool_]) -> int:
        """Number of records before the first row of which this is true; all of them, if there is none."""
        found = np.flatnonzero(wrong)
        return int(self.at[found[0]]) if len(found) else len(self)

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
            self.misread,
        )
        rest = Decoded(
            self.records[count:],
            self.rows.slice(n),
            self.at[n:] - count,
            self.stimes[n:],
            tuple((position - count, reason) for position, reason in self.bad if position >= count),
            self.pings.slice(m),
            self.pings_at[m:] - count,
            self.misread,
        )
        return first, rest


class TopicDecoder:
    """Decodes the records of one topic.

    Args:
        stime: the column with a row's time; None: the record's Kafka timestamp. unit: of its numbers.
        row_max_bytes: a larger row is bad.
        is_heartbeat: None: no record is.
        keys: makes rows of records without a value; None: they are none. Their time is their timestamp.
    """

    def __init__(
        self,
        form: RecordFormat,
        stime: str | None,
        unit: StimeUnit,
        row_max_bytes: int,
        is_heartbeat: IsHeartbeat | None = None,
        keys: KeyRows | None = None,
    ) -> None:
        self._keys = keys
        self.schema = form.schema
        self._form, self._stime, self._unit = form, stime, unit
        self._row_max, self._is_heartbeat = row_max_bytes, is_heartbeat
        self._numbers = stime is not None and not pa.types.is_timestamp(form.schema.field(stime).type)

    def ready(self, records: Sequence[Record]) -> int:
        """How many of the first records can be decoded now; what the others need is being asked for. Never waits."""
        return self._form.ready([record.value for record in records])

    def waits_for(self) -> str:
        """What the first record that is not ready waits for, for people; "": none does."""
        return self._form.waits_for()

    def misread(self, stime: int, before_us: int) -> str:
        """Why the stime of a refused row seems to be read wrong, for people; "": nothing says so.

        Args:
            before_us: how far it lies behind what could be sent; negative: it lies ahead.
        """
        unit = ""
        if self._numbers:
            times, over = _TIMES[self._unit]
            unit = looks_like(stime * over // times, self._unit)
        if unit or before_us < WRONG_UNIT_US:
            return unit
        what = f"stime={self._stime!r} and its stime_unit=" if self._numbers else "what stime= names"
        return f"{stime} is of {of_year(stime)}: check {what}"

    def decode(self, records: Sequence[Record]) -> Decoded:
        """Decode records of one partition, of which all are ready. Never raises for what they contain."""
        values = [record.value for record in records]
        found: list[tuple[int, str]] = []
        if None in values:
            rows, some, found = self._with_tombstones(records)
            at = np.asarray(some, np.int64)
        else:
            rows, some, bad = self._form.rows(cast("list[bytes]", values))
            at = np.asarray(some, np.int64)
            found += [(i, f"malformed: {reason}") for i, reason in bad]
        stimes, timed, numbers = self._stimes(records, rows, at)
        keep = np.ones(len(at), np.bool_)
        if self._is_heartbeat is not None and len(at):
            keep &= ~self._is_heartbeat(rows)
        pings, pings_at = (rows.slice(0, 0), at[:0]) if keep.all() else (rows.filter(pa.array(~keep)), at[~keep])
        misread = ""
        for i in np.flatnonzero(keep & ~timed).tolist():
            number = int(numbers[i])
            unit = looks_like(number, self._unit) if self._numbers else ""
            misread = misread or unit
            beyond = f"stime {number} is beyond all times in {TIME_UNITS[self._unit][0]}"
            found.append((int(at[i]), "; ".join(filter(None, (beyond, unit))) if number > 0 else "stime missing"))
        keep &= timed
        for reason, wrong in self._too_large(rows, keep):
            found += [(int(at[i]), reason) for i in np.flatnonzero(wrong)]
            keep &= ~wrong
        if not keep.all():
            rows, at, stimes = rows.filter(pa.array(keep)), at[keep], stimes[keep]
        return Decoded(records, rows, at, stimes, tuple(sorted(found)), pings, pings_at, misread)

    def _with_tombstones(self, records: Sequence[Record]) -> FormatRows:
        """The same where some records have no value."""
        there = [i for i, record in enumerate(records) if record.value is not None]
        gone = [i for i, record in enumerate(records) if record.value is None]
        rows, at, bad = self._form.rows([record.value for record in records if record.value is not None])
        found = FormatRows(rows, at, [(i, f"malformed: {reason}") for i, reason in bad])
        if self._keys is not None:
            return together([(there, found), (gone, self._keys.rows([records[i].key for i in gone]))], self.schema)
        none = self._form.tombstone
        alone = together([(there, found)], self.schema)
        return alone._replace(bad=sorted([*alone.bad, *((i, none) for i in gone if none)]))

    def _stimes(
        self, records: Sequence[Record], rows: pa.RecordBatch, at: Int64s
    ) -> tuple[Int64s, npt.NDArray[np.bool_], Int64s]:
        """The stime of each row in microseconds, whether it has one, and the number it is made of; 0: none."""
        if self._stime is None:
            return _by_timestamp(records, at)
        column = rows.column(self._stime)
        times, over = (1, 1) if pa.types.is_timestamp(column.type) else _TIMES[self._unit]
        told = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        timed = np.asarray(column.is_valid()) & (told > 0) & (told < STIME_MAX // times)
        stimes = np.where(timed, told, 0) * times // over
        if self._keys is None or not (gone := np.asarray([records[i].value is None for i in at], np.bool_)).any():
            return stimes, timed, told
        by_record, known, number = _by_timestamp(records, at)
        return np.where(gone, by_record, stimes), np.where(gone, known, timed), np.where(gone, number, told)

    def _too_large(self, rows: pa.RecordBatch, among: npt.NDArray[np.bool_]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        if rows.nbytes <= self._row_max:
            return []
        return [(f"malformed: a row of more than {self._row_max} bytes", among & (row_sizes(rows) > self._row_max))]


def _by_timestamp(records: Sequence[Record], at: Int64s) -> tuple[Int64s, npt.NDArray[np.bool_], Int64s]:
    told = np.fromiter((record.timestamp_ms for record in records), np.int64, len(records))[at]
    return told * 1_000, (told > 0) & (told < STIME_MAX // 1_000), told
