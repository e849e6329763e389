"""What a row costs as JSON and as Arrow, to the publisher that writes it and to the replica that reads it.

    python -m benchmarks.measure.encodings

Both ways begin with rows that the publisher has checked and end with a batch that the engine takes, of as many records
as one turn reads; that the batches are equal is checked. See docs/decisions/023-publishers-write-json.md.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from borealis_py.bench import events
from borealis_py.bench.events import BUCKET_US, SCHEMA, START_US
from borealis_py.bench.figures import BenchError
from borealis_py.client.rows import RowSchema
from borealis_py.engine import canonical_hash
from borealis_py.engine.arrow.rows import Parsed
from borealis_py.engine.codec import ArrowSourceCodec

PER_RECORD = (33, 500, 5_000)
ROWS = 20_000
"""Of one run, in records of one size."""
RUNS = 15
TURN_RECORDS = 20
"""Records of a source that a replica which catches up reads in a turn, at 33 rows a record; fewer of larger ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingCost:
    """Microseconds of processor time a row, the medians of the runs, and bytes a row in the record."""

    encoding: str
    per_record: int
    write_us: float
    read_us: float
    row_bytes: float


class _Rows:
    """Checked rows in records, and both ways of writing them."""

    def __init__(self, per_record: int) -> None:
        self.per_record = per_record
        self._schema = RowSchema(SCHEMA)
        self._codec = ArrowSourceCodec("s", SCHEMA)
        rows = [events.row(i, START_US + i) for i in range(ROWS)]
        starts = range(0, ROWS - per_record + 1, per_record)
        self.records = [self._schema.checked(rows[at : at + per_record]) for at in starts]
        self.stimes = [[START_US + i * BUCKET_US // per_record for i in range(per_record)] for _ in starts]
        self._getters = [attrgetter(f"f{i}") for i in range(len(SCHEMA))]
        self._columns = [field for field in self._codec.schema if field.name in SCHEMA]

    @property
    def rows(self) -> int:
        return len(self.records) * self.per_record

    def as_json(self, record: Sequence[Any]) -> bytes:
        joined = self._schema.joined(record)
        if joined is None:
            raise BenchError("a record of events is too large")
        return b"[" + joined + b"]"

    def as_arrow(self, record: Sequence[Any]) -> bytes:
        pairs = zip(self._getters, self._columns, strict=True)
        arrays = [pa.array(list(map(get, record)), field.type) for get, field in pairs]
        return self._codec.encode(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(self._columns)))

    def read(self, payloads: Sequence[bytes], encoding: str) -> list[pa.RecordBatch]:
        """A batch a turn."""
        found = []
        for at in range(0, len(payloads), TURN_RECORDS):
            pairs = zip(payloads[at : at + TURN_RECORDS], self.stimes[at : at + TURN_RECORDS], strict=True)
            parts = [self._codec.decode(payload, encoding, stimes)[0] for payload, stimes in pairs]
            found.append(_whole(parts))
        return found


def measure(per_record: int, runs: int = RUNS) -> list[EncodingCost]:
    """JSON, and Arrow. Raises BenchError: the rows read are not the same."""
    rows = _Rows(per_record)
    ways: dict[str, Callable[[Sequence[Any]], bytes]] = {"json": rows.as_json, "arrow": rows.as_arrow}
    payloads = {name: [way(record) for record in rows.records] for name, way in ways.items()}
    hashes = [[canonical_hash(batch) for batch in rows.read(payloads[name], name)] for name in ways]
    if hashes[0] != hashes[1]:
        raise BenchError(f"at {per_record} rows a record JSON and Arrow give different rows")
    wrote: dict[str, list[float]] = {name: [] for name in ways}
    read: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            wrote[name].append(_cpu_us(lambda way=way: [way(record) for record in rows.records]) / rows.rows)  # type: ignore[misc]
            read[name].append(_cpu_us(lambda name=name: rows.read(payloads[name], name)) / rows.rows)  # type: ignore[misc]
    return [
        EncodingCost(
            encoding=name,
            per_record=per_record,
            write_us=median(wrote[name]),
            read_us=median(read[name]),
            row_bytes=sum(map(len, payloads[name])) / rows.rows,
        )
        for name in ways
    ]


def _whole(parts: list[Any]) -> pa.RecordBatch:
    return Parsed.batch(parts) if isinstance(parts[0], Parsed) else pa.concat_batches(parts)


def _cpu_us(what: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time_ns()
    what()
    return (time.process_time_ns() - started) / 1e3


def main() -> None:
    table = Table("rows a record", "encoding", "write, us a row", "read, us a row", "bytes a row")
    for per_record in PER_RECORD:
        for cost in measure(per_record):
            figures = (f"{cost.write_us:.2f}", f"{cost.read_us:.2f}", f"{cost.row_bytes:.0f}")
            table.add_row(f"{per_record:,}", cost.encoding, *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
