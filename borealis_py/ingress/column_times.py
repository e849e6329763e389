"""The times of a column of rows, of any type that can hold them; whole numbers and timestamps all at once."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.query.times import NoTime, TimeForm, WrongUnit, before_1970
from borealis_py.query.units import OUR_DAYS_US, TIME_UNITS

Int64s = npt.NDArray[np.int64]

STIME_MAX = 2**61
"""Larger times are no times: arithmetic on them would overflow."""
_SCALES = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


class ColumnTimes:
    """Reads the column `name`, or what a path leads to, by a form. The rule is the form's; here it is only applied to
    many values. None: what an expression gives."""

    def __init__(self, name: str | None, form: TimeForm) -> None:
        self._form = form
        self._called = "stime_sql" if name is None else f"stime={name!r}"
        path = name is not None and name.startswith("$")
        self._missing = f"stime missing: the record has no {name}, or null there" if path else "stime missing"

    def of(self, column: pa.Array) -> tuple[Int64s, dict[int, NoTime]]:
        """The time of each value in microseconds since 1970, 0 where it has none; and why, in ascending order."""
        if pa.types.is_timestamp(column.type):
            return self._judged(*_whole(column.cast(pa.int64())))
        if pa.types.is_date32(column.type):
            days, there = _whole(column.cast(pa.int32()).cast(pa.int64()))
            return self._judged(days * 86_400_000_000, there)
        if pa.types.is_int64(column.type):
            return self._numbers(column)
        return self._one_by_one(column)

    def of_json(self, column: pa.Array) -> tuple[Int64s, dict[int, NoTime]]:
        """The same of JSON values: numbers and texts."""
        texts = column.storage if isinstance(column, pa.ExtensionArray) else column
        whole = pc.match_substring_regex(texts, "^-?[0-9]{1,18}$")
        if pc.all(whole).as_py():
            return self.of(texts.cast(pa.int64()))
        return self._one_by_one(texts, _of_json)

    def _numbers(self, column: pa.Array) -> tuple[Int64s, dict[int, NoTime]]:
        numbers, there = _whole(column)
        times, over = _SCALES[self._form.unit]
        small = np.abs(numbers) < STIME_MAX // times
        stimes, why = self._judged(np.where(small, numbers, 0) * times // over, there & small)
        odd = there & ~(small & (stimes >= OUR_DAYS_US.start) & (stimes < OUR_DAYS_US.stop))
        for i in np.flatnonzero(odd).tolist():
            number = int(numbers[i])
            try:
                self._form.check_number(number)
            except WrongUnit as exc:
                why[i] = exc
            else:
                if not small[i]:
                    unit = TIME_UNITS[self._form.unit][0]
                    why[i] = NoTime(f"stime {number} is beyond all times in {unit}")
        stimes[list(why)] = 0
        return stimes, dict(sorted(why.items()))

    def _one_by_one(
        self, column: pa.Array, read: Callable[[object], object] = lambda value: value
    ) -> tuple[Int64s, dict[int, NoTime]]:
        stimes = np.zeros(len(column), np.int64)
        there = np.zeros(len(column), np.bool_)
        why: dict[int, NoTime] = {}
        for i, value in enumerate(column.to_pylist()):
            try:
                stime = self._form.us(read(value))
            except NoTime as exc:
                why[i] = exc
                continue
            if stime is not None and abs(stime) >= STIME_MAX:
                why[i] = NoTime(f"stime {value} is beyond all times in {TIME_UNITS[self._form.unit][0]}")
            elif stime is not None:
                stimes[i], there[i] = stime, True
        stimes, others = self._judged(stimes, there)
        return stimes, dict(sorted((others | why).items()))

    def _judged(self, stimes: Int64s, there: npt.NDArray[np.bool_]) -> tuple[Int64s, dict[int, NoTime]]:
        """The times, 0 where there is none, and why."""
        good = there & (stimes > 0)
        why = {
            i: NoTime(before_1970(int(stimes[i]), self._called) if there[i] else self._missing)
            for i in np.flatnonzero(~good).tolist()
        }
        return np.where(good, stimes, 0), why


def _of_json(value: object) -> object:
    """A number or a text of JSON as `TimeForm` takes it."""
    if not isinstance(value, str):
        return value
    found = json.loads(value)
    if isinstance(found, bool | list | dict):
        raise NoTime(f"stime {value:.60} is neither a number nor a text")
    return found


def _whole(column: pa.Array) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False), np.ones(len(column), np.bool_)
    there = np.asarray(column.is_valid())
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False), there
