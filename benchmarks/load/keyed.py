"""The app that `make bench NAME=scaling` measures: a node that passes everything on, followed by a query that is
partitioned by key and does some work for every row. Pure.

The work is an edit distance of two names of adjustable length: sums alone cost less than reading their input, so that
partitions would have nothing to share.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from borealis_py import App
from borealis_py.bench import events
from borealis_py.bench.events import KEPT, KeptTopics
from borealis_py.bench.figures import BenchError
from borealis_py.log.base import Record
from borealis_py.query.spec import PolicyName

SOURCE, NODE, QUERY, KEY = "s0", "clean", "alike", "customer"
DISTANCE = "avg(damerau_levenshtein(repeat(shop || '/' || kind, {0}), repeat(customer || '/' || kind, {0})))"

Results = dict[tuple[int, str], tuple[int, float, float]]
"""(window start, customer) -> count, sum, mean distance."""


class _Result(msgspec.Struct):
    window_start: int
    customer: str
    n: int
    total: float
    distance: float


def app(
    name: str,
    partitions: int,
    replicas: int = 1,
    policy: PolicyName = "process",
    length: int = 1,
    kept: KeptTopics = KEPT["default"],
) -> App:
    """Count, sum and mean distance per customer and second, in partitions by customer, behind a node.

    Args:
        policy: for failures, and corrections.
        length: how often each name is repeated before the distance is taken; its cost grows with the square.
    """
    built = App(name, bucket="100ms", retain=kept.app)
    clean = built.source(SOURCE, schema=events.SCHEMA, retain=kept.source).filter("amount >= 0").node(NODE)
    result = clean.window("1s").group_by(KEY).agg(n="count(*)", total="sum(amount)", distance=DISTANCE.format(length))
    built.query(QUERY, result, "3s", policy, policy, replicas, partitions, KEY)
    return built


def results(partitions: Iterable[list[Record]]) -> Results:
    """What a corrected stream holds.

    Args:
        partitions: the records of each.

    Raises:
        BenchError: a result is there twice, or a key in two partitions.
    """
    decode = msgspec.json.Decoder(_Result).decode
    found: Results = {}
    home: dict[str, int] = {}
    for partition, records in enumerate(partitions):
        for record in records:
            r = decode(record.value or b"")
            if (r.window_start, r.customer) in found or home.setdefault(r.customer, partition) != partition:
                raise BenchError(f"{record.feed.topic}: {r.customer} of {r.window_start} is there twice")
            found[r.window_start, r.customer] = r.n, r.total, r.distance
    return found


def check(found: Results, expected: Results, events_in: int, what: str) -> None:
    """Every event counted, and the same bits as before. Raises BenchError."""
    counted = sum(n for n, _, _ in found.values())
    if counted != events_in:
        raise BenchError(f"{what} counted {counted} of {events_in} events")
    wrong = sorted(k for k in found.keys() | expected.keys() if found.get(k) != expected.get(k))
    if wrong:
        raise BenchError(
            f"{what} gave other results than the first run: {len(wrong)} differ, first {wrong[0]}: "
            f"{found.get(wrong[0])} and {expected.get(wrong[0])}"
        )
