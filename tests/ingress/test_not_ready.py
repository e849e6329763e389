"""Records that cannot be decoded yet: their input waits and says why, others go on, and nothing is late or lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pytest

from borealis_py.ingress.absent_columns import AbsentColumns
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.partition_queue import PartitionQueue
from borealis_py.log.base import Feed, Record
from borealis_py.log.ingress_status import AbsentField
from borealis_py.runtime.ingress.reporting import ReportedSession
from tests.ingress.worlds import AHEAD_MAX_US, COLUMNS, TopicWorld

WHY = "schema 7: the registry does not answer"


class Waiting(JsonFormat):
    """JSON of which records with the shop `new` wait until it is `known`."""

    known = False

    def __init__(self) -> None:
        super().__init__(COLUMNS)

    def ready(self, values: Sequence[bytes | None]) -> int:
        waits = [i for i, value in enumerate(values) if not self.known and b'"new"' in (value or b"")]
        return waits[0] if waits else len(values)

    def waits_for(self) -> str:
        return "" if self.known else WHY


def test_of_what_waits_behind_a_record_none_is_looked_at_again() -> None:
    asked: list[int] = []

    class Decoder:
        def ready(self, records: Sequence[Record]) -> int:
            asked.append(len(records))
            return 0

        def waits_for(self) -> str:
            return WHY

    queue, decoder = PartitionQueue(0, 0), cast(TopicDecoder, Decoder())
    for offset in range(500):
        queue.put(Record(Feed("prod.orders"), offset, 0, None, b"{}"))
    assert [queue.head(decoder) for _ in range(3)] == [None] * 3
    assert (asked, queue.waits_for, queue.copied, queue.fetched) == ([500, 1, 1], WHY, 0, 500)


@pytest.fixture
def world() -> TopicWorld:
    world = TopicWorld(partitions=2)
    world.form = Waiting()
    return world


def test_its_input_alone_waits_and_what_waited_is_neither_late_nor_lost(world: TopicWorld) -> None:
    assert isinstance(world.form, Waiting)
    process = world.copying()
    world.send(0)
    first = world.send(0, shop="new")
    world.run(0.05)
    at = world.now
    world.run(3)
    world.send(0)
    other = world.send(1)
    world.run(3)
    waiting, going = world.copied(0), world.copied(1)
    assert len(waiting.rows) == 1
    assert waiting.boundary <= at
    assert [row["n"] for row in going.rows] == [other]
    assert going.boundary > at + 5_000_000
    assert process.session is not None
    assert [one.waits_for for one in process.session.copied] == [WHY, ""]
    absent = AbsentColumns(["shopp"])
    absent.saw(world.form, pa.record_batch({"shopp": [None]}), [b'{"shop":"x"}'])
    report = ReportedSession(process.session, "orders", world.plan.spec, 100_000, absent).report()
    assert report.absent == (AbsentField("shopp", 1, "shop"),)
    assert [one.missing for one in report.inputs] == [WHY, ""]
    world.form.known = True
    world.run(1)
    healed = world.copied(0)
    assert [row["n"] for row in healed.rows] == [1, first, 3]
    assert (healed.late, healed.letters) == (0, [])
    assert healed.boundary > at + 6_000_000
    assert [one.waits_for for one in process.session.copied] == ["", ""]


def test_another_ingress_goes_on_where_records_wait(world: TopicWorld) -> None:
    assert isinstance(world.form, Waiting)
    process = world.copying()
    world.send(0, shop="new")
    world.run(1)
    process.kill()
    world.form.known = True
    world.ingress("b", 1)
    world.run(3)
    assert [row["n"] for row in world.copied(0).rows] == [1]


def test_a_backlog_elsewhere_does_not_wait_for_records_that_cannot_be_decoded() -> None:
    world = TopicWorld(partitions=2, boundary="data")
    world.form = Waiting()
    world.copying()
    world.run(100)
    world.send(0, ago=60_000_000)
    world.run(0.1)
    for i in range(20):
        world.send(0, shop="new", ago=50_000_000)
        world.send(1, ago=30_000_000 - i * 500_000)
        world.run(0.1)
    assert len(world.copied(1).rows) == 20


def test_a_row_that_is_stamped_too_far_ahead_of_a_silent_input_is_told_of() -> None:
    """Partition 1 feeds the same input as 0, which says nothing: the boundary stands still, and the row waits."""
    world = TopicWorld(partitions=2, inputs=1, expect_us=1_000_000)
    process = world.copying()
    world.send(0)
    world.send(1)
    world.run(5)
    ahead = world.send(1, ago=-(AHEAD_MAX_US - 1_000_000))
    world.run(5)
    assert process.session is not None
    reported = ReportedSession(process.session, "orders", world.plan.spec, 100_000)

    def missing() -> str:
        reported.turn(world.now, None)
        (told,) = reported.report().inputs
        return told.missing

    assert ahead not in [row["n"] for row in world.copied().rows]
    assert missing() == "silent, and what comes next in partition 1 is stamped too far ahead of that to be copied"
    for _ in range(4):
        world.send(0)
        world.run(0.5)
    assert ahead in [row["n"] for row in world.copied().rows]
    assert missing() == ""
