"""The clients of one cluster that everything in a process shares."""

from __future__ import annotations

from borealis_py.kafka.log import KafkaLog
from borealis_py.kafka.reader import KafkaReader
from borealis_py.kafka.topic_watch import KafkaTopicWatch, WatchClients
from borealis_py.log.base import Wake


class KafkaClients:
    """Implements `log.foreign.ForeignLog`. Its parts are closed before it."""

    def __init__(self, log: KafkaLog) -> None:
        self._log = log
        self._watch = WatchClients(log.bootstrap, dict(log.properties))

    def reader(self, wake: Wake) -> KafkaReader:
        return self._log.reader(wake)

    def topic_watch(self, topic: str, wake: Wake) -> KafkaTopicWatch:
        return KafkaTopicWatch(self._watch, topic, wake)

    def close(self) -> None:
        """Waits for questions in flight."""
        self._watch.close()
