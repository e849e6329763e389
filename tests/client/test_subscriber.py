"""A live subscriber follows the threshold of its query while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import pytest
from structlog.testing import capture_logs

from borealis_py.client.subscriber import LiveSubscription, live_change, raw_records
from borealis_py.log.base import Feed, NewRecord, Record, TopicSpec
from borealis_py.log.ends import LOOK_US
from borealis_py.log.messages import Description, Threshold, encode
from borealis_py.log.stream import StreamEncoder
from borealis_py.log.stream_topics import StreamTopics
from borealis_py.protocol.settings import Timing, budget
from borealis_py.simulation.cluster.clock import Scheduler
from borealis_py.simulation.cluster.processes import LocalClock
from borealis_py.simulation.log.client import MemoryLog
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Kind, Output, Reject, StableBucket, StableRange, StreamRecord, TentativeBucket
from sunion.view import Change

START_US = 1_700_000_000_000_000
BUCKETS = Buckets(100_000)
FIRST = BUCKETS.of(START_US)
SETTINGS = Feed("app.settings")
TOPICS = [Feed("app.q.r0"), Feed("app.q.r1"), SETTINGS]


def wait_of(threshold_us: int) -> int:
    return budget(Timing(), threshold_us)


class World:
    """A query with two replicas: r0 speaks, r1 never does, so what r0 calls tentative waits for r1 until D."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(START_US)
        self.log, self.clock = MemoryLog(self.scheduler, 0), LocalClock(self.scheduler, 0)
        self.log.client("admin").admin().create([TopicSpec(f.topic) for f in TOPICS])
        self._writer = self.log.client("writer").appender(lambda: None)
        self._encoder = StreamEncoder(TOPICS[0], "a1", BUCKETS, None, "s")  # type: ignore[arg-type]  # rows: none here

    def subscribe(self, wait_us: int, wait_of: Callable[[int], int] | None = wait_of) -> LiveSubscription:
        return LiveSubscription(
            log=self.log.client("subscriber"), clock=self.clock, app="app", app_uid="a1", query="q", replicas=2,
            buckets=BUCKETS, start=FIRST, wait_us=wait_us, schema="s", wake=lambda: None, wait_of=wait_of,
        )  # fmt: skip

    def says(self, *records: StreamRecord, by: StreamEncoder | None = None) -> None:
        for record in records:
            for new in (by or self._encoder).encode(record):
                self._writer.append(new)
        self.after(0.1)

    def setting(self, key: str, value: bytes | None) -> None:
        self._writer.append(NewRecord(SETTINGS, value, key.encode()))
        self.after(0.1)

    def threshold(self, ms: int, query: str = "q") -> None:
        self.setting(f"threshold/{query}", encode(Threshold(ms * 1_000)))

    def after(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now_us + int(seconds * 1_000_000))

    def shown(self, subscription: LiveSubscription, within_s: float) -> list[Change]:
        """What the subscriber shows in that time, called as a host calls it."""
        changes: list[Change] = []
        end = self.scheduler.now_us + int(within_s * 1_000_000)
        while self.scheduler.now_us < end:
            changes += subscription.poll()
            self.after(0.01)
        return changes


def tentative(bucket: int) -> TentativeBucket:
    return TentativeBucket(
        inc=1,
        bucket=bucket,
        output=Output(),
        missing_sources=("lga",),
        missing=("lga",),
        waited_us=0,
        completeness=0.5,
        diverged_from=bucket,
    )


def test_a_lower_threshold_shows_what_was_waiting() -> None:
    world = World()
    subscription = world.subscribe(wait_of(3_000_000))
    world.says(tentative(FIRST))
    assert world.shown(subscription, 1.0) == []
    world.threshold(500)  # D = 250 ms, and more than that has passed
    (change,) = world.shown(subscription, 0.3)
    assert change.bucket == FIRST


def test_a_higher_threshold_waits_longer() -> None:
    world = World()
    subscription = world.subscribe(wait_of(500_000))
    world.threshold(3_000)
    world.says(tentative(FIRST))
    assert world.shown(subscription, 2.0) == []
    (change,) = world.shown(subscription, 1.5)
    assert change.bucket == FIRST


