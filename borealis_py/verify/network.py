"""A query network as plain Python functions, and what it must say: recomputed from rows alone.

A row is a tuple whose last field is its stime in microseconds. Each stage reads the stage before it, the first one the
union of all sources in total order: stime, then the source's place in `sources`, then its place in that source's log.
Where a column names a row's source in every stage (`origin`), what one source contributed can be judged alone.

What a model computes may differ from the product in a double's last bits (`agrees`): two programs add in two orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import pyarrow as pa

from borealis_py.verify.envelope import Row
from borealis_py.verify.partitions import Piece, merged, partition_of

RELATIVE = 1e-9
ABSOLUTE = 1e-12
"""Below this, two sums of the same numbers in different order may differ where the true value is zero."""
SAID_MAX = 20_000
"""Inputs of a stage whose outputs are kept: a search computes one row again and again, and replicas say the same."""
Lacked = Mapping[int, frozenset[str]]
"""By bucket: the sources that were missing."""


@dataclass(frozen=True)
class ModelStage:
    """One node: `compute` maps all rows of its input to all rows of its output, both in their order.

    Attributes:
        schema: of the rows as they lie in replica topics; the last column is the stime.
        origin: index of the column that names the source; None: there is none.
        reach_us: how far before the end of its own bucket a result's input may lie; 0: in its own bucket.
        partitions: how many it runs in, by the value of column number `by`; 0: it is not partitioned.
        adds: what of a row of the output adds up, by any name: for two sets of input rows the sum over the output of
            both together is that of the one and of the other. An input row that alone gives no output makes no
            difference. None: nothing is known to.
        refuses: of the first stage, the rows of its input that it cannot compute: dead letters of its own.
    """

    name: str
    schema: pa.Schema
    compute: Callable[[Sequence[Row]], list[Row]]
    origin: int | None
    reach_us: int = 0
    partitions: int = 0
    by: int = 0
    adds: Callable[[Row], Mapping[Hashable, int]] | None = None
    refuses: Callable[[Row], bool] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Of a corrected row: its stime travels in a header."""
        return tuple(self.schema.names[:-1])

    @property
    def parts(self) -> list[str]:
        """What its partitions are called in names of topics."""
        return [f"{self.name}.{i}" for i in range(self.partitions)] or [self.name]

    def part_of(self, row: Row) -> int:
        """The partition that a row with the key column belongs to."""
        key = self.schema.names[self.by]
        return partition_of(row[self.by], str(self.schema.field(key).type), self.partitions) if self.partitions else 0

    def says(self, rows: Sequence[Row]) -> list[Row]:
        """All it makes of all rows of its input, in the order of its stream."""
        return list(self._said(tuple(rows)))

    @cached_property
    def _said(self) -> Callable[[tuple[Row, ...]], list[Row]]:
        """`_computed`, and what it gave."""
        return lru_cache(SAID_MAX)(self._computed)

    def _computed(self, rows: tuple[Row, ...]) -> list[Row]:
        found = self.compute([row for row in rows if self.refuses is None or not self.refuses(row)])
        return [tuple(row) for row in merged(found, self.by)] if self.partitions else found


