"""One transaction: rows in order of id, dead letters, progress; of a cut node no rows, wherever they were read."""

from __future__ import annotations

import msgspec

from borealis_py.log import topics
from borealis_py.log.base import Record
from borealis_py.log.corrected import Progress, dead_letter, letter_id, read_progress, transaction
from borealis_py.log.description import Life
from sunion.bucket import Buckets
from sunion.model import Output, Reject, TupleId
from tests.reconcile.list_world import ListKernel

BUCKETS = Buckets(1_000)
OUTPUTS = {
    7: Output([(7_000, 2.0), (7_001, 3.0)]),
    5: Output([(5_000, 1.0)], (Reject("s", 4, "late: it was"),)),
}


def test_rows_come_in_order_of_id_and_progress_last() -> None:
    records = list(transaction("app", "q", OUTPUTS, Progress("a1", 9, 0, 1), BUCKETS, ListKernel()))
    assert [r.feed.topic for r in records] == ["app.q", "app.deadletter", "app.q", "app.q", "app.q.progress"]
    assert [dict(r.headers)["id"] for r in records if r.feed.topic == "app.q"] == [b"5:0", b"7:0", b"7:1"]
    progress = Record(records[-1].feed, 0, 0, None, records[-1].value)
    assert [read_progress(progress, Life("a1"), origin) for origin in (0, 9, 10)] == [9, 9, None]


def test_a_node_without_a_corrected_stream_writes_no_rows() -> None:
    """Simulator, seed 15: rows read back from the own topic went to a topic that does not exist, for ever."""
    records = list(transaction("app", "cut", OUTPUTS, Progress("a1", 9, 0, 1), BUCKETS, ListKernel(), corrected=False))
    assert [r.feed.topic for r in records] == [topics.deadletter("app"), topics.progress("app", "cut")]


def test_a_dead_letter_tells_its_writer_its_bucket_and_its_place_in_it() -> None:
    letter = dead_letter("app", "q", 7, Reject("s", 4, "late"), 3)
    record = Record(letter.feed, 0, 0, None, letter.value, letter.headers)
    assert letter_id(record, "q") == TupleId(7, 3)
    assert letter_id(record, "other") is None
    first = tuple(header for header in letter.headers if header[0] != "index")
    assert letter_id(msgspec.structs.replace(record, headers=first), "q") == TupleId(7, 0), (
        "without a place it is the first"
    )
    assert letter_id(msgspec.structs.replace(record, headers=(*first, ("index", b"x"))), "q") is None
    assert letter_id(msgspec.structs.replace(record, headers=(("node", b"q"),)), "q") is None
