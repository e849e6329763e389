"""How values that a format has found become columns: each column's own rule, together where all are usual.

A rule has two forms. `one` fits a single value or says why not; `together` makes a whole column, may give up on values
that `one` takes, and never takes one that `one` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from math import isfinite

import numpy as np
import pyarrow as pa

from borealis_py.ingress.formats.base import FormatRows
from borealis_py.types.arrow import array, arrow_of
from borealis_py.types.explained import explained
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import JSON_LEVELS_MAX, Misfit, Rules

INT64_MAX = 2**63 - 1
GIVES_UP = (Misfit, ValueError, TypeError, KeyError, ArithmeticError, pa.ArrowException)
"""What `together` raises when a column must be looked at value by value."""


class Fit:
    """The rule of one column.

    Args:
        kind: the column's type, as descriptions have it.
        one: makes the value as Arrow takes it of what the format has found, which is not None. Raises Misfit.
        together: makes the column of values that may be None. Raises any of `GIVES_UP`. None: value by value.
    """

    def __init__(
        self, kind: str, one: Callable[[object], object], together: Callable[[Sequence[object]], pa.Array] | None = None
    ) -> None:
        self.type = parse_type(kind)
        self.arrow: pa.DataType = arrow_of(kind)
        self.one = one
        self._together = together

    def together(self, values: Sequence[object]) -> pa.Array:
        """The column of these values. Raises any of `GIVES_UP`."""
        if self._together is not None:
            return self._together(values)
        one = self.one
        return array([None if value is None else one(value) for value in values], self.arrow)

    def each(self, values: Sequence[object], bad: dict[int, str], name: str) -> pa.Array:
        """The column, with null for each value that does not fit; its index and the reason go to `bad`."""
        found: list[object] = []
        for i, value in enumerate(values):
            try:
                fit = None if value is None else self.one(value)
                if fit is not None:
                    array([fit], self.arrow)
            except GIVES_UP as exc:
                bad.setdefault(i, explained(name, self.type, value, str(exc)))
                fit = None
            found.append(fit)
        return array(found, self.arrow)


def _fitted(
    schema: pa.Schema, fits: Sequence[Fit], columns: Sequence[Sequence[object]]
) -> tuple[pa.RecordBatch, np.ndarray | None, dict[int, str]]:
    """Rows of columns of values.

    Returns:
        The rows that fit; which of all rows these are (None: all); index and reason of each that does not.
    """
    bad: dict[int, str] = {}
    arrays = []
    for field, fit, values in zip(schema, fits, columns, strict=True):
        try:
            arrays.append(fit.together(values))
        except GIVES_UP:
            arrays.append(fit.each(values, bad, field.name))
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not bad:
        return rows, None, bad
    good = np.ones(rows.num_rows, np.bool_)
    good[list(bad)] = False
    return rows.filter(pa.array(good)), good, bad


def rows_of(
    schema: pa.Schema,
    fits: Mapping[str, Fit],
    columns: Sequence[Sequence[object]],
    at: Sequence[int],
    bad: Mapping[int, str],
) -> FormatRows:
    """Rows of what a format has found in some values, with null in the columns that it does not know.

    Args:
        schema: of the rows.
        fits: of the columns that it knows. columns: what it has found, in the order of `fits`.
        at: the position of each row's value.
        bad: positions of other values, and why they are no rows.
    """
    arrays: dict[str, pa.Array] = {}
    good, count, wrong = None, len(at), dict(bad)
    if fits:
        known = pa.schema([schema.field(name) for name in fits])
        rows, good, misfits = _fitted(known, list(fits.values()), columns)
        wrong |= {at[i]: reason for i, reason in misfits.items()}
        arrays, count = dict(zip(fits, rows.columns, strict=True)), rows.num_rows
    whole = [arrays[f.name] if f.name in arrays else pa.nulls(count, f.type) for f in schema]
    return FormatRows(pa.RecordBatch.from_arrays(whole, schema=schema), _placed(at, good), sorted(wrong.items()))


def _placed(at: Sequence[int], good: np.ndarray | None) -> Sequence[int]:
    """Of positions, those of the rows that fit."""
    return at if good is None else list(compress(at, good.tolist()))


def by_rules(rule: Rules, value: object) -> object:
    """A value in the forms that other programs' JSON may have it in, by the rules of its type. Raises Misfit."""
    return rule.read(rule.sent(value))


def whole(value: object) -> int:
    """An int64. Raises Misfit."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misfit(f"expected an integer, got {named(value)}")
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise Misfit(f"{value} is beyond an int64")
    return value


def number(value: object) -> float:
    """A double, neither NaN nor infinite; an integer is one, too. Raises Misfit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misfit(f"expected a number, got {named(value)}")
    if isinstance(value, float) and not isfinite(value):
        raise Misfit(f"{value} is not finite")
    return float(value)


def truth(value: object) -> bool:
    """A bool. Raises Misfit."""
    if not isinstance(value, bool):
        raise Misfit(f"expected a bool, got {named(value)}")
    return value


def text(value: object) -> str:
    """A string. Raises Misfit."""
    if not isinstance(value, str):
        raise Misfit(f"expected a string, got {named(value)}")
    return value


def raw(value: object) -> bytes:
    """Bytes. Raises Misfit."""
    if not isinstance(value, bytes):
        raise Misfit(f"expected bytes, got {named(value)}")
    return value


def named(value: object) -> str:
    """What a value is, for people."""
    words = {"str": "a string", "int": "an integer", "float": "a number", "bool": "a bool", "dict": "a record",
             "list": "an array", "bytes": "bytes", "NoneType": "null"}  # fmt: skip
    return words.get(type(value).__name__, f"a {type(value).__name__}")


def is_decimal(kind: str) -> bool:
    """Whether a column's type is a decimal."""
    return parse_type(kind).kind == "decimal"


LEVELS_MAX = JSON_LEVELS_MAX + 1
"""How deeply a value may be nested, as an object of JSON may."""
