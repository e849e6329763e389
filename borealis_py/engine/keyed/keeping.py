"""What operators that keep rows from bucket to bucket have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from borealis_py.engine.keyed.kept_rows import Kept, KeptRows, hashed
from borealis_py.engine.operators.base import Operator, OperatorState, Rows, Slice
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.engine.operators.increments import StatePart
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.query.names import STIME
from sunion.errors import EngineOutOfMemory

EVER = 2**62
"""More buckets than there are: a result may depend on any earlier one."""
COLUMN_BYTES_MAX = 2**31 - 1
"""Texts of a column that are together at once: Arrow's offsets are of 32 bits."""


@dataclass(frozen=True)
class NewRows:
    """The `rows` of a slice, the columns of their `keys` and the `hashes` of these, and all that is `kept`, these
    included."""

    rows: pa.RecordBatch
    keys: Sequence[pa.Array]
    hashes: np.ndarray
    kept: Kept

    @property
    def stimes(self) -> np.ndarray:
        found: np.ndarray = self.rows.column(STIME).to_numpy()
        return found


@dataclass(frozen=True)
class ComparingOperator(Operator):
    """Compares each row of `inputs` with those of its key that came in the `within_us` microseconds before.

    `kept`: how rows are kept, and by which key. `hash`: hashes keys; None: all rows have one.
    """

    operator_class: ClassVar = OperatorClass.CONVERGENT
    inputs: tuple[int]
    within_us: int
    kept: KeptRows
    hash: Statement | None

    @property
    def lookback(self) -> int:
        return self.kept.reach

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        return (self.kept,)

    def run(self, part: Slice, state: OperatorState) -> tuple[Rows, OperatorState]:
        rows = self.rows(part)
        if rows is None:
            blocks = self.kept.added(state[0], None, np.zeros(0, dtype=np.int64), part.end).blocks
            return None, (self.kept.current(blocks, part.end),)
        keys = [rows.column(name) for name in self.kept.by]
        hashes = np.zeros(rows.num_rows, dtype=np.int64) if self.hash is None else hashed(self.hash, keys)
        new = NewRows(rows, keys, hashes, self.kept.added(state[0], rows, hashes, part.end))
        return self.compared(part, new), (self.kept.current(new.kept.blocks, part.end),)

    @abstractmethod
    def compared(self, part: Slice, new: NewRows) -> Rows:
        """The results of the slice's rows."""


def check_memory(what: str, needed_bytes: int, limit_bytes: int, advice: str) -> None:
    """Check that results which are made together fit into the engine's memory on this machine.

    Raises:
        EngineOutOfMemory: they do not; with fewer buckets at once they may.
    """
    limit = min(limit_bytes, COLUMN_BYTES_MAX)
    if needed_bytes > limit:
        raise EngineOutOfMemory(
            f"{what} need {needed_bytes >> 20} MiB at once, the limit is {limit >> 20} MiB. Raise `engine_memory` in "
            "borealis.yaml (or BOREALIS_ENGINE_MEMORY) and run `borealis up` again: it resumes from its last "
            f"checkpoint. {advice}"
        )
