"""The drills' query, twice: as an app of the product, and as the plain functions that the checker recomputes it with.

Three sources, a filter on their union (the cut node `cleaned` where there is a chain), then sums over half a second
for each source and key. `latest` depends on the order of rows, so replicas that order them differently are caught.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import pyarrow as pa

from borealis_py.verify.envelope import Row, Value
from borealis_py.verify.network import ModelStage, Network, stime_of
from tests.harness.poison import refused_by_kernel

SOURCES = ("a", "b", "c")
COLUMNS = ("origin", "k", "v")
BUCKET_US = 100_000
WINDOW_US = 500_000
NODE, QUERY = "cleaned", "sums"


def cleaned(rows: Sequence[Row]) -> list[Row]:
    """The rows that have a `v`."""
    return [row for row in rows if row[2] is not None]


def poisoned(row: Row) -> bool:
    """The filter fails on it."""
    origin, _, v, _ = row
    return refused_by_kernel(str(origin), None if v is None else whole(v))


def sums(rows: Sequence[Row]) -> list[Row]:
    """Count, sum and last of `v` for each half second, source and key; rows ordered by window, then keys."""
    groups: dict[tuple[int, str, int], list[int]] = {}
    for row in rows:
        origin, k, v, _ = row
        groups.setdefault((stime_of(row) // WINDOW_US * WINDOW_US, str(origin), whole(k)), []).append(whole(v))
    return [
        (at, at + WINDOW_US, origin, k, len(vs), sum(vs), vs[-1], at + WINDOW_US - 1)
        for (at, origin, k), vs in sorted(groups.items())
    ]


def by_row(row: Row) -> dict[Hashable, int]:
    """What adds up where rows are taken one by one: how often each is there."""
    return {row: 1}


def by_group(row: Row) -> dict[Hashable, int]:
    """What adds up of `sums`: count and sum of each group."""
    at, _, origin, k, n, total, _, _ = row
    if not isinstance(n, int) or not isinstance(total, int):
        return {row: 1}  # no result of `sums`
    return {(at, origin, k, "n"): n, (at, origin, k, "total"): total}


def sums_of_all(rows: Sequence[Row]) -> list[Row]:
    """Both stages in one node."""
    return sums(cleaned(rows))


def whole(value: Value) -> int:
    """A column that is never null here."""
    assert isinstance(value, int)
    return value


_INPUT = pa.schema([("origin", pa.string()), ("k", pa.int64()), ("v", pa.int64()), ("stime", pa.int64())])
_OUTPUT = pa.schema(
    [
        ("window_start", pa.int64()),
        ("window_end", pa.int64()),
        ("origin", pa.string()),
        ("k", pa.int64()),
        ("n", pa.int64()),
        ("total", pa.int64()),
        ("latest", pa.int64()),
        ("stime", pa.int64()),
    ]
)

CHAIN = Network(
    SOURCES,
    COLUMNS,
    BUCKET_US,
    (
        ModelStage(NODE, _INPUT, cleaned, origin=0, adds=by_row, refuses=poisoned),
        ModelStage(QUERY, _OUTPUT, sums, origin=2, reach_us=WINDOW_US, adds=by_group),
    ),
)
PARTITIONS, NODE_BY, QUERY_BY = 2, "v", "k"
PARTED = replace(
    CHAIN,
    stages=(
        replace(CHAIN.stages[0], partitions=PARTITIONS, by=_INPUT.names.index(NODE_BY)),
        replace(CHAIN.stages[1], partitions=PARTITIONS, by=_OUTPUT.names.index(QUERY_BY)),
    ),
)
"""The chain with each node in two partitions, by different keys, so that every partition feeds every other."""
FOREIGN = "c.0"
"""The input that source c has where it is a foreign topic of one partition."""
WITH_FOREIGN = replace(PARTED, sources=(*SOURCES[:2], FOREIGN))
"""The same, and source c is a foreign topic."""
_SINGLE = ModelStage(QUERY, _OUTPUT, sums_of_all, origin=2, reach_us=WINDOW_US, adds=by_group, refuses=poisoned)
SINGLE = Network(SOURCES, COLUMNS, BUCKET_US, (_SINGLE,))


def row_of(source: str, n: int) -> dict[str, object]:
    """Tuple number `n` of a source: what its publisher sends, now and after a restart."""
    return {"origin": source, "k": n % 3, "v": None if n % 7 == 3 else n * 37 % 101}
