"""Of records that only the newest of counts one is under way and one waits, however long the broker takes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import SimpleNamespace

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from borealis_py.kafka.appender import KafkaAppender
from borealis_py.log.base import Feed, NewRecord
from tests.harness.waiting import PATIENCE_S
from tests.kafka.waiter import Waiter

CONTROL, STATUS = Feed("a.control"), Feed("a.status")


class Held:
    """A producer whose records are delivered when the test says so, in order."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.refusals = 0.0
        """For how many more records there is no room."""
        self.delivers_at_once = False
        self.timestamp = (TIMESTAMP_CREATE_TIME, 1)
        """Of what it sends from now on, as the broker reports it."""
        self._pending: deque[tuple[Callable[..., None], object]] = deque()
        self._due: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def produce(
        self, topic: str, value: bytes, key: bytes | None, partition: int, on_delivery: Callable[..., None]
    ) -> None:
        if self.refusals:
            self.refusals -= 1
            raise BufferError
        self.sent.append(value)
        message = SimpleNamespace(
            topic=lambda: topic, partition=lambda: partition, offset=lambda: 0, value=lambda: value,
            timestamp=lambda said=self.timestamp: said, latency=lambda: 0.2,
        )  # fmt: skip
        self._pending.append((on_delivery, message))
        if self.delivers_at_once:
            self.deliver()

    def deliver(self, error: KafkaError | None = None) -> None:
        """The oldest one is."""
        on_delivery, message = self._pending.popleft()
        self._due.put(lambda: on_delivery(error, message))

    def poll(self, timeout: float) -> None:
        try:
            self._due.get(timeout=timeout)()
        except Empty:
            return

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self)

    def purge(self) -> None:
        while self._pending:
            self.deliver(KafkaError(KafkaError._PURGE_QUEUE))

    def __len__(self) -> int:
        return len(self._pending) + self._due.qsize()


class HeldAppender:
    """An appender, and the producers that it opened."""

    def __init__(self, waiter: Waiter) -> None:
        self.producers: list[Held] = []
        self._waiter = waiter
        self.appender: KafkaAppender

    def open(self, config: object) -> Held:
        self.producers.append(Held())
        return self.producers[-1]

    @property
    def producer(self) -> Held:
        return self.producers[-1]

    def beat(self, value: bytes, key: bytes = b"q/0") -> None:
        self.appender.append(NewRecord(CONTROL, value, key, conflatable=True))

    def sends(self, *values: bytes) -> None:
        """Wait until the producer has these and has been told what was delivered."""
        self._waiter.until(lambda: self.producer.sent == list(values))

    def hears(self, error: KafkaError | None = None) -> None:
        """Deliver the oldest record, and wait until the appender knows."""
        before = self.appender._unacknowledged.total()
        self.producer.deliver(error)
        self._waiter.until(lambda: self.appender._unacknowledged.total() < before)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, waiter: Waiter) -> Iterator[HeldAppender]:
    made = HeldAppender(waiter)
    monkeypatch.setattr("borealis_py.kafka.appender._CLOSE_S", 0.0)
    monkeypatch.setattr("borealis_py.kafka.appender.Producer", made.open)
    made.appender = KafkaAppender("nowhere:1", {}, waiter.wake)
    yield made
    made.appender.close()


def test_heartbeats_of_an_outage_do_not_come_as_a_block(world: HeldAppender) -> None:
    """A replica that reads its own hundreds before those of its peers would take these for dead."""
    for n in range(300):
        world.beat(b"%d" % n)
    assert world.producer.sent == [b"0"]
    assert world.appender.waiting == 1
    world.producer.deliver()
    world.sends(b"0", b"299")
    assert world.appender.waiting == 0


def test_what_is_acknowledged_in_time_is_all_sent_at_once(world: HeldAppender) -> None:
    for n in range(5):
        world.beat(b"%d" % n)
        assert world.producer.sent[n:] == [b"%d" % n]
        world.hears()


