"""The only writer of a corrected stream: Kafka transactions in a separate thread (B7).

An attempt is one producer. If anything goes wrong, the producer is discarded; its successor fences it, and only then
reads how far it got.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, Message, Producer

from borealis_py.kafka.appender import TOO_LARGE, produce
from borealis_py.kafka.client import error_of, log, producer_config
from borealis_py.kafka.lookup import KafkaLookup
from borealis_py.log.base import (
    MENDS_MAX,
    AtWork,
    Committed,
    Feed,
    Fenced,
    LogError,
    Mend,
    Mending,
    NewRecord,
    Resume,
    TookOver,
    TransactorEvent,
    Unended,
    Unknown,
    Wake,
)
from borealis_py.log.record_size import too_large

TRANSACTION_TIMEOUT_MS = 10_000
"""Maximum time for which a dead writer's open transaction delays readers of the stream."""
TIMEOUT_DOUBLINGS = 4
"""How often the timeout is doubled, each time a transaction failed after most of it: a bucket of millions of rows takes
long to write.
"""
_ANSWER_S = 10.0
_ABORT_S = 2.0
_SLOW_S = 1.0
"""A transaction that took longer met a broker that was away, and such a broker may have lost ends of transactions."""
_SETTLE_S = 1.0
"""For how long the end of a hanging transaction may still be on its way."""
_LOOK_S = 0.3
"""A writer that adds nothing to its open transaction for this long counts as dead."""
_AGAIN_S = 0.02
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})

# Any client may read corrected streams; gzip is the compression that all of them support as installed.
_TIMEOUT = "transaction.timeout.ms"
_DEFAULTS = {_TIMEOUT: str(TRANSACTION_TIMEOUT_MS), "compression.type": "gzip"}

Job = Callable[[], TransactorEvent]
Records = Callable[[], Iterable[NewRecord]]


