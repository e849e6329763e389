"""Audits of streams of lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from borealis_py.log.base import Feed, Lookup, Record
from borealis_py.log.corrected import Progress, row_headers
from reconcile.audit import Audited, AuditSpec
from tests.reconcile.list_world import ORIGIN, ListKernel, StubLog, StubLookup, batch, claim, list_work
from tests.reconcile.replica import Replica

SOURCE = [claim(1, "a"), *(batch(1, "a", i, [(10_000 + 1000 * i, i)], 11_000 + 1000 * i) for i in range(20))]


CORRECTED, PROGRESS = Feed("app.q"), Feed("app.q.progress")


class CorrectedLog(StubLog):
    """Also holds whole records. No simulated log, since an audit takes it to Spark's workers."""

    def lookup(self) -> Lookup:
        return CorrectedLookup(self.logs, self.lost)


class CorrectedLookup(StubLookup):
    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        for offset in range(first, end):
            value = self.logs[feed.topic][offset]
            if isinstance(value, Record):
                yield msgspec.structs.replace(value, feed=feed, offset=offset)
            elif value is not None:
                yield from super().read(feed, offset, offset + 1)


def published(upto: int) -> list[Record | None]:
    """What a publisher writes of buckets [ORIGIN, upto); a None is a commit marker."""
    kernel = ListKernel()
    records: list[Record | None] = []
    for bucket, output in Replica(kernel, {"s": SOURCE}).expected(ORIGIN, upto).items():
        for i, (value, stime) in enumerate(kernel.published(output.rows)):
            records.append(Record(CORRECTED, 0, 0, None, value, row_headers(bucket, i, stime)))
        records.append(None)
    return records


def spec(
    rows: list[Record | None],
    progress: int | None,
    whole: bool = False,
    lost: int = 0,
    start: Audited | None = None,
    advance: bool = False,
    patience_s: float = 0.0,
) -> AuditSpec:
    marks = (
        [] if progress is None else [msgspec.json.encode(Progress("a1", b, 0, 1)) for b in range(ORIGIN, progress + 1)]
    )
    logs = {"s": SOURCE, "app.q": rows, "app.q.progress": [*marks, *[None] * 40]}
    work = replace(list_work({"s": SOURCE}), log=CorrectedLog(logs, lost))
    return AuditSpec(work, CORRECTED, PROGRESS, ORIGIN, whole, None, start, advance, patience_s)
