"""Decodes a poll's records of one partition together: rows with their times, heartbeats, and what is neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from borealis_py.engine.arrow.rows import row_sizes
from borealis_py.ingress.absent_columns import AbsentColumns
from borealis_py.ingress.column_times import STIME_MAX, ColumnTimes
from borealis_py.ingress.formats.base import NO_PATHS, FormatRows, Paths, RecordFormat, together
from borealis_py.ingress.formats.record_keys import RecordKeys
from borealis_py.ingress.only_values import OnlyValues
from borealis_py.ingress.sql_times import SqlTimes
from borealis_py.log.base import Record
from borealis_py.query.ingress_spec import StimeUnit
from borealis_py.query.names import STIME
from borealis_py.query.times import NoTime, TimeForm, WrongUnit, before_1970
from borealis_py.query.units import WRONG_UNIT_US, looks_like, of_year

Int64s = npt.NDArray[np.int64]
IsHeartbeat = Callable[[pa.RecordBatch], npt.NDArray[np.bool_]]
"""Which rows only prove that their producer lives."""

_TIMES = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
NO_TIMESTAMP = -1
"""The timestamp of a record that has none."""


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
        stime: the column with a row's time, or the path to its field: then the format has a column `names.STIME`, of
            type json, with it, which rows have not. None: the record's Kafka timestamp. unit: of its numbers.
            stime_format: of its texts; None: what `query.times` reads.
        row_max_bytes: a larger row is bad.
        is_heartbeat: None: no record is.
        keys: puts what keys hold into rows; a record without a value is then a row, whose time is its timestamp. None:
            keys are not read.
        only: refuses rows of values that have no input; None: all have one.
        sql_times: computes the times, instead of `stime`; None: nothing does.
    """

    def __init__(
        self,
        form: RecordFormat,
        stime: str | None,
        unit: StimeUnit,
        row_max_bytes: int,
        is_heartbeat: IsHeartbeat | None = None,
        keys: RecordKeys | None = None,
        stime_format: str | None = None,
        only: OnlyValues | None = None,
        paths: Paths = NO_PATHS,
        sql_times: SqlTimes | None = None,
    ) -> None:
        self._keys = keys
        self._only = only
        self._times = ColumnTimes(stime, TimeForm(unit, format=stime_format))
        self._sql = sql_times
        self._whole = form.schema
        self._path = stime is not None and stime.startswith("$")
        self.schema: pa.Schema = form.schema.remove(form.schema.get_field_index(STIME)) if self._path else form.schema
        own = [name for name in self.schema.names if keys is None or name not in keys.columns]
        self.absent = AbsentColumns(own, paths)
        """Columns that no record has had."""
        self._form = form
        self._stime = stime
        self._unit = unit
        self._row_max = row_max_bytes
        self._is_heartbeat = is_heartbeat
        column = None if stime is None or self._path else form.schema.field(stime).type
        self._numbers = self._path or (column is not None and not pa.types.is_timestamp(column))

    def ready(self, records: Sequence[Record]) -> int:
        """How many of the first records can be decoded now; what the others need is being asked for. Never waits."""
        ready = self._form.ready([record.value for record in records])
        return ready if self._keys is None else min(ready, self._keys.ready([record.key for record in records]))

    def waits_for(self) -> str:
        """What the first record that is not ready waits for, for people; "": none does."""
        return self._form.waits_for() or ("" if self._keys is None else self._keys.waits_for())

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
        what = "what stime= names" if self._sql is None else "stime_sql="
        what = f"stime={self._stime!r} and its stime_unit=" if self._numbers else what
        return f"{stime} is of {of_year(stime)}: check {what}"

    def decode(self, records: Sequence[Record]) -> Decoded:
        """Decode records of one partition, of which all are ready. Never raises for what they contain."""
        of_records = self._rows(records)
        rows, some, found = of_records if self._only is None else self._only.kept(of_records)
        at = np.asarray(some, np.int64)
        stimes, untimed = self._stimes(records, rows, at)
        if self._path:
            rows = rows.select(self.schema.names)
        keep = np.ones(len(at), np.bool_)
        if self._is_heartbeat is not None and len(at):
            keep &= ~self._is_heartbeat(rows)
        pings, pings_at = (rows.slice(0, 0), at[:0]) if keep.all() else (rows.filter(pa.array(~keep)), at[~keep])
        misread = next((str(why) for i, why in untimed.items() if keep[i] and isinstance(why, WrongUnit)), "")
        found += [(int(at[i]), str(why)) for i, why in untimed.items() if keep[i]]
        keep[list(untimed)] = False
        for reason, wrong in self._too_large(rows, keep):
            found += [(int(at[i]), reason) for i in np.flatnonzero(wrong)]
            keep &= ~wrong
        if not keep.all():
            rows, at, stimes = rows.filter(pa.array(keep)), at[keep], stimes[keep]
        return Decoded(records, rows, at, stimes, tuple(sorted(found)), pings, pings_at, misread)

    def _rows(self, records: Sequence[Record]) -> FormatRows:
        """Rows of values and of keys; `bad`: whole reasons."""
        values = [record.value for record in records]
        if None not in values:
            return self._of_values(records, cast("list[bytes]", values))
        there = [i for i, value in enumerate(values) if value is not None]
        gone = [i for i, value in enumerate(values) if value is None]
        found = self._of_values([records[i] for i in there], [value for value in values if value is not None])
        if self._keys is not None:
            return together([(there, found), (gone, self._keys.alone([records[i].key for i in gone]))], self._whole)
        none = self._form.tombstone
        alone = together([(there, found)], self._whole)
        return alone._replace(bad=sorted([*alone.bad, *((i, none) for i in gone if none)]))

    def _of_values(self, records: Sequence[Record], values: Sequence[bytes]) -> FormatRows:
        """The same of records that all have a value."""
        rows, at, bad = self._form.rows(values)
        self.absent.saw(self._form, rows, values if len(at) == len(values) else [values[i] for i in at])
        found = FormatRows(rows, at, [(i, f"malformed: {reason}") for i, reason in bad])
        return found if self._keys is None else self._keys.filled(found, [record.key for record in records])

    def _stimes(self, records: Sequence[Record], rows: pa.RecordBatch, at: Int64s) -> tuple[Int64s, dict[int, NoTime]]:
        """The stime of each row in microseconds, and why some have none, in ascending order."""
        if self._sql is not None:
            stimes, untimed = self._sql.of(rows)
        elif self._stime is None:
            return _by_timestamp(records, at)
        elif self._path:
            stimes, untimed = self._times.of_json(rows.column(STIME))
        else:
            stimes, untimed = self._times.of(rows.column(self._stime))
        if self._keys is None or not (gone := np.asarray([records[i].value is None for i in at], np.bool_)).any():
            return stimes, untimed
        by_record, unknown = _by_timestamp(records, at)
        why = {i: one for i, one in untimed.items() if not gone[i]} | {i: one for i, one in unknown.items() if gone[i]}
        return np.where(gone, by_record, stimes), dict(sorted(why.items()))

    def _too_large(self, rows: pa.RecordBatch, among: npt.NDArray[np.bool_]) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        if rows.nbytes <= self._row_max:
            return []
        return [(f"malformed: a row of more than {self._row_max} bytes", among & (row_sizes(rows) > self._row_max))]


def _by_timestamp(records: Sequence[Record], at: Int64s) -> tuple[Int64s, dict[int, NoTime]]:
    told = np.fromiter((record.timestamp_ms for record in records), np.int64, len(records))[at]
    timed = (told > 0) & (told < STIME_MAX // 1_000)
    return np.where(timed, told, 0) * 1_000, {i: _untimed(int(told[i])) for i in np.flatnonzero(~timed).tolist()}


def _untimed(timestamp_ms: int) -> NoTime:
    if timestamp_ms == NO_TIMESTAMP:
        return NoTime("stime missing: the record has no timestamp, and no stime= names a column")
    return NoTime(
        before_1970(timestamp_ms * 1_000, "the record's timestamp") or f"stime {timestamp_ms} ms is beyond all times"
    )
