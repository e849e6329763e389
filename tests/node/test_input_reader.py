"""Cursors of a stream's replicas: held where they wait, moved back for what memory had no room for (R6.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.corrected import Progress, progress_record
from borealis_py.log.stream import StreamEncoder
from borealis_py.node.input_reader import InputReader
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Timing
from borealis_py.simulation.toy_query import ToyKernel
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Input, Output, StableBucket, TentativeBucket
from sunion.units import MonotonicUs
from tests.support.simulated_app import SimulatedApp

BUCKETS = Buckets(100_000)
FIRST = 17_000_000
KERNEL = ToyKernel(BUCKETS.width_us, 1)
SOURCE = Feed("app.a")
FEEDS = [Feed(topics.replica("app", "up", k)) for k in range(2)]


class ReadingNode(SimulatedApp):
    """A node that reads both replicas of node `up`, which have said ten tentative buckets each."""

    def __init__(self, inputs: tuple[Input, ...] = (Input("up", 2, ("a",)),)) -> None:
        names = (topics.settings("app"), topics.progress("app", "q"))
        super().__init__(*(feed.topic for feed in (*FEEDS, SOURCE)), *names, start_us=BUCKETS.start(FIRST))
        self.describe("a1", FIRST)
        self._appender = self.log.client("writer").appender(lambda: None)
        spec = ReplicaSpec(
            app="app", app_uid="a1", node="q", replica=0, inputs=inputs, bucket_us=BUCKETS.width_us,
            origin=FIRST, partition=0, query_hash="", app_json="", delays={}, log=None, data_dir=Path(),  # type: ignore[arg-type]
            timing=Timing(), serves=(), position=1, corrected=True, replicas=1,
        )  # fmt: skip
        client, settings = self.log.client("replica"), Any
        self.inlet = InputReader(
            spec, client, client.lookup(), {1: KERNEL} if inputs[1:] else {}, {0: KERNEL}, settings, lambda: None
        )  # type: ignore[arg-type]
        self.inlet.open_inputs(None, FIRST, BUCKETS)
        self.say(range(10))

    def say(self, buckets: range) -> None:
        for feed in FEEDS:
            encoder = StreamEncoder(feed, "a1", BUCKETS, KERNEL, KERNEL.schema_id)
            for bucket in buckets:
                said = TentativeBucket(
                    inc=1,
                    bucket=FIRST + bucket,
                    output=Output(),
                    missing_sources=("a",),
                    missing=("a",),
                    waited_us=0,
                    completeness=0.0,
                    diverged_from=FIRST,
                )
                for record in encoder.encode(said):
                    self._appender.append(record)
        self.after(1)

    def heard(self) -> dict[int, list[tuple[int, int]]]:
        """(bucket, offset) that arrived since, by replica."""
        found: dict[int, list[tuple[int, int]]] = {}
        for replica, record in self.inlet.poll().streams.get(0, []):
            assert isinstance(record, TentativeBucket)
            found.setdefault(replica, []).append((record.bucket - FIRST, record.offset))
        return found


def said(*buckets: int) -> list[tuple[int, int]]:
    return [(b, b) for b in buckets]


def test_one_cursor_goes_back_and_the_other_goes_on() -> None:
    world = ReadingNode()
    assert world.heard() == {0: said(*range(10)), 1: said(*range(10))}
    world.inlet.read_again(0, 1, 7)
    world.say(range(10, 11))
    assert world.heard() == {0: said(10), 1: said(7, 8, 9, 10)}


def test_a_cursor_that_is_held_goes_back_when_it_is_read_again() -> None:
    world = ReadingNode()
    world.heard()
    held = frozenset({(0, 1)})
    world.inlet.hold(frozenset(), held)
    world.inlet.read_again(0, 1, 8)
    world.say(range(10, 11))
    assert world.heard() == {0: said(10)}
    world.inlet.hold(frozenset(), frozenset())
    world.after(1)
    assert world.heard() == {1: said(8, 9, 10)}


def test_what_is_deleted_by_then_is_not_read_again_and_nothing_else_is_missed() -> None:
    """Tentative words are not worth a replica's end: it goes on where it stood."""
    world = ReadingNode()
    world.heard()
    world.log.delete_before(FEEDS[1], 9)
    world.inlet.read_again(0, 1, 7)
    world.say(range(10, 11))
    first = world.heard()
    world.after(1)
    second = world.heard()
    assert [*first.get(0, []), *second.get(0, [])] == said(10)
    assert second[1] == said(10)


def test_a_cursor_that_is_slower_than_trimming_goes_on_behind_what_is_deleted() -> None:
    """The other replica has said it all: R16.5 deletes only what this node, too, needs no more."""
    world = ReadingNode()
    held = frozenset({(0, 1)})
    world.inlet.hold(frozenset(), held)
    assert world.heard() == {0: said(*range(10))}
    world.log.delete_before(FEEDS[1], 6)
    world.inlet.hold(frozenset(), frozenset())
    world.after(1)
    assert world.heard() == {}
    world.after(1)
    assert world.heard() == {1: said(6, 7, 8, 9)}