def test_one_that_fails_makes_way_for_the_next(world: HeldAppender) -> None:
    world.beat(b"0")
    world.beat(b"1")
    world.producer.deliver(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    world.sends(b"0", b"1")


def test_one_that_is_refused_at_once_makes_way_for_the_next(
    world: HeldAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    with monkeypatch.context() as patched:
        patched.setattr("borealis_py.kafka.appender.produce", refuse)
        world.beat(b"0")
    world.beat(b"1")
    assert world.producer.sent == [b"1"]


def test_each_key_of_each_feed_has_its_own_place(world: HeldAppender) -> None:
    world.beat(b"0", b"q/0")
    world.beat(b"1", b"q/1")
    world.appender.append(NewRecord(STATUS, b"2", b"q/0", conflatable=True))
    assert world.producer.sent == [b"0", b"1", b"2"]


def test_whatever_else_is_sent_meanwhile_does_not_wait(world: HeldAppender) -> None:
    world.beat(b"0")
    world.beat(b"1")
    for n in range(2):
        world.appender.append(NewRecord(CONTROL, b"row %d" % n), n)
        world.appender.append(NewRecord(STATUS, b"event %d" % n, b"q/0"))
    assert world.producer.sent[1:] == [b"row 0", b"event 0", b"row 1", b"event 1"]


def test_a_newer_record_that_must_be_read_goes_at_once_and_no_older_one_after_it(world: HeldAppender) -> None:
    """A heartbeat with digests, say: it takes the place of what waits, and what comes next waits for it, too."""
    world.beat(b"0")
    world.beat(b"1")
    world.appender.append(NewRecord(CONTROL, b"2", b"q/0"))
    assert world.producer.sent == [b"0", b"2"]
    assert world.appender.waiting == 0
    world.hears()
    world.beat(b"3")
    assert world.appender.waiting == 1
    world.producer.deliver()
    world.sends(b"0", b"2", b"3")


def test_one_whose_delivery_is_asked_for_is_never_left_out(world: HeldAppender) -> None:
    for n in range(3):
        world.appender.append(NewRecord(CONTROL, b"%d" % n, b"q/0", conflatable=True), n)
    assert world.producer.sent == [b"0", b"1", b"2"]


def test_while_the_producer_is_full_the_newest_waits_behind_what_must_be_read(world: HeldAppender) -> None:
    world.producer.refusals = math.inf
    world.beat(b"0")
    world.appender.append(NewRecord(CONTROL, b"1", b"q/0"))
    world.beat(b"2")
    world.beat(b"3")
    assert world.appender.waiting == 2
    world.producer.refusals = 0
    world.sends(b"1")
    world.producer.deliver()
    world.sends(b"1", b"3")


def test_room_that_there_is_suddenly_does_not_let_the_newest_past_what_was_appended_before(world: HeldAppender) -> None:
    with world.appender._lock:  # the appender's thread waits
        world.producer.refusals = 1
        world.appender.append(NewRecord(CONTROL, b"0", b"q/0"))
        world.producer.refusals = 1
        world.beat(b"1")
        assert world.producer.sent == []
    world.sends(b"0")
    world.producer.deliver()
    world.sends(b"0", b"1")


def test_a_flush_sends_what_waits(world: HeldAppender) -> None:
    world.beat(b"0")
    world.beat(b"1")
    assert not world.appender.flush(0.0)
    world.producer.delivers_at_once = True
    world.producer.deliver()
    assert world.appender.flush(PATIENCE_S)
    assert world.producer.sent == [b"0", b"1"]


def test_another_producer_begins_with_what_waited(world: HeldAppender) -> None:
    world.beat(b"0")
    world.beat(b"1")
    with world.appender._lock:
        world.appender._renew(KafkaError(KafkaError._FATAL, "out of sequence", fatal=True))
    assert len(world.producers) == 2
    world.sends(b"1")


def test_a_late_report_of_a_former_producer_frees_no_place(world: HeldAppender) -> None:
    former = world.producer
    world.beat(b"0")
    on_delivery, message = former._pending.popleft()  # the purge does not report it
    with world.appender._lock:
        world.appender._renew(KafkaError(KafkaError._FATAL, "out of sequence", fatal=True))
    world.beat(b"1")
    on_delivery(None, message)
    world.beat(b"2")
    assert world.producer.sent == [b"1"]


def test_a_report_that_is_read_late_does_not_show_a_clock_that_is_ahead(
    world: HeldAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine seconds may pass between the report and the look at it."""
    now_s = 10.0
    monkeypatch.setattr("borealis_py.kafka.appender._now_us", lambda: round(now_s * 1e6))
    world.producer.timestamp = (TIMESTAMP_LOG_APPEND_TIME, 10_100)
    world.beat(b"0")
    now_s = 13.0
    world.hears()
    assert world.appender.clock_ahead_us == 0
    world.producer.timestamp = (TIMESTAMP_LOG_APPEND_TIME, 11_000)
    world.beat(b"1")
    world.hears()
    assert world.appender.clock_ahead_us == 2_000_000 - 1_000, "it was sent two seconds after it came"
