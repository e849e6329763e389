"""Transactions on a real broker, beyond what every log promises (tests/contract); read by an independent client too."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from structlog.testing import capture_logs

from borealis_py.kafka import transactor as transactor_module
from borealis_py.kafka.client import ClientLog
from borealis_py.kafka.log import KafkaLog
from borealis_py.kafka.lookup import KafkaLookup
from borealis_py.kafka.transactor import KafkaTransactor
from borealis_py.log import progress
from borealis_py.log.base import (
    AtWork,
    Committed,
    Feed,
    Fenced,
    LogError,
    Lookup,
    NewRecord,
    TookOver,
    TransactorEvent,
    Unended,
    Unknown,
)
from tests.harness.waiting import PATIENCE_S
from tests.kafka.waiter import Waiter
from tests.support.nowhere import NOWHERE
from tests.support.resume import last_number

NewFeed = Callable[..., Feed]
COMPACT = ("cleanup.policy", "compact")


class Writer:
    """A transactor and its feeds."""

    def __init__(
        self, log: KafkaLog, waiter: Waiter, rows: Feed, progress: Feed, unended: Unended | None = None
    ) -> None:
        self.rows, self.progress, self.waiter = rows, progress, waiter
        self.transactor: KafkaTransactor = log.transactor(
            f"{rows.topic}.publisher", progress, waiter.wake, last_number(progress), None, unended
        )

    def event(self) -> TransactorEvent:
        (event,) = self.waiter.until(self.transactor.events)
        return event

    def take_over(self, attempt: int) -> TransactorEvent:
        self.transactor.take_over(attempt)
        return self.event()

    def commit(self, attempt: int, *values: bytes) -> TransactorEvent:
        self.transactor.commit(attempt, lambda: self.records(*values))
        return self.event()

    def commit_until(self, attempt: int, over: threading.Event) -> None:
        """Begin a transaction that has more and more rows."""

        def rows() -> Iterator[NewRecord]:
            while not over.wait(0.005):
                yield NewRecord(self.rows, b"x" * 5_000)
            yield from self.records(b"1")

        self.transactor.commit(attempt, rows)

    def records(self, *values: bytes) -> Sequence[NewRecord]:
        return [*(NewRecord(self.rows, v) for v in values), NewRecord(self.progress, values[-1], key=b"0")]


@pytest.fixture
def writer(log: KafkaLog, waiter: Waiter, new_feed: NewFeed) -> Writer:
    return Writer(log, waiter, new_feed(), new_feed(COMPACT))


def committed(log: KafkaLog, feed: Feed) -> list[bytes | None]:
    lookup = log.lookup()
    values = [r.value for r in lookup.read(feed, *lookup.bounds(feed))]
    lookup.close()
    return values


def test_who_writes_on_into_a_transaction_is_left_alone_and_who_has_stopped_is_fenced(
    log: KafkaLog, waiter: Waiter, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactor_module, "_LOOK_S", PATIENCE_S)  # a broker may stand still for a while

    def unended(committed: Lookup, raw: Lookup) -> int | None:
        end = raw.bounds(writer.rows)[1]
        return end if committed.bounds(writer.rows)[1] < end else None

    assert writer.take_over(1) == TookOver(1, None)
    other, over = Writer(log, waiter, writer.rows, writer.progress, unended), threading.Event()
    writer.commit_until(1, over)
    raw = KafkaLookup(log.bootstrap, dict(log.properties), committed=False)
    waiter.until(lambda: raw.bounds(writer.rows)[1] > 0)
    lookup = log.lookup()
    assert lookup.written(writer.rows) > lookup.bounds(writer.rows)[1] == 0
    lookup.close()
    assert other.take_over(1) == AtWork(1)
    over.set()
    assert writer.event() == Committed(1)
    assert other.take_over(2) == TookOver(2, 1)
    stopped = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": f"{writer.rows.topic}.publisher"})
    stopped.init_transactions(PATIENCE_S)
    stopped.begin_transaction()
    stopped.produce(writer.rows.topic, b"and no more", partition=0)
    stopped.flush(PATIENCE_S)
    monkeypatch.setattr(transactor_module, "_LOOK_S", 0.3)
    assert other.take_over(3) == TookOver(3, 1)
    for each in (writer, other):
        each.transactor.close()
    raw.close()
    stopped.purge()


def test_a_writer_that_finds_itself_fenced_between_two_rows_says_so(
    log: KafkaLog, waiter: Waiter, writer: Writer
) -> None:
    """What the client answers then is "fatal", and nothing of the reason."""
    assert writer.take_over(1) == TookOver(1, None)
    writer.commit_until(1, threading.Event())
    other = Writer(log, waiter, writer.rows, writer.progress)
    assert other.take_over(1) == TookOver(1, None)
    assert writer.event() == Fenced(1)
    assert other.commit(1, b"1") == Committed(1)
    for each in (writer, other):
        each.transactor.close()


def test_a_transaction_that_took_longer_than_it_may_has_twice_the_time_when_it_is_tried_again(
    log: KafkaLog, waiter: Waiter, new_feed: NewFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(config: dict[str, str]) -> Producer:
        asked.append(config["transaction.timeout.ms"])
        return Producer(config)

    monkeypatch.setattr(transactor_module, "Producer", noted)
    short = KafkaLog(log.bootstrap, (*log.properties, ("transaction.timeout.ms", "1000")))
    writer = Writer(short, waiter, new_feed(), new_feed(COMPACT))
    assert writer.take_over(1) == TookOver(1, None)
    writer.commit_until(1, threading.Event())
    assert isinstance(writer.event(), Fenced | Unknown)
    assert writer.take_over(2) == TookOver(2, None)
    assert writer.commit(2, b"1") == Committed(2)
    assert writer.take_over(3) == TookOver(3, 1)
    assert asked == ["1000", "2000", "2000"]
    writer.transactor.close()


def test_a_writer_that_died_in_mid_transaction_leaves_nothing(
    log: KafkaLog, bootstrap: str, waiter: Waiter, writer: Writer
) -> None:
    dead = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{writer.rows.topic}.publisher"})
    dead.init_transactions(PATIENCE_S)
    dead.begin_transaction()
    dead.produce(writer.rows.topic, b"half", partition=0)
    dead.produce(writer.progress.topic, b"half", key=b"0", partition=0)
    dead.flush(PATIENCE_S)
    assert writer.take_over(1) == TookOver(1, None)
    assert writer.commit(1, b"whole") == Committed(1)
    waiter.until(lambda: committed(log, writer.rows) == [b"whole"])  # its end is written after the broker has answered
    writer.transactor.close()
    dead.purge()


def test_progress_is_found_behind_many_markers(
    log: KafkaLog, waiter: Waiter, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_WINDOWS", (1, 2))
    assert writer.take_over(1) == TookOver(1, None)
    assert writer.commit(1, b"1") == Committed(1)
    for attempt in range(2, 5):  # each leaves a record and a marker of an abort behind the last progress
        assert writer.take_over(attempt) == TookOver(attempt, 1)
        assert isinstance(writer.commit(attempt, b"x" * 9_000_000), Unknown)
        aborted = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": f"{writer.rows.topic}.publisher"})
        aborted.init_transactions(PATIENCE_S)
        aborted.begin_transaction()
        aborted.produce(writer.progress.topic, b"aborted", key=b"0", partition=0)
        aborted.flush(PATIENCE_S)
        aborted.abort_transaction(PATIENCE_S)
        aborted.close()
    assert writer.take_over(9) == TookOver(9, 1)
    writer.transactor.close()


def test_a_transaction_with_a_record_that_is_refused_leaves_nothing(
    log: KafkaLog, waiter: Waiter, writer: Writer
) -> None:
    assert writer.take_over(1) == TookOver(1, None)
    event = writer.commit(1, b"fine", b"x" * 9_000_000)
    assert isinstance(event, Unknown)
    assert event.too_large
    assert f"{writer.rows.topic}[0]" in event.reason
    assert "9000000 bytes" in event.reason
    assert writer.commit(1, b"on a dead attempt") == Unknown(1, "nothing was taken over")
    assert writer.take_over(2) == TookOver(2, None)
    assert writer.commit(2, b"good") == Committed(2)
    waiter.until(lambda: committed(log, writer.rows) == [b"good"])
    writer.transactor.close()


def test_a_record_that_the_broker_refuses_for_its_size_is_named(log: KafkaLog, writer: Writer) -> None:
    """The commit alone would not say which."""
    with closing(log.admin()) as admin:
        assert admin.set({writer.rows.topic: {"max.message.bytes": "10000"}}) == {}
    assert writer.take_over(1) == TookOver(1, None)
    event = writer.commit(1, b"fine", random.Random(1).randbytes(20_000))
    assert isinstance(event, Unknown)
    assert event.too_large, event.reason
    for part in (f"{writer.rows.topic}[0]", "20000 bytes", "raise max.message.bytes"):
        assert part in event.reason
    writer.transactor.close()


def test_a_transaction_to_a_topic_that_is_not_there_is_unknown(log: KafkaLog, writer: Writer) -> None:
    writer.take_over(1)
    partition = Feed(writer.rows.topic, 5)
    writer.transactor.commit(1, lambda: [NewRecord(writer.rows, b"1"), NewRecord(partition, b"2")])
    assert isinstance(writer.event(), Unknown)
    assert writer.take_over(2) == TookOver(2, None)
    assert committed(log, writer.rows) == []
    writer.transactor.close()


def test_records_that_cannot_be_made_do_not_end_the_writer(writer: Writer) -> None:
    def broken() -> Sequence[NewRecord]:
        raise ValueError("no such column")

    writer.take_over(1)
    writer.transactor.commit(1, broken)
    assert writer.event() == Unknown(1, "records could not be made: no such column")
    assert writer.commit(1, b"1") == Committed(1)
    writer.transactor.close()


def test_records_that_cannot_be_read_back_are_told_once_and_without_a_trace(
    writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    def gone() -> Sequence[NewRecord]:
        raise LogError("buckets [3, 7) are still to be published")

    for attempt in (1, 2):
        assert writer.take_over(attempt) == TookOver(attempt, None)
        writer.transactor.commit(attempt, gone)
        assert writer.event() == Unknown(attempt, "buckets [3, 7) are still to be published")
    writer.transactor.close()
    (line,) = [r for r in caplog.records if "buckets [3, 7)" in r.getMessage()]
    assert line.exc_info is None


def test_without_a_broker_the_outcome_is_unknown(waiter: Waiter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactor_module, "_ANSWER_S", 0.5)
    nowhere = Writer(KafkaLog(NOWHERE), waiter, Feed("rows"), Feed("progress"))
    event = nowhere.take_over(1)
    assert isinstance(event, Unknown)
    assert event.attempt == 1
    nowhere.transactor.close()


class FencedProducer:
    """What a fenced client does in librdkafka's fatal state: every call says so again, the last flush too."""

    def begin_transaction(self) -> None: ...

    def produce(self, *args: object, **kwargs: object) -> None: ...

    def poll(self, timeout: float) -> None: ...

    def purge(self) -> None: ...

    def commit_transaction(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer instance", True))

    def flush(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer instance", True))


class EagerProducer(FencedProducer):
    """Is let in at once."""

    def init_transactions(self, timeout: float) -> None: ...

    def flush(self, timeout: float) -> None: ...


def test_a_fenced_writer_says_so_although_its_client_fails_again_while_it_is_let_go(waiter: Waiter) -> None:
    writer = Writer(KafkaLog(NOWHERE), waiter, Feed("rows"), Feed("progress"))
    writer.transactor._producer = FencedProducer()  # type: ignore[assignment]
    assert writer.commit(1, b"1") == Fenced(1)
    writer.transactor.close()


def test_a_close_that_waits_no_longer_takes_nothing_from_under_the_thread(
    waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, free, closed = threading.Event(), threading.Event(), threading.Event()

    class SlowLookup:
        def __init__(self, *args: object) -> None: ...

        def bounds(self, feed: Feed) -> tuple[int, int]:
            begun.set()
            assert free.wait(PATIENCE_S)
            assert not closed.is_set()
            return 0, 0

        def read(self, *args: object) -> list[object]:
            return []

        def close(self) -> None:
            closed.set()

    monkeypatch.setattr(transactor_module, "KafkaLookup", SlowLookup)
    monkeypatch.setattr(transactor_module, "Producer", lambda config: EagerProducer())
    for limit in ("_ANSWER_S", "_ABORT_S"):
        monkeypatch.setattr(transactor_module, limit, 0.0)
    transactor = KafkaLog(NOWHERE).transactor("t", Feed("p"), waiter.wake, last_number(Feed("p")))
    transactor.take_over(1)
    assert begun.wait(PATIENCE_S)
    transactor.close()
    assert not closed.is_set()
    free.set()
    assert closed.wait(PATIENCE_S)


def test_another_client_reads_the_same(log: KafkaLog, bootstrap: str, writer: Writer) -> None:
    writer.take_over(1)
    assert writer.commit(1, b"1", b"2") == Committed(1)
    assert isinstance(writer.commit(1, b"lost", b"x" * 9_000_000), Unknown)
    writer.take_over(2)
    assert writer.commit(2, b"3") == Committed(2)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        consumer_timeout_ms=int(1000 * PATIENCE_S),
    )
    partition = kafka.TopicPartition(writer.rows.topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    assert [next(consumer).value for _ in range(3)] == [b"1", b"2", b"3"]
    consumer.close()
    writer.transactor.close()


def test_a_take_over_is_told_as_the_event_it_is_and_nothing_is_printed(
    log: KafkaLog, waiter: Waiter, new_feed: NewFeed, capfd: pytest.CaptureFixture[str]
) -> None:
    """librdkafka would write "%0|...|FATAL|" to standard error."""
    rows, progress = new_feed(), new_feed(COMPACT)
    first, second = (Writer(log, waiter, rows, progress) for _ in range(2))
    with capture_logs() as told:
        assert first.take_over(1) == TookOver(1, None)
        assert second.take_over(2) == TookOver(2, None)
        assert first.commit(1, b"too late") == Fenced(1)
        first.transactor.close()
    second.transactor.close()
    (event,) = [one for one in told if "fenced" in one["event"]]
    assert event["log_level"] == "info"
    assert "which is normal" in event["event"]
    assert "borealis#producer" in event["client"]
    assert "FATAL" not in capfd.readouterr().err


def test_what_else_a_client_cannot_recover_from_is_an_error() -> None:
    with capture_logs() as told:
        ClientLog().log(50, "%s [%s] %s", "FATAL", "borealis#producer-7", "Fatal error: Local: out of order")
    (event,) = told
    assert (event["log_level"], event["client"], event["facility"]) == ("error", "borealis#producer-7", "FATAL")
    assert event["said"] == "Fatal error: Local: out of order"
