"""A producer that fails for good is replaced, whoever is told: the client tells it once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from borealis_py.kafka.appender import KafkaAppender
from borealis_py.log.base import Feed, NewRecord
from tests.kafka.waiter import Waiter

FATAL = KafkaException(KafkaError(KafkaError._FATAL, "out of sequence", fatal=True))
FROM_A_CALLBACK = SystemError("returned a result with an exception set")
FROM_A_CALLBACK.__cause__ = FATAL


class Dies:
    """A client that tells of its end in the call named `told_in`, once, and reports what was purged with the next."""

    def __init__(self, told_in: str, error: Exception) -> None:
        self._told_in, self._error = told_in, error
        self._told = False
        self._event = threading.Event()  # that never comes
        self.reports: list[Callable[[], None]] = []

    def poll(self, timeout: float) -> None:
        if self._told_in == "poll":
            self._tell()
        self._event.wait(timeout)

    def flush(self, timeout: float) -> int:
        if self._told_in == "flush":
            self._tell()
        while self.reports:
            self.reports.pop()()
        return 0

    def purge(self) -> None: ...

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            raise self._error


@pytest.fixture
def appender(monkeypatch: pytest.MonkeyPatch, waiter: Waiter) -> Iterator[KafkaAppender]:
    """To a broker that is not there."""
    monkeypatch.setattr("borealis_py.kafka.appender._CLOSE_S", 0.0)
    made = KafkaAppender("127.0.0.1:1", {}, waiter.wake)
    yield made
    made.close()


def replace(appender: KafkaAppender, producer: object) -> None:
    with appender._lock:
        appender._producer = producer  # type: ignore[assignment]


@pytest.mark.parametrize("error", [FATAL, FROM_A_CALLBACK, SystemError("a callback's")], ids=["told", "wrapped", "own"])
@pytest.mark.parametrize("told_in", ["poll", "flush"])
def test_the_next_record_goes_to_another_producer(
    appender: KafkaAppender, waiter: Waiter, told_in: str, error: Exception
) -> None:
    dying: object = Dies(told_in, error)
    replace(appender, dying)
    appender.flush(0.0)
    waiter.until(lambda: appender._producer is not dying)
    appender.append(NewRecord(Feed("healthy"), b"1"), token=1)
    assert appender.deliveries() == []  # not refused: it waits for the broker


def test_what_is_purged_is_reported_although_the_end_is_told_first(appender: KafkaAppender, waiter: Waiter) -> None:
    dying = Dies("flush", FATAL)
    dying.reports.append(lambda: appender._refused("token", Feed("t"), KafkaError(KafkaError._PURGE_QUEUE), 0, 0))
    replace(appender, dying)
    with appender._lock:
        appender._renew(KafkaError(KafkaError._FATAL, "out of sequence", fatal=True))
    assert [d.token for d in appender.deliveries()] == ["token"]
