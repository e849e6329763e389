"""Asks about a topic that other programs write: its id, how many partitions it has, and where they begin and end.

Two clients ask for ends: one sees whatever is in the log, the other committed records only. Each question costs time of
all threads here, so the second is asked less often: nothing is promised by what it tells.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient

from borealis_py.kafka.access.refusals import listen
from borealis_py.kafka.client import LOOK_UP_WAIT_MS, NO_SUCH_TOPIC, base_config, consumer_config
from borealis_py.kafka.ends import EARLIEST, LATEST, EndsAsker, KafkaEnds
from borealis_py.log.base import Feed, Wake
from borealis_py.log.foreign import Told, TopicFound

ANSWER_S = 2.0
"""How long the broker may take to describe a topic."""
COMMITTED_S = 0.5
"""How old the committed ends may be that are told beside the others."""
_NO_ID = str(Uuid(0, 0))
NOBODY, ABSENT = TopicFound(-1), TopicFound(0)


class KafkaPartitions:
    """Implements `log.foreign.PartitionsQuery`."""

    def __init__(self, answer: Future[TopicFound]) -> None:
        self._answer = answer

    def poll(self) -> TopicFound | None:
        return self._answer.result() if self._answer.done() else None


class KafkaTold:
    """Implements `log.foreign.ToldQuery`. `committed`: asked for with `written`, or not long before."""

    def __init__(self, committed: KafkaEnds, written: KafkaEnds) -> None:
        self._committed, self._written = committed, written

    def poll(self) -> Mapping[int, Told] | None:
        committed, written = self._committed.poll(), self._written.poll()
        if committed is None or written is None:
            return None
        return {feed.partition: _told(committed.get(feed), end) for feed, end in written.items()}


def _told(committed: int | None, written: int | None) -> Told:
    """What is committed may be answered after what is written."""
    if committed is None or written is None:
        return Told(None, written)
    return Told(min(committed, written), written)


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
        self._known = KafkaEnds(())
        """The newest answer to what is committed."""
        self._asked: KafkaEnds | None = None
        """The question for what is committed that has not been answered."""
        self._asked_s = 0.0
        self._access = bootstrap, properties
        self._describer: AdminClient | None = None
        self._thread = ThreadPoolExecutor(1, "kafka-topic")

    def ask_partitions(self) -> KafkaPartitions:
        answer = self._thread.submit(self._describe)
        answer.add_done_callback(lambda _: self._wake())
        return KafkaPartitions(answer)

    def ask_ends(self, partitions: Sequence[int]) -> KafkaTold:
        feeds = tuple(Feed(self._topic, p) for p in partitions)
        return KafkaTold(self._ask_committed(feeds), self._written.ask(feeds, LATEST, self._wake))

    def _ask_committed(self, feeds: tuple[Feed, ...]) -> KafkaEnds:
        """The newest answer that names these feeds, or the question."""
        if self._asked is not None and self._asked.poll() is not None:
            self._known, self._asked = self._asked, None
        known, asked = self._known.feeds == feeds, self._asked is not None and self._asked.feeds == feeds
        if not asked and (not known or time.monotonic() - self._asked_s >= COMMITTED_S):
            self._asked, self._asked_s = self._committed.ask(feeds, LATEST, self._wake), time.monotonic()
        return self._known if known or self._asked is None else self._asked

    def ask_starts(self, partitions: Sequence[int]) -> KafkaStarts:
        return KafkaStarts(self._committed.ask([Feed(self._topic, p) for p in partitions], EARLIEST))

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._committed.close()
        self._written.close()

    def _describe(self) -> TopicFound:
        try:
            self._describer = self._describer or AdminClient(base_config(*self._access))
            asked = self._describer.describe_topics(TopicCollection([self._topic]), request_timeout=ANSWER_S)
            found = asked[self._topic].result()
        except KafkaException as exc:
            if self._describer is not None:
                listen(self._describer)
            return ABSENT if exc.args[0].code() in NO_SUCH_TOPIC else NOBODY
        return TopicFound(len(found.partitions), _id_of(found.topic_id))


def _id_of(topic_id: Uuid | None) -> str:
    """As Kafka's own tools write it; "": an old broker has none."""
    text = "" if topic_id is None else str(topic_id)
    return "" if text == _NO_ID else text
