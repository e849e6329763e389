"""What an ingress copies, and into what, as a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.client.target import Target
from borealis_py.ingress.decoder import Int64s
from borealis_py.query.ingress_spec import IngressSpec


@dataclass(frozen=True, slots=True)
class IngressPlan:
    """One foreign topic and the inputs that it feeds.

    `spec`: as the app describes it, with its number of inputs. `columns`: of its rows, with their types. `targets`: one
    for each input, in order: partition i of the source. `begin`: of a topic that is read from its end, the offset where
    each partition begins; later partitions begin at their first record. None: where the topic ends when nobody has
    copied it yet.
    """

    spec: IngressSpec
    columns: Mapping[str, str]
    targets: tuple[Target, ...]
    begin: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.targets or len(self.targets) != self.spec.inputs:
            raise ValueError(f"{len(self.targets)} targets for {self.spec.inputs} inputs")

    @property
    def name(self) -> str:
        """The topic in messages."""
        return f"topic {self.spec.topic!r}"

    @property
    def rest(self) -> int | None:
        """The input that takes the values that the user has not named; None: there is none."""
        return len(self.spec.values) if self.spec.by is not None and self.spec.other else None

    def feeders(self, index: int, partitions: Iterable[int]) -> tuple[int, ...]:
        """Which of these partitions feed input `index`."""
        if self.spec.by is not None:
            return tuple(partitions)
        return tuple(p for p in partitions if self.spec.input_of_partition(p) == index)

    def fed_by(self, partition: int) -> tuple[int, ...]:
        """The inputs that a partition feeds."""
        return tuple(range(len(self.targets))) if self.spec.by is not None else (self.refuser(partition),)

    def refuser(self, partition: int) -> int:
        """The input that takes the dead letters of a partition: with `by` the last one, for their value is unknown."""
        return len(self.targets) - 1 if self.spec.by is not None else self.spec.input_of_partition(partition)

    def inputs_of(self, partition: int, rows: pa.RecordBatch) -> Int64s:
        """The input of each row."""
        if self.spec.by is None:
            return np.full(rows.num_rows, self.spec.input_of_partition(partition), np.int64)
        coded = rows.column(self.spec.by).dictionary_encode()
        of = [self.spec.input_of_value(value) for value in coded.dictionary.to_pylist()]
        other = len(self.spec.values)
        codes = pc.fill_null(coded.indices, len(of)).to_numpy(zero_copy_only=False)
        found: Int64s = np.asarray([*of, other], np.int64)[codes]
        return found