@dataclass(frozen=True)
class Network:
    """`sources` in the order of the union; `columns` of a source's tuples; `bucket_us`: the app's bucket width.
    `stages`: each reads the one before, the first the union; the last one is the query.

    A partitioned stage's key must be a column of what it reads, too.
    """

    sources: tuple[str, ...]
    columns: tuple[str, ...]
    bucket_us: int
    stages: tuple[ModelStage, ...]

    def run(self, rows: Mapping[str, Sequence[Row]], stages: int | None = None) -> list[Row]:
        """Output of the first `stages` stages (default: all) for these rows of each source."""
        ranked = [(row[-1], rank, n, row) for rank, s in enumerate(self.sources) for n, row in enumerate(rows[s])]
        found = [row for *_, row in sorted(ranked, key=lambda r: r[:3])]
        for stage in self.stages[:stages]:
            found = stage.says(found)
        return found

    def pieces(self, stage: int) -> list[Piece]:
        """Every Kafka partition that a replica of this stage, in all its partitions, writes."""
        last = stage + 1 == len(self.stages)
        readers = 1 if last else max(1, self.stages[stage + 1].partitions)
        return [Piece(stage, i, j) for i in range(len(self.stages[stage].parts)) for j in range(readers)]

    def keep(self, rows: Iterable[Row], piece: Piece) -> list[Row]:
        """The rows of a stage that lie in a piece of it."""
        found = [row for row in rows if self.stages[piece.stage].part_of(row) == piece.part]
        return found if piece.stage + 1 == len(self.stages) else [r for r in found if self._reader_of(r, piece)]

    def _reader_of(self, row: Row, piece: Piece) -> bool:
        """Whether it is written for the piece's reader: by the reader's key, which is a column of this stage's."""
        reader = self.stages[piece.stage + 1]
        if not reader.partitions:
            return piece.reader == 0
        stage = self.stages[piece.stage]
        column = stage.schema.names.index(reader.schema.names[reader.by])
        kind = str(stage.schema.field(column).type)
        return partition_of(row[column], kind, reader.partitions) == piece.reader


def by_bucket(rows: Iterable[Row], bucket_us: int) -> dict[int, tuple[Row, ...]]:
    """Rows by bucket, in their order."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(stime_of(row) // bucket_us, []).append(row)
    return {bucket: tuple(rows) for bucket, rows in found.items()}


def same(found: object, expected: object) -> bool:
    """Equal: doubles within `RELATIVE`, everything else exactly, types included."""
    if isinstance(expected, float) and isinstance(found, int | float) and not isinstance(found, bool):
        return math.isclose(found, expected, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(found) is type(expected) and found == expected


def agrees(found: Sequence[Row], expected: Sequence[Row]) -> bool:
    """Whether rows are those that a model computes."""
    if len(found) != len(expected):
        return False
    return all(len(a) == len(b) and all(map(same, a, b)) for a, b in zip(found, expected, strict=True))


def stime_of(row: Row) -> int:
    """A row's stime, microseconds."""
    stime = row[-1]
    assert isinstance(stime, int)
    return stime


@dataclass
class Truth:
    """What each stage of `network` must say, given the `tuples` in the sources' logs (by source, in log order)."""

    network: Network
    tuples: Mapping[str, Sequence[Row]]
    _stable: dict[Piece, dict[int, tuple[Row, ...]]] = field(init=False)
    _source: dict[str, dict[int, tuple[tuple[Row, ...], ...]]] = field(init=False)
    """By source and bucket: the rows for each partition of the first stage."""

    def __post_init__(self) -> None:
        network, width = self.network, self.network.bucket_us
        self._stable = {}
        for stage in range(len(network.stages)):
            rows = network.run(self.tuples, stage + 1)
            self._stable |= {p: by_bucket(network.keep(rows, p), width) for p in network.pieces(stage)}
        self._source = {}
        for source in network.sources:
            found = by_bucket(self.tuples[source], width)
            self._source[source] = {bucket: self._parted(rows) for bucket, rows in found.items()}

    def _parted(self, rows: Sequence[Row]) -> tuple[tuple[Row, ...], ...]:
        first = self.network.stages[0]
        if not first.partitions:
            return (tuple(rows),)
        column = self.network.columns.index(first.schema.names[first.by])
        kind = str(first.schema.field(first.by).type)
        where = [partition_of(row[column], kind, first.partitions) for row in rows]
        parts = range(first.partitions)
        return tuple(tuple(row for row, at in zip(rows, where, strict=True) if at == part) for part in parts)

    def stable(self, piece: Piece) -> dict[int, tuple[Row, ...]]:
        """Rows of a piece by bucket on complete input; buckets without rows are left out."""
        return self._stable[piece]

    def parts(self, source: str, bucket: int) -> tuple[tuple[Row, ...], ...]:
        """A source's rows of a bucket, for each partition of the first stage, in the order of its log."""
        return self._source[source].get(bucket, ())
