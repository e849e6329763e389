"""What a test looks at: corrected rows, and dead letters with their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from borealis_py.client.subscriber import Row
from borealis_py.log.base import NewRecord, Record
from borealis_py.log.corrected import dead_letter
from borealis_py.query.errors import QueryError, did_you_mean
from sunion.model import Reject


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A dead letter.

    `source`: where the row came from: a source, or the node or query that could not compute with it. `reason`: why it
    could not be used. `raw`: its bytes, as the dead-letter topic keeps them. `bucket`: the number of the bucket with
    which it was written.
    """

    source: str
    reason: str
    raw: bytes
    bucket: int


def refused(bucket: int, reject: Reject) -> RefusedRow:
    """A reject as its record in the dead-letter topic says it."""
    return refused_in(dead_letter("", "", bucket, reject))


def refused_in(record: Record | NewRecord) -> RefusedRow:
    """A record of the dead-letter topic."""
    headers = {name: value.decode() for name, value in record.headers}
    return RefusedRow(headers["source"], headers["reason"], record.value or b"", int(headers["bucket"]))


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """What `run` computed: `results["sales"]` is the query's rows as dicts, in order.

    `streams`: the corrected stream of each query; of a partitioned query, one partition after the other.
    `dead_letters`: every row that could not be used. A test that expects none asserts that it is empty.
    """

    streams: Mapping[str, tuple[Row, ...]]
    dead_letters: tuple[RefusedRow, ...]

    def __getitem__(self, query: str) -> list[dict[str, Any]]:
        return [row.value for row in self.corrected(query)]

    def corrected(self, query: str) -> list[Row]:
        """A query's rows with their ids and stimes, as `subscribe` yields them.

        Raises:
            QueryError: no such query.
        """
        if query not in self.streams:
            hint = did_you_mean(query, self.streams) or ";"
            raise QueryError(f"no results of {query!r}{hint} queries: {', '.join(self.streams)}")
        return list(self.streams[query])

    def __repr__(self) -> str:
        parts = [f"{query}: {len(rows)} rows" for query, rows in self.streams.items()]
        if self.dead_letters:
            first = self.dead_letters[0]
            parts.append(f"{len(self.dead_letters)} dead letters, the first of {first.source}: {first.reason}")
        return f"<Results {'; '.join(parts)}>"