def test_what_was_set_before_it_opened_counts_and_not_what_its_caller_believed() -> None:
    world = World()
    world.threshold(700)
    world.threshold(500)
    subscription = world.subscribe(wait_of(3_000_000))
    assert subscription.stream.wait_us == wait_of(500_000)


def test_other_settings_are_not_its_business() -> None:
    world = World()
    subscription = world.subscribe(wait_of(3_000_000))
    world.threshold(500, query="other")
    world.setting("policy/q", b'{"failure":"delay","stabilization":"delay"}')
    with capture_logs() as lines:
        world.shown(subscription, 0.1)
    assert lines == []
    assert subscription.stream.wait_us == wait_of(3_000_000)


@pytest.mark.parametrize("value", [encode(Threshold(1)), b"{", b'{"threshold_us":"soon"}', None])
def test_a_bad_threshold_is_named_and_changes_nothing(value: bytes | None) -> None:
    world = World()
    subscription = world.subscribe(wait_of(3_000_000))
    world.setting("threshold/q", value)
    with capture_logs() as lines:
        world.shown(subscription, 0.1)
    assert [line["key"] for line in lines] == ["threshold/q"]
    assert subscription.stream.wait_us == wait_of(3_000_000)


def test_one_that_is_not_to_follow_keeps_its_wait() -> None:
    world = World()
    subscription = world.subscribe(123_000, None)
    world.threshold(500)
    world.shown(subscription, 0.1)
    assert subscription.stream.wait_us == 123_000


def test_a_record_that_no_replica_has_written_is_passed_over() -> None:
    world = World()
    live = world.subscribe(2_000_000)
    with capture_logs() as logs:
        world._writer.append(NewRecord(TOPICS[1], b"garbage", timestamp_ms=BUCKETS.timestamp_ms(FIRST)))
        world.says(StableRange(1, FIRST, FIRST + 3))
        changes = live.poll()
    assert [(c.bucket, c.end) for c in changes] == [(FIRST, FIRST + 3)]
    assert ("app.q.r1", 0) in [(entry.get("topic"), entry.get("offset")) for entry in logs]


class Texts:
    """Rows are lists of one text."""

    def encode_parts(self, rows: list[str], bytes_max: int) -> list[bytes]:
        return [rows[0].encode()]


def test_rows_of_another_schema_are_passed_over() -> None:
    world = World()
    live = world.subscribe(2_000_000)
    other = StreamEncoder(TOPICS[0], "a1", BUCKETS, Texts(), "another schema")  # type: ignore[arg-type]
    with capture_logs() as logs:
        world.says(StableBucket(1, FIRST, Output(["row"])), by=other)
        world.says(StableRange(1, FIRST, FIRST + 3))
        changes = live.poll()
    assert [(c.bucket, c.end, c.output.rows) for c in changes] == [(FIRST, FIRST + 3, None)]
    assert any("schema another schema, expected s" in entry.get("why", "") for entry in logs)


def test_who_waits_for_another_replica_is_told_when_to_look_again() -> None:
    world = World()
    subscription = world.subscribe(wait_of(1_000_000))
    assert subscription.next_wakeup() == world.clock.now_us() + LOOK_US, "the first question is not answered"
    world.shown(subscription, 0.1)
    assert subscription.next_wakeup() is None, "only what arrives can change anything"
    world.says(tentative(FIRST))
    world.shown(subscription, 0.1)
    due = subscription.next_wakeup()
    assert due is not None
    world.scheduler.run_until(world.scheduler.now_us + due - 1 - world.clock.now_us())
    assert subscription.poll() == []
    assert subscription.next_wakeup() == due
    world.scheduler.run_until(world.scheduler.now_us + 1)
    assert subscription.poll() == []
    assert subscription.next_wakeup() == due + LOOK_US, "first it asks whether it has read everything"
    (change,) = world.shown(subscription, 0.05)
    assert change.bucket == FIRST
    assert subscription.next_wakeup() is None


