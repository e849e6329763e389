"""Distinct: the rows before which, for a time, no row had the same key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from borealis_py.engine.classes import OperatorClass
from borealis_py.engine.duck import Statement
from borealis_py.engine.keyed.kept_rows import KeptRows, Probes, hashed
from borealis_py.engine.operators import NodeOutputs, Partial, Rows, Slice
from borealis_py.query.names import STIME


@dataclass(frozen=True)
class DistinctOperator:
    """The rows of operator `input` whose key, the columns `by`, no row had in the `within_us` microseconds before.

    `hash`: hashes keys. `kept`: how the keys and stimes of rows are kept.
    """

    operator_class: ClassVar = OperatorClass.CONVERGENT
    input: int
    by: tuple[str, ...]
    within_us: int
    hash: Statement
    kept: KeptRows

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.input,)

    @property
    def lookback(self) -> int:
        """How many earlier buckets a result may depend on."""
        return self.kept.reach

    @property
    def state_schemas(self) -> tuple[pa.Schema, ...]:
        """Of its state: the keys of all rows that came lately."""
        return (self.kept.schema,)

    def run(
        self, part: Slice, slots: NodeOutputs, state: Sequence[Sequence[Partial]]
    ) -> tuple[Rows, tuple[tuple[Partial, ...], ...]]:
        """The slice's rows without repeats, and the keys that later buckets need."""
        rows = slots[self.input]
        if rows is None:
            blocks = self.kept.added(state[0], None, hashed(self.hash, _none(self.hash)), part.end).blocks
            return None, (self.kept.current(blocks, part.end),)
        keys = [rows.column(name) for name in self.by]
        hashes = hashed(self.hash, keys)
        kept = self.kept.added(state[0], rows, hashes, part.end)
        stimes = rows.column(STIME).to_numpy()
        probes = Probes(hashes, keys, stimes - self.within_us, stimes)
        first = self.kept.earliest(kept.blocks, probes) == kept.ranks  # at least the row itself is found
        found = rows if first.all() else rows.filter(pa.array(first)) if first.any() else None
        return found, (self.kept.current(kept.blocks, part.end),)


def _none(statement: Statement) -> list[pa.Array]:
    return [pa.nulls(0, field.type) for field in statement.input]
