"""Blocking queries of a log, on a client of their own: a reading one would answer only after its long poll.

One client is kept for all ranges: a new one connects for 35 ms, and a start reads a dozen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from borealis_py.kafka.access.refusals import listen
from borealis_py.kafka.client import (
    LEADER_MOVES,
    LOOK_UP_WAIT_MS,
    consumer_config,
    error_of,
    record_of,
    translated,
    translating,
    unreachable,
)
from borealis_py.kafka.ends import EndsAsker, KafkaEnds
from borealis_py.log.base import Feed, LogError, OffsetGone, Record

ANSWER_S = 5.0
"""How long a query may take before the broker counts as unreachable."""
AGAIN_S = 1.0
"""How long the client that is kept may take for the first record, before another one is asked."""
_BATCH = 5000
_ELECTION_S = 0.05
"""How long to wait for a leader before the next try."""

Answer = TypeVar("Answer")


class KafkaLookup:
    """Implements `log.base.Lookup`. `committed` False: also sees aborted and unfinished transactions."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str], committed: bool = True) -> None:
        self._bootstrap = bootstrap
        self._properties = properties
        self._config = consumer_config(bootstrap, properties, LOOK_UP_WAIT_MS)
        if not committed:
            self._config["isolation.level"] = "read_uncommitted"
        self._client: Consumer | None = None
        self._reads = False
        """The client is in use by a `read`; another that begins meanwhile has one of its own."""
        self._left = False
        """A `read` was left before its end: there is a new client for the next question."""
        self._closed = False
        self._asker = EndsAsker(lambda: Consumer(self._config))

    def bounds(self, feed: Feed) -> tuple[int, int]:
        with self._asking("look up the bounds of", feed):
            first, end = self._led(
                feed, lambda: self._consumer.get_watermark_offsets(_partition(feed), timeout=ANSWER_S)
            )
        return first, end

    def written(self, feed: Feed) -> int:
        """See `log.base.Lookup.written`. Asks another look-up: what a client counts as the end cannot change."""
        with closing(KafkaLookup(self._bootstrap, self._properties, committed=False)) as raw:
            return raw.bounds(feed)[1]

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        """See `log.base.Lookup.find`. Before 1970: the first record, since negative times are codes."""
        first, end = self.bounds(feed)
        if timestamp_ms < 0:
            return first
        with self._asking("look up a time in", feed):
            found = self._led(feed, lambda: self._at(feed, timestamp_ms))
        return int(found.offset) if found.offset >= 0 else end

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        """See `log.base.Lookup.read`.

        Raises:
            OffsetGone: retention deleted part of the range.
            LogUnreachable: no record came for a while.
        """
        if first >= end:
            return
        if self._reads:
            with closing(self._opened()) as consumer:
                yield from self._read(consumer, feed, first, end, 2 * ANSWER_S)
            return
        self._replace_left()
        self._reads = self._left = True
        try:
            yield from self._read_kept(feed, first, end)
            self._left = False
        finally:
            with suppress(KafkaException, RuntimeError):  # the latter: the look-up was closed meanwhile
                if self._client is not None:  # not closed, in what may be the thread that collects garbage
                    self._client.unassign()
                    self._client.consume(1, 0)  # drops what it has fetched beyond
            self._reads = False

    def _read_kept(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        """By the client that is kept. One that has read a topic of this name that was deleted may refuse or ignore what
        the new one has: another client is asked then, unless records of the former have been given."""
        if self._client is not None:
            begun = False
            try:
                for record in self._read(self._client, feed, first, end, AGAIN_S):
                    begun = True
                    yield record
                return
            except LogError:
                if begun:
                    raise
            self._renew()
        yield from self._read(self._consumer, feed, first, end, 2 * ANSWER_S)

    def ask_ends(self, feeds: Sequence[Feed]) -> KafkaEnds:
        return self._asker.ask(feeds)

    def close(self) -> None:
        self._closed = True
        self._asker.close()
        self._renew()

    def _read(self, consumer: Consumer, feed: Feed, first: int, end: int, patience_s: float) -> Iterator[Record]:
        where = f"read {feed.topic}[{feed.partition}]"
        with translating(self._bootstrap, where, lambda: listen(consumer)):
            consumer.list_topics(feed.topic, timeout=ANSWER_S)  # otherwise the assign costs a second
            consumer.assign([_partition(feed, first)])
        position, heard = first, time.monotonic()
        while position < end:
            with self._asking("read", feed):
                messages = consumer.consume(1, 0.1)
                messages += consumer.consume(_BATCH, 0) if messages else []
            if not messages and time.monotonic() - heard > patience_s:
                raise unreachable(self._bootstrap)
            for message in messages:
                if message.topic() is not None and (message.topic(), message.partition()) != feed:
                    continue  # an error of the range before, told late
                error = message.error()
                offset = message.offset() or 0
                if error is None:
                    position = offset + 1
                    if offset < end:
                        yield record_of(feed, message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    position = max(position, offset)  # skip transaction markers
                elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    raise OffsetGone(feed, position)
                elif error.fatal() or not error.retriable():
                    raise translated(self._bootstrap, where, error)
            if messages:
                heard, patience_s = time.monotonic(), 2 * ANSWER_S  # after the yields: the caller may have taken long

    @property
    def _consumer(self) -> Consumer:
        """Opened when first asked: what is asked while a client connects, some ms later, may wait 0.7 s (librdkafka
        2.16.0 drops what it has asked a bootstrap broker when it learns that broker's id)."""
        if self._closed:
            raise LogError("the look-up is closed")
        if self._client is None:
            self._client = self._opened()
        return self._client

    def _replace_left(self) -> None:
        """What is left of a range must not be taken for the next one's."""
        if self._left and not self._reads:
            self._left = False
            self._renew()

    def _renew(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _opened(self) -> Consumer:
        with translating(self._bootstrap, "open a look-up"):
            return Consumer(self._config)

    def _at(self, feed: Feed, timestamp_ms: int) -> TopicPartition:
        (found,) = self._consumer.offsets_for_times([_partition(feed, timestamp_ms)], timeout=ANSWER_S)
        if found.error is not None:
            raise KafkaException(found.error)
        return found

    def _led(self, feed: Feed, ask: Callable[[], Answer]) -> Answer:
        """The answer of the partition's leader, which is not known at once when another is elected or the topic new."""
        self._replace_left()
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                return ask()
            except KafkaException as exc:
                if error_of(exc).code() not in LEADER_MOVES or time.monotonic() > deadline:
                    raise
            time.sleep(_ELECTION_S)
            self._consumer.list_topics(feed.topic, timeout=ANSWER_S)  # otherwise it asks the former leader again

    def _asking(self, doing: str, feed: Feed) -> Any:
        return translating(self._bootstrap, f"{doing} {feed.topic}[{feed.partition}]", self._listen)

    def _listen(self) -> None:
        if self._client is not None and not self._reads:
            listen(self._client)


def _partition(feed: Feed, offset: int | None = None) -> TopicPartition:
    return TopicPartition(feed.topic, feed.partition) if offset is None else TopicPartition(*feed, offset)