class Bytes:
    """Rows are their bytes."""

    def encode_parts(self, rows: bytes, bytes_max: int) -> list[bytes]:
        return [rows]


def test_a_raw_record_shows_its_header_and_counts_the_bytes_of_its_rows() -> None:
    encoder = StreamEncoder(TOPICS[0], "a1", BUCKETS, Bytes(), "s")  # type: ignore[arg-type]
    said = (StableBucket(2, 7, Output(b"rows", (Reject("s", 3, "bad", b"x"),))), StableRange(2, 8, 11))
    stored = [new for one in said for new in encoder.encode(one)]
    records = [Record(TOPICS[0], 40 + n, 0, None, new.value) for n, new in enumerate(stored)]
    bucket, empty = raw_records(records)
    of = {"app_uid": "a1", "inc": 2, "waited_us": 0}
    shown = {"offset": 40, "kind": "STABLE", **of, "bucket": 7, "part": 0, "parts": 1, "schema": "s"}
    assert bucket == (TOPICS[0], {**shown, "payload_bytes": 4}), "dead letters have a topic of their own"
    assert empty == (TOPICS[0], {"offset": 41, "kind": "BOUNDARY", **of, "first": 8, "end": 11, "payload_bytes": 0})


SHOWN = Change(Kind.TENTATIVE, 9, 10, Output(), 1.0, (), (), 4)


@pytest.mark.parametrize(
    ("change", "certain", "why"),
    [
        (replace(SHOWN, completeness=0.5, missing_sources=("ewr", "lga"), missing=("lga",)), True, "lacks ewr, lga"),
        (SHOWN, True, "not been corrected since bucket 4: it will be confirmed"),
        (SHOWN, False, "not been corrected since bucket 4: it may change"),
        (Change(Kind.STABLE, 9, 10), True, ""),
        (Change(Kind.UNDO, 9, 9), True, ""),
    ],
)
def test_a_tentative_change_says_why_it_is_one(change: Change, certain: bool, why: str) -> None:
    found = live_change(change, None, certain)  # type: ignore[arg-type]  # rows: none here
    assert found.why.endswith(why)
    assert bool(found.why) == (change.kind is Kind.TENTATIVE)
    assert (found.missing_sources, found.missing, found.diverged_from) == (
        change.missing_sources,
        change.missing,
        change.diverged_from,
    )


def test_what_lies_behind_a_cursor_that_waits_is_left_in_the_log_until_it_can_be_used() -> None:
    """r0's topic begins beyond what is needed next (retention took the rest), and r1, which has it, is slow."""
    world = World()
    subscription = world.subscribe(wait_of(1_000_000))
    world.says(StableRange(1, FIRST + 5, FIRST + 6))
    world.shown(subscription, 0.2)
    for bucket in range(FIRST + 6, FIRST + 40):
        world.says(StableRange(1, bucket, bucket + 1))
    world.shown(subscription, 0.2)
    held = sum(len(queue) for queue in subscription.stream._fold._queues)
    assert (subscription.stream.next, held) == (FIRST, 1)
    other = StreamEncoder(TOPICS[1], "a1", BUCKETS, None, "s")  # type: ignore[arg-type]  # rows: none here
    world.says(StableRange(1, FIRST, FIRST + 5), by=other)
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 40


def trims(world: World, below: int) -> None:
    """Replica 0 deletes what lies below a bucket."""
    world.setting("app", encode(Description("{}", "h", FIRST, "f", "a1")))
    feed = TOPICS[0]
    world.log.delete_before(feed, world.log.client("r0").lookup().find(feed, BUCKETS.timestamp_ms(below)))


def test_a_view_that_begins_late_begins_at_what_is_kept() -> None:
    """r1 has died before: its topic reaches further back, and ends."""
    world = World()
    other = StreamEncoder(TOPICS[1], "a1", BUCKETS, None, "s")  # type: ignore[arg-type]  # rows: none here
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 3)), by=other)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 9)))
    trims(world, FIRST + 5)
    subscription = world.subscribe(wait_of(1_000_000))
    shown = world.shown(subscription, 0.2)
    assert shown[0].bucket == FIRST + 5
    assert subscription.stream.next == FIRST + 9


