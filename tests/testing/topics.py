"""Apps that read topics of other programs, and an independent reading of what they copy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from borealis_py import App
from borealis_py.testing import START_US, TopicRecord

ORDER = {"id": "int64", "shop": "string", "at": "int64"}
BUCKET_MS, LATENESS_MS = 100, 2_000
START_MS = START_US // 1_000


def orders(threshold: str = "3s", **how: Any) -> App:
    """An app whose result shows which rows of a topic were copied, and in which order."""
    app = App("shop")
    given = {"stime": "at", "stime_unit": "ms", **how}
    read = app.topic("orders", topic="prod.orders", schema=ORDER, **given)
    app.query("ids", read.map(id="id", shop="shop"), delay_threshold=threshold, replicas=1)
    return app


def order(number: int, at_ms: int, shop: str = "berlin", partition: int = 0) -> TopicRecord:
    """An order at so many milliseconds from the beginning, written at its own time."""
    time = START_US + at_ms * 1_000
    return TopicRecord({"id": number, "shop": shop, "at": START_MS + at_ms}, partition, time)


def copied(records: Sequence[TopicRecord]) -> tuple[list[int], list[int]]:
    """The ids of the rows in the order in which a query reads them, and those of the late ones, by what `lateness`
    means: a row is late if the buckets up to its own have closed, 2 s behind the largest time of its partition."""
    largest: dict[int, int] = {}
    rows, late = [], []
    for n, record in enumerate(records):
        assert isinstance(record.value, dict)
        at, p = record.value["at"], record.partition
        closed = (largest.get(p, -(10**15)) - LATENESS_MS) // BUCKET_MS * BUCKET_MS
        if at < closed:
            late.append(record.value["id"])
        else:
            rows.append((at, p, n, record.value["id"]))
        largest[p] = max(largest.get(p, at), at)
    return [row[-1] for row in sorted(rows)], late


def ids_of(letters: Sequence[Any]) -> list[int]:
    """The ids of records that became dead letters."""
    return [json.loads(letter.raw)["id"] for letter in letters]
