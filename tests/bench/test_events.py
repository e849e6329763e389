"""The measured events: what the raw loop reads and what a source's log holds are the same, and a replica accepts it."""

import msgspec
import pytest

from borealis_py.bench import events
from borealis_py.bench.events import Backlog
from borealis_py.engine import compile_query
from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from reconcile.decode import decode_source
from sunion.bucket import Buckets
from sunion.model import Input
from sunion.union import SUnion

SMALL = Backlog(events=400, per_bucket=20)


def test_an_event_is_five_fields_and_about_ninety_bytes() -> None:
    sizes = [len(event) for event in Backlog(50_000, 5_000).plain()]
    assert 85 <= sum(sizes) / len(sizes) <= 95
    assert list(msgspec.json.decode(events.event_json(7, 123))) == list(events.SCHEMA)


def test_both_forms_hold_the_same_events() -> None:
    (_, *batches) = SMALL.records(Feed("s"), "a1")
    payloads = [(r.value or b"")[(r.value or b"").index(b"[{") :] for r in batches]
    rows = [row for payload in payloads for row in msgspec.json.decode(payload)]
    assert rows == [msgspec.json.decode(event) for event in SMALL.plain()]
    assert len(batches) == SMALL.buckets == 20


def test_the_kernel_gives_what_a_dict_gives() -> None:
    app = events.app("bench", 1, 1).describe()
    kernel = compile_query(app, events.QUERY)
    union = SUnion([Input.source("s0")], SMALL.origin, Buckets(events.BUCKET_US), kernel, 10**12)
    for offset, new in enumerate(SMALL.records(Feed("s"), "a1")):
        record = Record(new.feed, offset, new.timestamp_ms or 0, None, new.value)
        union.feed(0, decode_source(record, kernel.source_codec("s0"), "s0", Life("a1")))
    assert union.complete == SMALL.end
    _, outputs = kernel.step(kernel.initial(), SMALL.origin, SMALL.end, union.ordered(SMALL.origin, SMALL.end))
    found = {
        (row["window_start"], row["customer"]): (row["n"], row["total"])
        for output in outputs.values()
        for row in kernel.to_dicts(output.rows)
    }
    kernel.close()
    expected: dict[tuple[int, str], tuple[int, float]] = {}
    for event in map(msgspec.json.decode, SMALL.plain()):
        key = event["at"] // events.WINDOW_US * events.WINDOW_US, event["customer"]
        n, total = expected.get(key, (0, 0.0))
        expected[key] = n + 1, total + event["amount"]
    assert found == expected


@pytest.mark.parametrize(("count", "per_bucket"), [(410, 20), (300, 30), (0, 20), (400, 0)])
def test_a_backlog_fills_whole_windows(count: int, per_bucket: int) -> None:
    with pytest.raises(ValueError, match="divide"):
        Backlog(count, per_bucket)