class KafkaTransactor:
    """Implements `log.base.Transactor`."""

    def __init__(
        self,
        bootstrap: str,
        properties: Mapping[str, str],
        transactional_id: str,
        wake: Wake,
        resume: Resume,
        mending: Mending | None = None,
        unended: Unended | None = None,
    ) -> None:
        self._config = {
            **producer_config(bootstrap, {**_DEFAULTS, **properties}),
            "transactional.id": transactional_id,
        }
        self._resume = resume
        self._mending = mending
        self._unended = unended
        self._lookup = KafkaLookup(bootstrap, properties)
        self._open_raw = partial(KafkaLookup, bootstrap, properties, committed=False)
        self._wake = wake
        self._jobs: SimpleQueue[tuple[int, int, Job] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._generation = 0  # grows with every take_over and drop; results of older ones are ignored
        self._events: deque[TransactorEvent] = deque()
        self._producer: Producer | None = None  # used by the thread only
        self._told = ""  # likewise: why records could not be made, each reason logged once
        self._too_long = 0  # likewise: transactions that failed after most of their timeout
        self._thread = threading.Thread(target=self._run, name="kafka-transactor", daemon=True)
        self._thread.start()

    def take_over(self, attempt: int) -> None:
        self.drop()
        self._jobs.put((self._generation, attempt, lambda: self._take_over(attempt)))

    def commit(self, attempt: int, make_records: Records) -> None:
        self._jobs.put((self._generation, attempt, lambda: self._commit(attempt, make_records)))

    def drop(self) -> None:
        with self._lock:
            self._generation += 1
            self._events.clear()

    def events(self) -> list[TransactorEvent]:
        with self._lock:
            events = list(self._events)
            self._events.clear()
        return events

    def close(self) -> None:
        """Drop the attempt. Waits for a request in flight, at most ten seconds."""
        self.drop()
        self._jobs.put(None)
        self._thread.join(_ANSWER_S + _ABORT_S)

    # From here on: the thread.

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            generation, attempt, work = job
            if generation != self._generation:
                continue
            try:
                event = work()
            except Exception as exc:  # without this thread the stream would silently stop
                log.exception("transactor: unexpected error")
                self._discard()
                event = Unknown(attempt, f"unexpected: {exc!r}")
            with self._lock:
                if generation == self._generation:
                    self._events.append(event)
            self._wake()
        self._discard()
        self._lookup.close()

    def _take_over(self, attempt: int) -> TransactorEvent:
        self._discard()
        try:
            with self._raw() as raw:
                if self._at_work(raw):
                    return AtWork(attempt)
                self._producer = Producer({**self._config, _TIMEOUT: str(self._timeout_ms)})
                self._producer.init_transactions(_ANSWER_S)
                still = self._mend(self._producer, raw)
            if still is not None:
                return self._doubtful(attempt, still)
            return TookOver(attempt, self._resume(self._lookup))
        except KafkaException as exc:
            return self._failed(attempt, error_of(exc))
        except LogError as exc:
            return self._doubtful(attempt, str(exc))

    @contextmanager
    def _raw(self) -> Iterator[KafkaLookup]:
        """A look-up that sees uncommitted records. Opened only when used: connecting costs fail-over time."""
        if self._mending is None and self._unended is None:
            yield self._lookup
            return
        with closing(self._open_raw()) as raw:
            yield raw

    def _at_work(self, raw: KafkaLookup) -> bool:
        """Whether another writer is still writing into a transaction."""
        if self._unended is None:
            return False
        end = last = self._unended(self._lookup, raw)
        deadline = time.monotonic() + _LOOK_S
        while end is not None and last == end and time.monotonic() < deadline:
            time.sleep(_AGAIN_S)
            end = self._unended(self._lookup, raw)
        return end is not None and end != last

    @property
    def _timeout_ms(self) -> int:
        return int(self._config[_TIMEOUT]) << min(self._too_long, TIMEOUT_DOUBLINGS)

    def _mend(self, producer: Producer, raw: KafkaLookup) -> str | None:
        """Repair what earlier writers left; returns what is still wrong. Raises KafkaException, LogError."""
        if self._mending is None:
            return None
        for _ in range(MENDS_MAX):
            mend = self._settled(self._mending, raw)
            if mend is None:
                return None
            log.warning("transactor: %s", mend.why)
            producer.begin_transaction()
            whole = _produce_all(producer, mend.records, [])
            producer.flush(_ANSWER_S)  # an abort would discard unsent records, and end nothing
            if not whole or not mend.commit:
                producer.abort_transaction(_ANSWER_S)
            else:
                producer.commit_transaction(_ANSWER_S)
        mend = self._settled(self._mending, raw)
        return None if mend is None else mend.why

    def _settled(self, mending: Mending, raw: KafkaLookup) -> Mend | None:
        """The next repair, once the problem has lasted for a while."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            mend = mending(self._lookup, raw)
            if mend is None or mend.commit or time.monotonic() > deadline:
                return mend
            time.sleep(_AGAIN_S)

    def _hangs(self) -> str | None:
        """Whether the transaction just committed, or one before it, has no end."""
        if self._mending is None:
            return None
        with self._raw() as raw:
            mend = self._settled(self._mending, raw)
        return None if mend is None else mend.why

    def _commit(self, attempt: int, make_records: Records) -> TransactorEvent:
        producer = self._producer
        if producer is None:
            return Unknown(attempt, "nothing was taken over")
        try:
            records = make_records()
        except LogError as exc:
            if str(exc) != self._told:
                log.warning("transactor: records could not be made, retrying: %s", exc)
                self._told = str(exc)
            return Unknown(attempt, str(exc))
        except Exception as exc:  # a row that cannot be encoded must not end the thread
            log.exception("transactor: records could not be made")
            return Unknown(attempt, f"records could not be made: {exc}")
        begun, refusals = time.monotonic(), list[_Refused]()
        try:
            producer.begin_transaction()
            if not _produce_all(producer, records, refusals):
                return self._cut_short(attempt, max(refusals, key=lambda one: one.size), begun)
            producer.commit_transaction(_ANSWER_S)
            hangs = self._hangs() if time.monotonic() - begun > _SLOW_S else None
            return Committed(attempt) if hangs is None else self._doubtful(attempt, hangs)
        except KafkaException as exc:
            large = max(refusals, key=lambda one: one.size, default=_Refused(error_of(exc)))
            return self._cut_short(attempt, large._replace(error=error_of(exc)), begun)
        except LogError as exc:
            return self._doubtful(attempt, str(exc))

    def _doubtful(self, attempt: int, why: str) -> Unknown:
        self._discard()
        return Unknown(attempt, why)

    def _cut_short(self, attempt: int, refused: _Refused, begun: float) -> TransactorEvent:
        """Handle a failed transaction: the next may take longer if this one used most of its time."""
        if (time.monotonic() - begun) * 2000 > self._timeout_ms:
            self._too_long += 1
        return self._failed(attempt, refused.error, refused.too_large)

    def _failed(self, attempt: int, error: KafkaError, large: str = "") -> TransactorEvent:
        if error.code() not in _FENCED and not error.fatal() and self._producer is not None:
            try:  # the successor's fence aborts as well; this saves readers the wait
                self._producer.abort_transaction(_ABORT_S)
            except KafkaException as exc:
                if error.code() == KafkaError._FATAL:  # the code gives no reason
                    error = error_of(exc)
        fenced = error.code() in _FENCED
        self._discard()
        if fenced:
            return Fenced(attempt)
        return Unknown(attempt, large or f"{error.str()} ({error.name()})", bool(large))

    def _discard(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            for _ in range(2):  # a fenced client first reports that once more
                with suppress(KafkaException):
                    producer.flush(0.1)  # serve the reports of what was purged; otherwise closing waits for them


class _Refused(NamedTuple):
    """A record that was not taken: the `error`; and why, if that is its size: a text as `too_large`, and the size."""

    error: KafkaError
    too_large: str = ""
    size: int = 0


def _produce_all(producer: Producer, records: Iterable[NewRecord], refusals: list[_Refused]) -> bool:
    """Produce all records into the open transaction, up to the first refusal known so far.

    Args:
        refusals: filled with records that were not taken, also later: the commit reports others without naming them.

    Returns:
        Whether none was refused so far.
    """

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            feed, (kind, at) = Feed(message.topic() or "?", message.partition() or 0), message.timestamp()
            at_ms = None if kind == TIMESTAMP_NOT_AVAILABLE else at
            refusals.append(_refused(error, feed, at_ms, message.value()))

    for record in records:
        while True:
            try:
                produce(producer, record, on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
            except KafkaException as exc:
                refusals.append(_refused(error_of(exc), record.feed, record.timestamp_ms, record.value))
                return False
        if refusals:
            break
    return not refusals


def _refused(error: KafkaError, feed: Feed, timestamp_ms: int | None, value: bytes | str | None) -> _Refused:
    if error.code() not in TOO_LARGE:
        return _Refused(error)
    size = len(value or b"")
    return _Refused(error, too_large(feed, timestamp_ms, size), size)
