"""Appending: an idempotent producer, and a thread that serves its delivery reports."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)

from borealis_py.kafka.access.rights import missing_right
from borealis_py.kafka.client import error_of, log, producer_config, translating
from borealis_py.kafka.held_up import HELD_S, HeldUp, why_held_up
from borealis_py.log.base import Delivery, Feed, NewRecord, Wake
from borealis_py.log.clock import least_ahead
from borealis_py.log.record_size import too_large

_POLL_S = 0.1
_LOOK_S = 1.0
_CLOSE_S = 2.0
_FAILURES = (KafkaException, SystemError)
"""How `poll` and `flush` tell a fatal error; the latter comes from within a callback, with the error as its cause."""
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
"""A client's, or a broker's, answer to a record, or a batch with it, that is larger than the topic takes."""
_Key = tuple[Feed, bytes]
_Address = tuple[str, tuple[tuple[str, str], ...]]


def produce(producer: Producer, record: NewRecord, on_delivery: Any) -> None:
    """Pass a record to the producer.

    To the producer a timestamp of 0 means "now"; 1 ms is stored instead, which any look-up by time finds as well.

    Raises:
        BufferError: its queue is full.
        KafkaException: it refuses the record.
    """
    more: dict[str, Any] = {}
    if record.timestamp_ms is not None:
        more["timestamp"] = record.timestamp_ms or 1
    if record.headers:
        more["headers"] = list(record.headers)
    feed = record.feed
    producer.produce(feed.topic, record.value, record.key, partition=feed.partition, on_delivery=on_delivery, **more)


class KafkaAppender:
    """Implements `log.base.Appender`. A record waits as long as no broker answers; it never fails by waiting. Of
    conflatable ones, such as heartbeats, only the newest waits, until the one before of its key is acknowledged: else
    hundreds of an outage would come as a block, and whoever reads its own first would take its peers for dead.

    A batch that the broker refuses stops the producer for good (gapless); a record refused on this side stops its
    topic.
    """

    def __init__(self, bootstrap: str, properties: Mapping[str, str], wake: Wake) -> None:
        # No timeout: a record that timed out might still be in the log, and "error" would be wrong.
        defaults = {"message.timeout.ms": "0", "enable.gapless.guarantee": "true"}
        self._config = producer_config(bootstrap, {**defaults, **properties})
        self._wake = wake
        with translating(bootstrap, "open an appender"):
            self._producer = Producer(self._config)
        self._lock = threading.RLock()  # a delivery may be reported while the producer is replaced
        self._waiting: deque[tuple[NewRecord, object]] = deque()  # while the producer's queue is full; in order
        self._newest: dict[_Key, NewRecord] = {}  # conflatable ones that wait, too
        self._unacknowledged: Counter[_Key] = Counter()  # records in the producer that conflatable ones wait for
        self._done: deque[Delivery] = deque()
        self._broken: dict[Feed, str] = {}  # feeds with a refused record
        self._clock_ahead_us: int | None = None
        self._log_us: int | None = None  # the log's clock when the monotonic one of this machine was 0, at least
        self._held_up = HeldUp()
        self._looked_s = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-appender", daemon=True)
        self._thread.start()

    def wake_by(self, wake: Wake) -> None:
        """Call `wake` from now on. Only before anything is appended."""
        self._wake = wake

    def append(self, record: NewRecord, token: object = None) -> None:
        key = _key(record)
        with self._lock:
            if key is not None and record.conflatable and token is None:
                self._newest[key] = record
                self._produce_waiting()  # after that: the one before may be acknowledged at any moment
                return
            if key is not None:
                self._newest.pop(key, None)  # it is older, and would come after this one
            if self._waiting or not self._produce(record, token):
                self._waiting.append((record, token))

    def deliveries(self) -> list[Delivery]:
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done

    def flush(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while True:
            with self._lock:
                self._produce_waiting()  # else this would spin until `_run` does it
                producer, waiting = self._producer, self.waiting
            try:
                left = producer.flush(min(0.1, max(0.0, deadline - time.monotonic())))
            except _FAILURES as exc:  # told once: who is told replaces the producer
                self._failed(producer, exc)
            else:
                if not left and not waiting:
                    return True
            if time.monotonic() >= deadline:
                return False

    def close(self) -> None:
        """Give queued records two seconds, then drop them."""
        if self._closed.is_set():
            return
        if not self.flush(_CLOSE_S):
            log.warning("appender: closed with %d records unsent", len(self._producer) + self.waiting)
        self._closed.set()
        self._thread.join()
        self._purge(self._producer)

    def _run(self) -> None:
        while not self._closed.is_set():
            producer = self._producer
            try:
                producer.poll(_POLL_S)
            except _FAILURES as exc:
                self._failed(producer, exc)
            if self.waiting:
                with self._lock:
                    self._produce_waiting()
            if self._done:
                self._wake()
            self._tell_of_delays(time.monotonic())

    def _tell_of_delays(self, now_s: float) -> None:
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        with self._lock:
            new, over = self._held_up.look(now_s)
        for feed in new:
            why = why_held_up(self._producer, feed)
            log.warning("%s[%d]: no record was acknowledged for %.0f s, so all wait: %s", *feed, HELD_S, why)
        for feed, took_s in over:
            log.info("%s[%d]: records are acknowledged again, after %.0f s", *feed, took_s)

    @property
    def waiting(self) -> int:
        """How many records the producer does not have yet."""
        return len(self._waiting) + len(self._newest)

    def _produce_waiting(self) -> None:
        while self._waiting and self._produce(*self._waiting[0]):
            self._waiting.popleft()
        if self._waiting:
            return
        for key, record in list(self._newest.items()):
            if key not in self._unacknowledged:
                if not self._produce(record, None):
                    return
                del self._newest[key]

    def _produce(self, record: NewRecord, token: object) -> bool:
        """False: the producer's queue is full. A refusal is reported as a failed delivery."""
        broken = self._broken.get(record.feed) if token is not None else None
        if broken is not None:
            self._done.append(Delivery(token, -1, f"after a record that was refused: {broken}"))
            self._wake()
            return True
        key, unacknowledged = _key(record) if token is None else None, self._unacknowledged
        if key is not None:
            unacknowledged[key] += 1  # before its delivery may be reported
        try:
            produce(
                self._producer, record, partial(self._delivered, token, key, unacknowledged, record.feed, _now_us())
            )
            self._held_up.sent(record.feed, time.monotonic())
        except BufferError:
            self._make_way(key, unacknowledged)
            return False
        except KafkaException as exc:
            self._make_way(key, unacknowledged)
            error = error_of(exc)
            if error.fatal() or error.code() == KafkaError._FATAL:
                self._renew(error)
            self._refused(token, record.feed, error, record.timestamp_ms, len(record.value or b""))
            self._wake()
        return True

    def _delivered(
        self,
        token: object,
        key: _Key | None,
        unacknowledged: Counter[_Key],
        to: Feed,
        sent_us: int,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        self._make_way(key, unacknowledged)
        with self._lock:
            self._held_up.answered(to, time.monotonic())
        if error is not None:
            kind, at_ms = message.timestamp()
            at = None if kind == TIMESTAMP_NOT_AVAILABLE else at_ms
            self._refused(token, to, error, at, len(message.value() or b""))
            return
        if token is not None:
            self._done.append(Delivery(token, message.offset() or 0))
        kind, appended_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self._clock_ahead_us = least_ahead(sent_us, _now_us(), appended_ms)
            self._log_us = appended_ms * 1_000 - _monotonic_us()

    @property
    def clock_ahead_us(self) -> int | None:
        return self._clock_ahead_us

    @property
    def log_us(self) -> int | None:
        return None if self._log_us is None else self._log_us + _monotonic_us()

    def _make_way(self, key: _Key | None, unacknowledged: Counter[_Key]) -> None:
        """A record of this key is under way no more. `unacknowledged`: of its producer, which may be a former one."""
        if key is None:
            return
        with self._lock:
            unacknowledged[key] -= 1
            if not unacknowledged[key]:
                del unacknowledged[key]

    def _refused(self, token: object, feed: Feed, error: KafkaError, timestamp_ms: int | None, size: int) -> None:
        right = missing_right(error.code(), f"write {feed.topic}")
        large = error.code() in TOO_LARGE
        said = f"{feed.topic}: {error.str()} ({error.name()}){f': the ACLs lack {right}' if right else ''}"
        if large:
            said = f"{too_large(feed, timestamp_ms, size)} ({error.name()})"
        if token is None:
            log.error("appender: record refused: %s", said)
        else:
            self._broken.setdefault(feed, said)
            self._done.append(Delivery(token, -1, said, size if large else 0))

    def _failed(self, producer: Producer, exc: Exception) -> None:
        with self._lock:
            if producer is self._producer:  # otherwise an append has met the error first
                self._renew(_fatal_error(exc))

    def _renew(self, error: KafkaError) -> None:
        """Replace a producer after a fatal error: it accepts nothing more, and its pending records fail."""
        log.warning("appender: new producer after a fatal error: %s", error)
        broken, self._producer, self._unacknowledged = self._producer, Producer(self._config), Counter()
        self._purge(broken)

    def _purge(self, producer: Producer) -> None:
        producer.purge()
        for _ in range(2):  # the first may tell the fatal error instead, where an append has met it
            with suppress(*_FAILURES):
                producer.flush(1.0)  # serves the reports of what was purged


class EarlyAppenders:
    """Appenders that a process opens while it still loads what it needs: librdkafka looks for a broker to give a new
    producer its number at once, when there is no connection yet, and then again after half a second only.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: list[tuple[_Address, KafkaAppender]] = []

    def open(self, bootstrap: str, properties: Mapping[str, str], count: int) -> None:
        """Open some. Those that nobody takes end with the process. Raises LogError."""
        made = [KafkaAppender(bootstrap, properties, lambda: None) for _ in range(count)]
        with self._lock:
            self._opened += [(_address(bootstrap, properties), one) for one in made]

    def take(self, bootstrap: str, properties: Mapping[str, str]) -> KafkaAppender | None:
        """One of this address, which is the caller's from now on; None: there is none."""
        wanted = _address(bootstrap, properties)
        with self._lock:
            for at, (address, _) in enumerate(self._opened):
                if address == wanted:
                    return self._opened.pop(at)[1]
        return None


early_appenders = EarlyAppenders()
"""Of this process."""


def _now_us() -> int:
    return time.time_ns() // 1_000


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1_000


def _key(record: NewRecord) -> _Key | None:
    return None if record.key is None else (record.feed, record.key)


def _fatal_error(exc: Exception) -> KafkaError:
    told = exc if isinstance(exc, KafkaException) else exc.__cause__
    if isinstance(told, KafkaException):
        return error_of(told)
    return KafkaError(KafkaError._FATAL, str(exc), fatal=True)


def _address(bootstrap: str, properties: Mapping[str, str]) -> _Address:
    return bootstrap, tuple(sorted(properties.items()))
