"""Asks about a topic that other programs write: how many partitions it has, and where they begin and end.

Both ends are asked for at once, by two clients: one sees committed records only, the other whatever is in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaException

from borealis_py.kafka.client import LOOK_UP_WAIT_MS, NO_SUCH_TOPIC, consumer_config
from borealis_py.kafka.ends import EARLIEST, LATEST, EndsAsker, KafkaEnds
from borealis_py.log.base import Feed, Wake
from borealis_py.log.foreign import Told

ANSWER_S = 2.0
"""How long the broker may take to describe a topic."""
NOBODY, ABSENT = -1, 0


class _Last:
    """Calls `wake` when it has been called `count` times, by any threads."""

    def __init__(self, count: int, wake: Wake) -> None:
        self._left, self._wake = count, wake
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._wake()


class KafkaPartitions:
    """Implements `log.foreign.PartitionsQuery`."""

    def __init__(self, answer: Future[int]) -> None:
        self._answer = answer

    def poll(self) -> int | None:
        return self._answer.result() if self._answer.done() else None


class KafkaTold:
    """Implements `log.foreign.ToldQuery`."""

    def __init__(self, partitions: Sequence[int], committed: KafkaEnds, written: KafkaEnds, topic: str) -> None:
        self._partitions, self._committed, self._written, self._topic = partitions, committed, written, topic

    def poll(self) -> Mapping[int, Told] | None:
        committed, written = self._committed.poll(), self._written.poll()
        if committed is None or written is None:
            return None
        feeds = {p: Feed(self._topic, p) for p in self._partitions}
        return {p: Told(committed.get(feed), written.get(feed)) for p, feed in feeds.items()}


class KafkaStarts:
    """Implements `log.foreign.StartsQuery`."""

    def __init__(self, starts: KafkaEnds) -> None:
        self._starts = starts

    def poll(self) -> Mapping[int, int | None] | None:
        starts = self._starts.poll()
        return None if starts is None else {feed.partition: start for feed, start in starts.items()}


class KafkaTopicWatch:
    """Implements `log.foreign.TopicWatch`. Its clients connect at the first question.

    Args:
        wake: called in other threads, when the number of partitions, or both of their ends, have been told.
    """

    def __init__(self, bootstrap: str, properties: Mapping[str, str], topic: str, wake: Wake) -> None:
        self._topic, self._wake = topic, wake
        self._config = consumer_config(bootstrap, properties, LOOK_UP_WAIT_MS)
        self._committed = EndsAsker(lambda: Consumer(self._config))
        self._written = EndsAsker(lambda: Consumer({**self._config, "isolation.level": "read_uncommitted"}))
        self._describer: Consumer | None = None
        self._thread = ThreadPoolExecutor(1, "kafka-topic")

    def ask_partitions(self) -> KafkaPartitions:
        answer = self._thread.submit(self._describe)
        answer.add_done_callback(lambda _: self._wake())
        return KafkaPartitions(answer)

    def ask_ends(self, partitions: Sequence[int]) -> KafkaTold:
        feeds = [Feed(self._topic, p) for p in partitions]
        both = _Last(2, self._wake)
        committed, written = (of.ask(feeds, LATEST, both) for of in (self._committed, self._written))
        return KafkaTold(partitions, committed, written, self._topic)

    def ask_starts(self, partitions: Sequence[int]) -> KafkaStarts:
        return KafkaStarts(self._committed.ask([Feed(self._topic, p) for p in partitions], EARLIEST))

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._committed.close()
        self._written.close()
        if self._describer is not None:
            self._describer.close()

    def _describe(self) -> int:
        try:
            self._describer = self._describer or Consumer(self._config)
            found = self._describer.list_topics(self._topic, timeout=ANSWER_S).topics[self._topic]
        except KafkaException:
            return NOBODY
        if found.error is None:
            return len(found.partitions)
        return ABSENT if found.error.code() in NO_SUCH_TOPIC else NOBODY
