"""What a replica says lies in every partition of its readers, each with its rows, and counts once all have it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from borealis_py.log.base import Delivery, Feed, LogError, NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.log.record_size import RecordTooLarge, too_large
from borealis_py.log.stream import StreamDecoder, decoded
from borealis_py.node.output_writer import OutputWriter
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Timing
from borealis_py.query.spec import Partitioning
from borealis_py.simulation.toy_query import BIG, ToyKernel
from sunion.bucket import Buckets
from sunion.model import Output, RecDone, Reject, StableBucket, StableRange, StreamRecord, TentativeBucket, Undo

KERNEL = ToyKernel(100_000, 1)
SPEC = ReplicaSpec(
    app="app", app_uid="a1", node="n", replica=1, inputs=(), bucket_us=100_000, origin=0, partition=0, query_hash="",
    app_json="", delays={}, log=None, data_dir=Path(), timing=Timing(), serves=(), position=1, corrected=False,  # type: ignore[arg-type]
    exchange=Partitioning(by=("v",), count=3),
)  # fmt: skip
ROWS = [(5, "row", value, 0) for value in (0, 1, 2, 3, 4, 6)]
REJECT = Reject("s", 7, "bad")


class ListAppender:
    """Keeps what is appended; `deliveries` are set by hand."""

    def __init__(self) -> None:
        self.appended: list[tuple[NewRecord, Any]] = []
        self.told: list[Delivery] = []

    def append(self, record: NewRecord, token: object = None) -> None:
        self.appended.append((record, token))

    def deliveries(self) -> list[Delivery]:
        told, self.told = self.told, []
        return told

    def deliver(self, *tokens: tuple[int, int]) -> None:
        self.told += [Delivery(token, 0) for token in tokens]


def outlet(spec: ReplicaSpec = SPEC) -> tuple[OutputWriter, ListAppender]:
    appender = ListAppender()
    return OutputWriter(spec, appender, KERNEL, Buckets(100_000)), appender  # type: ignore[arg-type]


def read(appender: ListAppender, partition: int) -> list[StreamRecord]:
    """What a reader of one partition decodes."""
    decoder, found = StreamDecoder(Life("a1"), KERNEL.schema_id), []
    for offset, (record, _) in enumerate(appender.appended):
        if record.feed.partition == partition:
            said = decoder.decode(Record(record.feed, offset, record.timestamp_ms or 0, None, record.value))
            if isinstance(said, StableBucket | TentativeBucket):
                said = replace(said, output=decoded(said.output, KERNEL))
            found += [said] if said is not None else []
    return found


def test_each_partition_gets_its_rows_and_the_first_the_dead_letters() -> None:
    out, appender = outlet()
    out.append(1, StableBucket(2, 7, Output(ROWS, (REJECT,)), 3))
    tentative = TentativeBucket(
        inc=2,
        bucket=8,
        output=Output(ROWS[:1]),
        missing_sources=("s",),
        missing=("s",),
        waited_us=0,
        completeness=0.5,
        diverged_from=8,
    )
    out.append(2, tentative)
    found = [read(appender, p) for p in range(3)]
    values = [[[row[2] for row in said.output.rows or []] for said in part] for part in found]  # type: ignore[union-attr]
    assert values == [[[0, 3, 6], [0]], [[1, 4], []], [[2], []]]
    assert [part[0].output.rejects for part in found] == [(REJECT,), (), ()]  # type: ignore[union-attr]
    assert found[2] == [StableBucket(2, 7, Output([ROWS[2]]), 3), replace(tentative, output=Output(None))]


@pytest.mark.parametrize("record", [StableRange(2, 3, 9), Undo(2, 3), RecDone(2, 9), StableBucket(2, 3, Output(None))])
def test_what_has_no_rows_is_said_to_all(record: StreamRecord) -> None:
    out, appender = outlet()
    out.append(1, record)
    assert [read(appender, p) for p in range(3)] == [[record]] * 3
    assert {record.feed.topic for record, _ in appender.appended} == {"app.n.r1"}


def test_a_record_counts_when_every_partition_has_it() -> None:
    out, appender = outlet()
    assert out.acked() == 0
    appender.deliver((0, 1), (0, 2), (1, 1))
    assert out.acked() == 0
    appender.deliver((2, 1))
    assert out.acked() == 1
    appender.deliver((2, 2), (1, 2))
    assert out.acked() == 2


def test_the_parts_of_a_big_bucket_count_with_the_last() -> None:
    out, appender = outlet(replace(SPEC, exchange=None))
    out.append(1, StableBucket(2, 7, Output([(5, "row", v, 0) for v in range(BIG + 2)])))
    assert [token for _, token in appender.appended] == [(0, 0), (0, 1)]
    appender.deliver((0, 0))
    assert out.acked() == 0


def test_of_a_batch_that_is_refused_for_its_size_the_largest_record_is_named() -> None:
    """A broker refuses all of it, and small ones come first."""
    out, appender = outlet()
    sizes = {(0, 1): 40, (0, 2): 9_000_000, (0, 3): 70}
    appender.told = [Delivery(t, -1, too_large(Feed("app.n.r1"), 800, size), size) for t, size in sizes.items()]
    appender.told.append(Delivery((0, 4), -1, "after a record that was refused"))
    with pytest.raises(RecordTooLarge, match=r"^app\.n\.r1\[0\] at 800 ms: a record of 9000000 bytes") as told:
        out.acked()
    assert told.value.record == "app.n.r1[0] at 800 ms"


def test_a_refusal_in_any_partition_ends_the_replica() -> None:
    out, appender = outlet()
    appender.told = [Delivery((2, 1), -1, "NOT_ENOUGH_REPLICAS")]
    with pytest.raises(LogError, match=r"app.n.r1: the log refused a record \(NOT_ENOUGH_REPLICAS\)"):
        out.acked()
