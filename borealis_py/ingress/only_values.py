"""Refuses rows whose value has no input, where a topic is divided by values and there are to be no others."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as short

import numpy as np
import pyarrow as pa

from borealis_py.ingress.formats.base import FormatRows
from borealis_py.query.ingress_spec import IngressSpec


class OnlyValues:
    """Args:
    by: the column. values: those that have an input.
    """

    def __init__(self, by: str, values: Sequence[bool | int | str]) -> None:
        self._by = by
        self._values = frozenset((type(one), one) for one in values)

    @classmethod
    def of(cls, spec: IngressSpec) -> OnlyValues | None:
        """Of this topic; None: all values have an input."""
        return None if spec.by is None or spec.other else cls(spec.by, spec.values)

    def kept(self, found: FormatRows) -> FormatRows:
        """The rows whose value is one of these; the others are bad, with the reason."""
        coded = found.rows.column(self._by).dictionary_encode()
        known = [(type(one), one) in self._values for one in coded.dictionary.to_pylist()]
        index = coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
        good = np.asarray([*known, False], np.bool_)[index]
        if good.all():
            return found
        at, column = np.asarray(found.at, np.int64), found.rows.column(self._by)
        wrong = [(int(at[i]), self._reason(column[i].as_py())) for i in np.flatnonzero(~good).tolist()]
        return FormatRows(found.rows.filter(pa.array(good)), at[good].tolist(), sorted([*found.bad, *wrong]))

    def _reason(self, value: object) -> str:
        return (
            f"malformed: column {self._by!r} is {'null' if value is None else short(value)}, which values= does not "
            "name: add it, or leave other=False out"
        )
