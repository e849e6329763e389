"""What a transaction of a replica holds, counted without the product's help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from borealis_py.log.base import NewRecord


def rows_by_bucket(records: Sequence[NewRecord]) -> Counter[int]:
    """Rows plus dead letters of each bucket in a transaction."""
    found = (_bucket(r) for r in records if not r.feed.topic.endswith(".progress"))
    return Counter(int(bucket) for bucket in found if bucket is not None)


def _bucket(record: NewRecord) -> bytes | None:
    """A row's id has it, and a dead letter's header; what only ends an older transaction has none."""
    headers = dict(record.headers)
    return headers["id"].partition(b":")[0] if "id" in headers else headers.get("bucket")
