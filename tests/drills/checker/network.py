"""A query network as plain Python functions, and what it must say: recomputed from rows alone.

A row is a tuple whose last field is its stime in microseconds. Each stage reads the stage before it, the first one the
union of all sources in total order: stime, then the source's place in `sources`, then its place in that source's log.
`ORIGIN` is the column that names a row's source, in every stage: so what one source contributed can be judged alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import pyarrow as pa

Value = int | float | str | None
Row = tuple[Value, ...]
Lacked = Mapping[int, frozenset[str]]
"""By bucket: the sources whose word was missing."""

CHOICES_MAX = 20_000
"""So many ways in which lacked sources may have been there in part are tried before a bucket counts as unexplained."""


@dataclass(frozen=True)
class Stage:
    """One node: `compute` maps all rows of its input to all rows of its output, both in their order.

    Attributes:
        schema: of the rows as they lie in replica topics; the last column is the stime.
        origin: index of the column that names the source.
        reach_us: how far before the end of its own bucket a result's input may lie; 0: in its own bucket.
    """

    name: str
    schema: pa.Schema
    compute: Callable[[Sequence[Row]], list[Row]]
    origin: int
    reach_us: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Of a corrected row: its stime travels in a header."""
        return tuple(self.schema.names[:-1])


@dataclass(frozen=True)
class Network:
    """`sources` in the order of the union; `columns` of a source's tuples. The last stage is the query."""

    sources: tuple[str, ...]
    columns: tuple[str, ...]
    bucket_us: int
    stages: tuple[Stage, ...]

    def run(self, rows: Mapping[str, Sequence[Row]], stages: int | None = None) -> list[Row]:
        """Output of the first `stages` stages (default: all) for these rows of each source."""
        ranked = [(row[-1], rank, n, row) for rank, s in enumerate(self.sources) for n, row in enumerate(rows[s])]
        found = [row for *_, row in sorted(ranked, key=lambda r: r[:3])]
        for stage in self.stages[:stages]:
            found = stage.compute(found)
        return found

    def reach(self, stage: int, bucket: int) -> int:
        """The first bucket whose input can matter to what stage number `stage` says of `bucket`."""
        reach_us = max(s.reach_us for s in self.stages[: stage + 1])
        return min(bucket, ((bucket + 1) * self.bucket_us - reach_us) // self.bucket_us)


def by_bucket(rows: Iterable[Row], bucket_us: int) -> dict[int, tuple[Row, ...]]:
    """Rows by bucket, in their order."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(stime_of(row) // bucket_us, []).append(row)
    return {bucket: tuple(rows) for bucket, rows in found.items()}


def stime_of(row: Row) -> int:
    """A row's stime, microseconds."""
    stime = row[-1]
    assert isinstance(stime, int)
    return stime


@dataclass
class Truth:
    """What each stage must say, given what the sources' logs hold."""

    network: Network
    tuples: Mapping[str, Sequence[Row]]
    stable: list[dict[int, tuple[Row, ...]]] = field(init=False)
    """For each stage, rows by bucket on complete input; buckets without rows are left out."""
    _source: dict[str, dict[int, tuple[Row, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        width = self.network.bucket_us
        count = len(self.network.stages)
        self.stable = [by_bucket(self.network.run(self.tuples, n), width) for n in range(1, count + 1)]
        self._source = {s: by_bucket(self.tuples[s], width) for s in self.network.sources}

    def explains(self, stage: int, bucket: int, rows: Sequence[Row], lacked: Lacked) -> bool:
        """Whether `rows` follow from all input but that of lacked sources, of which any first part may have been there.

        Args:
            lacked: of every bucket that the result may depend on; a bucket not named lacked nothing.
        """
        seen: dict[str, list[Row]] = {s: [] for s in self.network.sources}
        origin = self.network.stages[stage].origin
        for row in rows:
            if row[origin] not in seen:
                return False
            seen[str(row[origin])].append(row)
        chosen: dict[str, list[Row]] = {}
        for source, wanted in seen.items():
            for used in self._possible(source, stage, bucket, lacked):
                if self._says(stage, bucket, {source: used}) == tuple(wanted):
                    chosen[source] = used
                    break
            else:
                return False
        return self._says(stage, bucket, chosen) == tuple(rows)

    def _says(self, stage: int, bucket: int, used: Mapping[str, Sequence[Row]]) -> tuple[Row, ...]:
        rows = {s: used.get(s, ()) for s in self.network.sources}
        return by_bucket(self.network.run(rows, stage + 1), self.network.bucket_us).get(bucket, ())

    def _possible(self, source: str, stage: int, bucket: int, lacked: Lacked) -> Iterator[list[Row]]:
        """What may have been there of one source in the buckets that matter, most likely first."""
        parts: list[list[tuple[Row, ...]]] = []
        for b in range(self.network.reach(stage, bucket), bucket + 1):
            rows = self._source[source].get(b, ())
            there = [rows[:n] for n in range(len(rows) + 1)] if source in lacked.get(b, ()) else [rows]
            parts.append(there)
        for n, choice in enumerate(product(*parts)):
            if n >= CHOICES_MAX:
                return
            yield [row for part in choice for row in part]
