"""The measured events: what the raw loop reads and what a source's log holds are the same, and a replica accepts it."""

import msgspec
import pytest

from borealis_py.bench import events
from borealis_py.bench.events import Backlog
from borealis_py.engine import compile_query
from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from borealis_py.log.source_records import decode_source
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
    union = SUnion([Input.source("s0")], SMALL.origin, Buckets(events.BUCKET_US), kernel, ahead_max_us=10**12)
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


@pytest.mark.parametrize(
    ("count", "per_bucket", "sources", "why"),
    [
        (410, 20, 1, "divide"),
        (400, 20, 3, "divide"),
        (0, 20, 1, "at least 1"),
        (400, 0, 1, "at least 1"),
        (2_000_000, 200_000, 1, "at most 100000"),
    ],
)
def test_a_backlog_fills_whole_windows(count: int, per_bucket: int, sources: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Backlog(count, per_bucket, sources)


def test_sources_share_the_events_and_each_form_holds_the_same() -> None:
    shared = Backlog(events=630, per_bucket=21, sources=3)
    assert shared.per_record == 7
    whole = sorted(msgspec.json.decode(e)["at"] for e in Backlog(630, 21).plain())
    found = []
    for source in range(3):
        (_, *batches) = shared.records(Feed("s"), "a1", source)
        arrays = list(shared.arrays(source))
        assert [(r.value or b"").endswith(a) for r, a in zip(batches, arrays, strict=True)] == [True] * 30
        rows = [row for array in arrays for row in msgspec.json.decode(array)]
        assert rows == [msgspec.json.decode(event) for event in shared.plain(source)]
        late = [row for row in rows if row["at"] >= events.START_US + 5 * events.BUCKET_US]
        assert late == [msgspec.json.decode(event) for event in shared.plain(source, 5)]
        found += [row["at"] for row in rows]
    assert sorted(found) == whole
    assert len(set(found)) == 630
