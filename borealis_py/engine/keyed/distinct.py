"""Distinct: the rows before which, for a time, no row had the same key."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from borealis_py.engine.keyed.keeping import ComparingOperator, NewRows
from borealis_py.engine.keyed.kept_rows import Probes
from borealis_py.engine.operators.base import Rows, Slice


@dataclass(frozen=True)
class DistinctOperator(ComparingOperator):
    """The rows whose key no row had in the time before. Of each row its key and its stime are kept."""

    def compared(self, part: Slice, new: NewRows) -> Rows:
        probes = Probes(new.hashes, new.keys, new.stimes - self.within_us, new.stimes)
        first = self.kept.earliest(new.kept.blocks, probes) == new.kept.ranks  # at least the row itself is found
        if first.all():
            return new.rows
        return new.rows.filter(pa.array(first)) if first.any() else None
