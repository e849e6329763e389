"""Asks about topics that other programs write: their ids, how many partitions they have, and where these begin and end.

All topics of a cluster that a process watches share the clients: what is asked at the same time is one request. Two
clients ask for ends: one sees whatever is in the log, the other committed records only. Each question costs time of all
threads here, so the second is asked less often: nothing is promised by what it tells. Topics that were not told of last
time are asked for by two others, so that a leader that is silent holds up no question about what others lead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient

from borealis_py.kafka.access.refusals import listen
from borealis_py.kafka.client import LOOK_UP_WAIT_MS, NO_SUCH_TOPIC, base_config, consumer_config, log
from borealis_py.kafka.ends import EARLIEST, LATEST, EndsAsker, KafkaEnds, taken
from borealis_py.log.base import Feed, Wake
from borealis_py.log.foreign import Told, TopicFound

ANSWER_S = 2.0
"""How long the broker may take to describe topics."""
COMMITTED_S = 0.5
"""How old the committed ends may be that are told beside the others."""
COLLECT_S = 0.0005
"""How long a question waits for those about other topics: a process asks about all of them at the same moments."""
_NO_ID = str(Uuid(0, 0))
NOBODY, ABSENT = TopicFound(-1), TopicFound(0)


class KafkaPartitions:
    """Implements `log.foreign.PartitionsQuery`. `answered`: called in another thread, when `answer` is there."""

    def __init__(self, topic: str, answered: Wake) -> None:
        self.topic = topic
        self.answered = answered
        self.answer: TopicFound | None = None

    def poll(self) -> TopicFound | None:
        return self.answer


class KafkaTold:
    """Implements `log.foreign.ToldQuery`. `committed`: asked for with `written`, or not long before."""

    def __init__(self, committed: KafkaEnds, written: KafkaEnds) -> None:
        self._committed = committed
        self._written = written

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


class EndsAskers(NamedTuple):
    """Who asks for what is in the log, and who for what is committed."""

    written: EndsAsker
    committed: EndsAsker


class WatchClients:
    """The clients of all topics of a cluster that are watched. They connect at the first question."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str]) -> None:
        self._access = bootstrap, properties
        self._config = consumer_config(bootstrap, properties, LOOK_UP_WAIT_MS)
        self._usual = self._askers()
        self._silent = self._askers()
        self._topics: SimpleQueue[KafkaPartitions | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def askers(self, silent: bool) -> EndsAskers:
        """`silent`: not all ends of the topic were told when it was last asked about."""
        return self._silent if silent else self._usual

    def describe(self, query: KafkaPartitions) -> None:
        """Start a query; does not block. Not after `close`."""
        self._topics.put(query)
        if self._thread is None:
            self._thread = threading.Thread(target=self._describe, name="kafka-topics", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ask nothing more. Waits for what is in flight."""
        self._topics.put(None)
        if self._thread is not None:
            self._thread.join()
        for askers in (self._usual, self._silent):
            for asker in askers:
                asker.close()

    def _askers(self) -> EndsAskers:
        everything = {**self._config, "isolation.level": "read_uncommitted"}
        return EndsAskers(
            EndsAsker(lambda: Consumer(everything), COLLECT_S), EndsAsker(lambda: Consumer(self._config), COLLECT_S)
        )

    # From here on: the thread that describes topics.

    def _describe(self) -> None:
        admin: AdminClient | None = None
        while queries := taken(self._topics, COLLECT_S):
            try:
                admin = admin or AdminClient(base_config(*self._access))
                found = _described(admin, sorted({query.topic for query in queries}))
            except Exception:  # an ingress would wait for the answer for ever
                log.exception("topics: unexpected error")
                found = {}
            for query in queries:
                query.answer = found.get(query.topic, NOBODY)
                query.answered()


class KafkaTopicWatch:
    """Implements `log.foreign.TopicWatch`.

    Args:
        clients: what asks. own: they are this one's, and closed with it.
        wake: called in other threads, when the number of partitions, or both of their ends, have been told.
    """

    def __init__(self, clients: WatchClients, topic: str, wake: Wake, own: bool = False) -> None:
        self._clients = clients
        self._topic = topic
        self._wake = wake
        self._own = own
        self._known = KafkaEnds(())
        """The newest answer to what is committed."""
        self._asked: KafkaEnds | None = None
        """The question for what is committed that has not been answered."""
        self._asked_s = 0.0
        self._written = KafkaEnds(())
        """The last question for what is written."""
        self._count = KafkaPartitions(topic, self._answered)
        self._count.answer = NOBODY
        self._ahead = False
        """The number of partitions was asked for ahead of the ends, and these were not since."""

    def ask_partitions(self, ahead: bool = False) -> KafkaPartitions:
        self._ahead = ahead
        self._count = KafkaPartitions(self._topic, self._answered)
        self._clients.describe(self._count)
        return self._count

    def _answered(self) -> None:
        """Called in other threads, after an answer is there: the last of them wakes."""
        if not self._ahead and self._count.poll() is not None and self._written.poll() is not None:
            self._wake()

    def ask_ends(self, partitions: Sequence[int]) -> KafkaTold:
        feeds = tuple(Feed(self._topic, p) for p in partitions)
        told = self._written.poll()
        clients = self._clients.askers(told is None or None in told.values())
        self._ahead = False
        self._written = clients.written.ask(feeds, LATEST, self._answered)
        return KafkaTold(self._ask_committed(clients.committed, feeds), self._written)

    def _ask_committed(self, asker: EndsAsker, feeds: tuple[Feed, ...]) -> KafkaEnds:
        """The newest answer that names these feeds, or the question."""
        if self._asked is not None and self._asked.poll() is not None:
            self._known, self._asked = self._asked, None
        known, asked = self._known.feeds == feeds, self._asked is not None and self._asked.feeds == feeds
        if not asked and (not known or time.monotonic() - self._asked_s >= COMMITTED_S):
            self._asked, self._asked_s = asker.ask(feeds, LATEST, self._answered), time.monotonic()
        return self._known if known or self._asked is None else self._asked

    def ask_starts(self, partitions: Sequence[int]) -> KafkaStarts:
        feeds = [Feed(self._topic, p) for p in partitions]
        return KafkaStarts(self._clients.askers(False).committed.ask(feeds, EARLIEST, self._wake))

    def close(self) -> None:
        if self._own:
            self._clients.close()


def _described(admin: AdminClient, topics: Sequence[str]) -> dict[str, TopicFound]:
    asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER_S)
    found: dict[str, TopicFound] = {}
    for topic in topics:
        try:
            described = asked[topic].result()
        except KafkaException as exc:
            absent = exc.args[0].code() in NO_SUCH_TOPIC
            if not absent:
                listen(admin)
            found[topic] = ABSENT if absent else NOBODY
        else:
            found[topic] = TopicFound(len(described.partitions), _id_of(described.topic_id))
    return found


def _id_of(topic_id: Uuid | None) -> str:
    """As Kafka's own tools write it; "": an old broker has none."""
    text = "" if topic_id is None else str(topic_id)
    return "" if text == _NO_ID else text
