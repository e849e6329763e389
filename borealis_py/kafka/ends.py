"""Queries the ends of feeds in a separate thread: a query to Kafka blocks, and a turn must not.

The admin client's `list_offsets` would need no thread, but is not used: while it looks for a partition's leader, the
caller's thread and the client's own work on one request, and when the answer is quick both free it (librdkafka 2.16.0,
seen by valgrind; it aborted a replica when the broker came back). `delete_records` looks for leaders in the same way.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from borealis_py.kafka.access.refusals import listen
from borealis_py.kafka.client import log
from borealis_py.log.base import Feed, Wake

ANSWER_S = 0.5
"""How long a query may take before the broker counts as unreachable."""
LATEST, EARLIEST = -1, -2
"""Kafka's codes for the end and the beginning of a partition in place of a time. For a committed reader, the end of
committed records."""

Ends = Mapping[Feed, int | None]
T = TypeVar("T")


def nobody() -> None:
    """Whom an answer wakes that is polled for."""


class KafkaEnds:
    """Implements `log.base.EndsQuery`. Dropping it cancels what was not queried yet. `code`: `LATEST` or `EARLIEST`.
    `answered`: called in another thread, when `answer` is there."""

    def __init__(self, feeds: Sequence[Feed], code: int = LATEST, answered: Wake = nobody) -> None:
        self.answered = answered
        self.feeds = tuple(feeds)
        self.code = code
        self.answer: Ends | None = None if feeds else {}

    def poll(self) -> Ends | None:
        return self.answer


class EndsAsker:
    """Runs one query after the other; what is asked meanwhile is one query. Only its thread opens, uses and closes the
    client.

    Args:
        open_consumer: called in the thread, at the first query.
        collect_s: how long a question waits for others that are asked at the same time.
    """

    def __init__(self, open_consumer: Callable[[], Consumer], collect_s: float = 0.0) -> None:
        self._open = open_consumer
        self._collect_s = collect_s
        self._questions: SimpleQueue[weakref.ref[KafkaEnds] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, feeds: Sequence[Feed], code: int = LATEST, answered: Wake = nobody) -> KafkaEnds:
        """Start a query; does not block. Not after `close`. `answered`: as for `KafkaEnds`."""
        question = KafkaEnds(feeds, code, answered)
        if feeds:
            self._questions.put(weakref.ref(question))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kafka-ends", daemon=True)
                self._thread.start()
        return question

    def close(self) -> None:
        """Run no more queries. Waits for one in flight."""
        self._questions.put(None)
        if self._thread is not None:
            self._thread.join()

    # From here on: the thread.

    def _run(self) -> None:
        consumer: Consumer | None = None
        while asked := taken(self._questions, self._collect_s):
            codes = {one: question.code for one in asked if (question := one()) is not None}
            question = None  # held no longer: one that is dropped is not asked again
            if not codes:
                continue
            try:
                consumer = consumer or self._open()
            except Exception:
                log.exception("ends: no client can be opened")
            for code in dict.fromkeys(codes.values()):
                _answer(consumer, [one for one, its in codes.items() if its == code], code)
        if consumer is not None:
            consumer.close()


def taken(questions: SimpleQueue[T | None], collect_s: float) -> list[T]:
    """Wait for a question, and take it with those that are asked within `collect_s`; none: the queue has ended (it has
    None)."""
    found: list[T] = []
    while not found or not questions.empty():
        question = questions.get()
        if question is None:
            questions.put(None)  # for the next call, where this one has found some
            break
        if not found and collect_s:
            time.sleep(collect_s)
        found.append(question)
    return found


def _answer(consumer: Consumer | None, references: Sequence[weakref.ref[KafkaEnds]], code: int) -> None:
    """Answer these questions by one query."""
    feeds = tuple(dict.fromkeys(feed for one in references for feed in _feeds_of(one)))
    ends: dict[Feed, int | None] = dict.fromkeys(feeds)
    if consumer is not None and feeds:
        try:
            ends = _ends(consumer, feeds, code, lambda: any(one() is not None for one in references))
        except Exception:  # a query that is never answered would block the replica forever
            log.exception("ends: unexpected error")
    for reference in references:
        if (question := reference()) is not None:
            question.answer = {feed: ends.get(feed) for feed in question.feeds}
            question.answered()


def _feeds_of(reference: weakref.ref[KafkaEnds]) -> tuple[Feed, ...]:
    question = reference()  # held no longer than here: a question that is dropped is not asked again
    return () if question is None else question.feeds


def _ends(consumer: Consumer, feeds: Sequence[Feed], code: int, awaited: Callable[[], bool]) -> dict[Feed, int | None]:
    try:
        ends, refused = _together(consumer, feeds, code)
    except KafkaException:
        listen(consumer)
        ends, refused = dict.fromkeys(feeds), list(feeds)
    if not refused or not awaited():
        return ends
    return {**ends, **_by_leader(consumer, refused, code)}


def _by_leader(consumer: Consumer, feeds: Sequence[Feed], code: int) -> dict[Feed, int | None]:
    """Learn the leaders anew and query the feeds of each separately: one silent broker or missing topic fails a query
    that names it; of a topic that has grown a client does not know the new partitions for minutes."""
    ends: dict[Feed, int | None] = dict.fromkeys(feeds)
    led: dict[int, list[Feed]] = {}
    with suppress(KafkaException):  # where one topic is not told of, none would be
        for topic in sorted({feed.topic for feed in feeds}):
            found = consumer.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
            for feed in (feed for feed in feeds if feed.topic == topic and feed.partition in found):
                if found[feed.partition].leader >= 0:
                    led.setdefault(found[feed.partition].leader, []).append(feed)
    for own in led.values():
        with suppress(KafkaException):
            ends |= _together(consumer, own, code)[0]
    return ends


def _together(consumer: Consumer, feeds: Iterable[Feed], code: int) -> tuple[dict[Feed, int | None], list[Feed]]:
    """The ends, and the feeds that the client or the broker refused to tell of."""
    asked = [TopicPartition(feed.topic, feed.partition, code) for feed in feeds]
    told = {Feed(tp.topic, tp.partition): tp for tp in consumer.offsets_for_times(asked, timeout=ANSWER_S)}
    ends = {feed: tp.offset if tp.error is None and tp.offset >= 0 else None for feed, tp in told.items()}
    return ends, [feed for feed, tp in told.items() if tp.error is not None]