def test_what_is_held_counts_as_far_as_it_was_read_and_need_not_be_read_on() -> None:
    world = ReadingNode()
    world.inlet.open_progress()
    world.heard()
    world.inlet.hold(frozenset(), frozenset({(0, 1)}))
    world.say(range(10, 11))
    world.heard()
    assert world.inlet.has_read({FEEDS[0]: 11, FEEDS[1]: 10})
    assert not world.inlet.has_read({FEEDS[0]: 11, FEEDS[1]: 11})
    asked = MonotonicUs(world.scheduler.now_us)
    world.inlet.hold(frozenset(), frozenset())
    world.inlet.ask_ends(asked)
    world.inlet.hold(frozenset(), frozenset({(0, 1)}))
    assert world.inlet.read_to(asked) is None
    world.after(1)
    assert world.inlet.read_to(MonotonicUs(asked + 10_000)) == asked


def test_records_of_a_source_that_were_never_read_are_still_worth_it() -> None:
    world = ReadingNode((Input("up", 2, ("a",)), Input.source("a")))
    for _ in range(5):
        world.log.broker.append(NewRecord(SOURCE, b"a row"))
    world.log.delete_before(SOURCE, 5)
    with pytest.raises(RetentionLost, match=r"app\.a\[0\]"):
        world.heard()


def test_progress_is_no_setting_and_of_another_life_none_at_all() -> None:
    world = ReadingNode()
    world.inlet.open_progress()
    for app_uid, bucket in (("a1", FIRST + 4), ("b2", FIRST + 9), ("a1", FIRST + 6)):
        world.log.broker.append(progress_record("app", "q", Progress(app_uid, bucket, 0, 1)))
    world.after(1)
    arrived = world.inlet.poll()
    assert (arrived.progress, arrived.settings) == ([FIRST + 4, FIRST + 6], False)


def test_a_start_is_refused_only_where_no_replicas_topic_holds_what_comes_next() -> None:
    """r0 has [10, 14) and [17, 20), r1 took over in between: [13, 18). Both were cut off below 12."""
    world = ReadingNode()
    for k, spans in enumerate((((10, 14), (17, 20)), ((13, 18),))):
        encoder = StreamEncoder(FEEDS[k], "a1", BUCKETS, KERNEL, KERNEL.schema_id)
        for span in spans:
            for bucket in range(*span):
                for record in encoder.encode(StableBucket(1, FIRST + bucket, Output())):
                    world.log.broker.append(record)
    world.after(1)
    world.log.delete_before(FEEDS[0], 12)
    world.log.delete_before(FEEDS[1], 10)

    def lost(bucket: int) -> bool:
        try:
            world.inlet.check_inputs(None, FIRST + bucket, BUCKETS)
        except RetentionLost as exc:
            return f"stream up: bucket {FIRST + bucket} is in no replica's topic any more" in str(exc)
        return False

    assert [b for b in range(10, 22) if lost(b)] == [10, 11]
    world.log.delete_before(FEEDS[1], 14)
    assert [b for b in range(10, 22) if lost(b)] == [10, 11, 14, 15, 16]


def stand_by(world: ReadingNode, said: range, below: int) -> None:
    """r0 runs and has said these buckets as stable, the first of which are deleted; r1 stands by."""
    encoder = StreamEncoder(FEEDS[0], "a1", BUCKETS, KERNEL, KERNEL.schema_id)
    for bucket in said:
        for record in encoder.encode(StableBucket(1, FIRST + bucket, Output())):
            world.log.broker.append(record)
    world.after(1)
    bounds = world.log.client("admin").lookup()
    world.log.delete_before(FEEDS[0], bounds.find(FEEDS[0], BUCKETS.timestamp_ms(FIRST + below)))


def test_a_start_may_wait_for_what_only_a_standby_could_say_and_need_not() -> None:
    world = ReadingNode()
    stand_by(world, range(10, 20), 15)
    for bucket in (FIRST + 11, FIRST + 15):
        world.inlet.check_inputs(None, bucket, BUCKETS)
    world.inlet.check_inputs(None, FIRST + 15, BUCKETS, may_wait=False)
    with pytest.raises(RetentionLost, match="in no replica's topic any more"):
        world.inlet.check_inputs(None, FIRST + 11, BUCKETS, may_wait=False)


@pytest.mark.parametrize(("next_", "gone"), [(11, True), (14, True), (15, False), (19, False)])
def test_who_was_away_while_what_it_reads_next_was_deleted_is_told(next_: int, gone: bool) -> None:
    world = ReadingNode()
    world.heard()
    world.inlet.hold(frozenset(), frozenset({(0, 0)}))
    stand_by(world, range(10, 20), 15)
    world.inlet.check_skipped(FIRST + next_, BUCKETS)  # nothing was skipped yet
    world.inlet.hold(frozenset(), frozenset())
    world.after(1)
    assert world.inlet.poll().streams == {}, "it meets what is deleted"
    if gone:
        with pytest.raises(RetentionLost, match="in no replica's topic any more"):
            world.inlet.check_skipped(FIRST + next_, BUCKETS)
    world.inlet.check_skipped(FIRST + next_, BUCKETS)