def says_and_trims(world: World) -> None:
    """r1 has died at the third bucket; what r0 has said is deleted up to the sixth, and goes on."""
    other = StreamEncoder(TOPICS[1], "a1", BUCKETS, None, "s")  # type: ignore[arg-type]  # rows: none here
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 3)), by=other)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 9)))
    trims(world, FIRST + 5)


def test_a_view_begins_at_what_is_kept_though_it_is_trimmed_while_it_looks() -> None:
    """Chaos, seed 170004: it had found where all is kept, then that was deleted, and it waited for ever."""
    world, find = World(), StreamTopics.first_kept
    says_and_trims(world)

    def found_then_trimmed(topics: StreamTopics, bucket: int) -> int:
        begins = find(topics, bucket)
        trims(world, FIRST + 7)
        return begins

    with mock.patch.object(StreamTopics, "first_kept", found_then_trimmed):
        subscription = world.subscribe(wait_of(1_000_000))
    assert world.shown(subscription, 0.2)[0].bucket == FIRST + 7


def test_a_view_that_has_shown_nothing_begins_later_where_its_first_bucket_is_deleted() -> None:
    world = World()
    says_and_trims(world)
    subscription = world.subscribe(wait_of(1_000_000))
    trims(world, FIRST + 7)
    assert world.shown(subscription, 0.2)[0].bucket == FIRST + 7
    assert subscription.stream.next == FIRST + 9


def test_a_view_that_falls_behind_what_is_kept_is_told_so() -> None:
    world = World()
    subscription = world.subscribe(wait_of(1_000_000))
    world.says(StableRange(1, FIRST, FIRST + 1))
    assert world.shown(subscription, 0.1)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST + 1, FIRST + 9)))
    trims(world, FIRST + 5)
    with pytest.raises(RetentionLost, match=rf"app\.q\.r0: bucket {FIRST + 1} is to be shown next .* Subscribe again"):
        world.shown(subscription, 0.2)


def test_a_view_that_falls_behind_one_topic_finds_the_rest_in_another() -> None:
    """r0 has deleted what is to be shown next, and r1 has it: a view is told of a loss only where there is one."""
    world = World()
    subscription = world.subscribe(wait_of(1_000_000))
    world.shown(subscription, 0.1)
    other = StreamEncoder(TOPICS[1], "a1", BUCKETS, None, "s")  # type: ignore[arg-type]  # rows: none here
    subscription._reader.stop(TOPICS[1])
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 7)), by=other)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 9)))
    trims(world, FIRST + 5)
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST
    subscription._reader.open(TOPICS[1], 0)
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 9


def test_a_view_goes_back_and_forth_between_topics_with_holes() -> None:
    world = World()
    other = StreamEncoder(TOPICS[1], "a1", BUCKETS, None, "s")  # type: ignore[arg-type]  # rows: none here
    world.says(StableRange(1, FIRST, FIRST + 3))
    world.says(StableRange(1, FIRST + 2, FIRST + 6), by=other)
    subscription = world.subscribe(wait_of(1_000_000))
    world.says(StableRange(2, FIRST + 6, FIRST + 9))
    world.says(StableRange(2, FIRST + 8, FIRST + 12), by=other)
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 12


def test_a_cursor_that_is_slower_than_trimming_goes_on_behind_what_is_deleted() -> None:
    """What it lacks came from the other replica."""
    world = World()
    subscription = world.subscribe(wait_of(1_000_000))
    world.shown(subscription, 0.1)
    other = StreamEncoder(TOPICS[1], "a1", BUCKETS, None, "s")  # type: ignore[arg-type]  # rows: none here
    subscription._stopped[TOPICS[0]] = 0
    subscription._reader.stop(TOPICS[0])
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 6)), by=other)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 6)))
    trims(world, FIRST + 5)
    world.shown(subscription, 0.2)
    world.says(StableRange(1, FIRST + 6, FIRST + 8))
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 8
