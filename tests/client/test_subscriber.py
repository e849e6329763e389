"""A live subscriber follows the threshold of its query while it runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from borealis_py.client.subscriber import live_change, raw_records
from borealis_py.log.base import NewRecord, Record
from borealis_py.log.ends import LOOK_US
from borealis_py.log.messages import Threshold, encode
from borealis_py.log.stream import StreamEncoder
from sunion.model import Kind, Output, Reject, StableBucket, StableRange
from sunion.view import Change
from tests.client.live_query import BUCKETS, FIRST, TOPICS, LiveQuery, tentative, trims, wait_of


def test_a_lower_threshold_shows_what_was_waiting() -> None:
    world = LiveQuery()
    subscription = world.subscribe(wait_of(3_000_000))
    world.says(tentative(FIRST))
    assert world.shown(subscription, 1.0) == []
    world.threshold(500)  # D = 250 ms, and more than that has passed
    (change,) = world.shown(subscription, 0.3)
    assert change.bucket == FIRST


def test_a_higher_threshold_waits_longer() -> None:
    world = LiveQuery()
    subscription = world.subscribe(wait_of(500_000))
    world.threshold(3_000)
    world.says(tentative(FIRST))
    assert world.shown(subscription, 2.0) == []
    (change,) = world.shown(subscription, 1.5)
    assert change.bucket == FIRST


def test_what_was_set_before_it_opened_counts_and_not_what_its_caller_believed() -> None:
    world = LiveQuery()
    world.threshold(700)
    world.threshold(500)
    subscription = world.subscribe(wait_of(3_000_000))
    assert subscription.stream.wait_us == wait_of(500_000)


def test_a_threshold_of_another_life_is_none() -> None:
    world = LiveQuery()
    subscription = world.subscribe(wait_of(3_000_000))
    world.setting("threshold/q", encode(Threshold(500_000, "b2")))
    world.shown(subscription, 0.1)
    assert subscription.stream.wait_us == wait_of(3_000_000)


def test_other_settings_are_not_its_business() -> None:
    world = LiveQuery()
    subscription = world.subscribe(wait_of(3_000_000))
    world.threshold(500, query="other")
    world.setting("policy/q", b'{"failure":"delay","stabilization":"delay"}')
    with capture_logs() as lines:
        world.shown(subscription, 0.1)
    assert lines == []
    assert subscription.stream.wait_us == wait_of(3_000_000)


@pytest.mark.parametrize("value", [encode(Threshold(1)), b"{", b'{"threshold_us":"soon"}', None])
def test_a_bad_threshold_is_named_and_changes_nothing(value: bytes | None) -> None:
    world = LiveQuery()
    subscription = world.subscribe(wait_of(3_000_000))
    world.setting("threshold/q", value)
    with capture_logs() as lines:
        world.shown(subscription, 0.1)
    assert [line["key"] for line in lines] == ["threshold/q"]
    assert subscription.stream.wait_us == wait_of(3_000_000)


def test_one_that_is_not_to_follow_keeps_its_wait() -> None:
    world = LiveQuery()
    subscription = world.subscribe(123_000, None)
    world.threshold(500)
    world.shown(subscription, 0.1)
    assert subscription.stream.wait_us == 123_000


def test_a_record_that_no_replica_has_written_is_passed_over() -> None:
    world = LiveQuery()
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
    world = LiveQuery()
    live = world.subscribe(2_000_000)
    other = StreamEncoder(TOPICS[0], "a1", BUCKETS, Texts(), "another schema")  # type: ignore[arg-type]
    with capture_logs() as logs:
        world.says(StableBucket(1, FIRST, Output(["row"])), by=other)
        world.says(StableRange(1, FIRST, FIRST + 3))
        changes = live.poll()
    assert [(c.bucket, c.end, c.output.rows) for c in changes] == [(FIRST, FIRST + 3, None)]
    assert any("schema another schema, expected s" in entry.get("why", "") for entry in logs)


def test_who_waits_for_another_replica_is_told_when_to_look_again() -> None:
    world = LiveQuery()
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
    world = LiveQuery()
    subscription = world.subscribe(wait_of(1_000_000))
    world.says(StableRange(1, FIRST + 5, FIRST + 6))
    world.shown(subscription, 0.2)
    for bucket in range(FIRST + 6, FIRST + 40):
        world.says(StableRange(1, bucket, bucket + 1))
    world.shown(subscription, 0.2)
    held = sum(len(queue) for queue in subscription.stream._fold._queues)
    assert (subscription.stream.next, held) == (FIRST, 1)
    world.says(StableRange(1, FIRST, FIRST + 5), by=world.other)
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 40


def test_a_view_goes_back_and_forth_between_topics_with_holes() -> None:
    world = LiveQuery()
    world.says(StableRange(1, FIRST, FIRST + 3))
    world.says(StableRange(1, FIRST + 2, FIRST + 6), by=world.other)
    subscription = world.subscribe(wait_of(1_000_000))
    world.says(StableRange(2, FIRST + 6, FIRST + 9))
    world.says(StableRange(2, FIRST + 8, FIRST + 12), by=world.other)
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 12


def test_a_cursor_that_is_slower_than_trimming_goes_on_behind_what_is_deleted() -> None:
    """What it lacks came from the other replica."""
    world = LiveQuery()
    subscription = world.subscribe(wait_of(1_000_000))
    world.shown(subscription, 0.1)
    subscription._stopped[TOPICS[0]] = 0
    subscription._reader.stop(TOPICS[0])
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 6)), by=world.other)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 6)))
    trims(world, FIRST + 5)
    world.shown(subscription, 0.2)
    world.says(StableRange(1, FIRST + 6, FIRST + 8))
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 8
