"""Kafka as a log: its address, and how its parts are opened. A value, which is sent to Spark workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from borealis_py.kafka.admin import CLUSTERS_COPIES, Copies, KafkaAdmin
from borealis_py.kafka.appender import KafkaAppender, early_appenders
from borealis_py.kafka.deleter import KafkaDeleter
from borealis_py.kafka.lookup import KafkaLookup
from borealis_py.kafka.properties import refuse_reserved
from borealis_py.kafka.reader import KafkaReader
from borealis_py.kafka.topic_watch import KafkaTopicWatch, WatchClients
from borealis_py.kafka.transactor import KafkaTransactor
from borealis_py.log.base import Feed, Mending, Resume, Unended, Wake


@dataclass(frozen=True, slots=True)
class KafkaLog:
    """Implements `log.base.Log` and `log.foreign.ForeignLog` on a Kafka cluster. Opening a part connects to nothing.

    Args:
        bootstrap: "host:port", several comma-separated.
        properties: librdkafka settings for every client, passed on unchanged (security, timeouts ...).
        copies: of the topics that are created.

    Raises:
        ReservedProperty: the guarantees rest on one of them (`kafka.properties`).
    """

    bootstrap: str
    properties: tuple[tuple[str, str], ...] = ()
    copies: Copies = CLUSTERS_COPIES

    def __post_init__(self) -> None:
        refuse_reserved(dict(self.properties))

    @classmethod
    def of(
        cls, bootstrap: str, properties: Mapping[str, str] | None = None, copies: Copies = CLUSTERS_COPIES
    ) -> KafkaLog:
        return cls(bootstrap, tuple(sorted((properties or {}).items())), copies)

    def reader(self, wake: Wake, seldom: bool = False) -> KafkaReader:
        return KafkaReader(self.bootstrap, dict(self.properties), wake, seldom)

    def appender(self, wake: Wake) -> KafkaAppender:
        early = early_appenders.take(self.bootstrap, dict(self.properties))
        if early is None:
            return KafkaAppender(self.bootstrap, dict(self.properties), wake)
        early.wake_by(wake)
        return early

    def open_early(self, appenders: int = 1) -> None:
        """Open what the next calls of `appender` in this process return: new ones may write after half a second only.

        Raises:
            LogError: a property is not understood.
        """
        early_appenders.open(self.bootstrap, dict(self.properties), appenders)

    def lookup(self) -> KafkaLookup:
        return KafkaLookup(self.bootstrap, dict(self.properties))

    def topic_watch(self, topic: str, wake: Wake) -> KafkaTopicWatch:
        """See `log.foreign.ForeignLog`. Of several topics, `clients.KafkaClients` asks together."""
        return KafkaTopicWatch(WatchClients(self.bootstrap, dict(self.properties)), topic, wake, own=True)

    def transactor(
        self,
        transactional_id: str,
        progress: Feed,
        wake: Wake,
        resume: Resume,
        mending: Mending | None = None,
        unended: Unended | None = None,
    ) -> KafkaTransactor:
        return KafkaTransactor(self.bootstrap, dict(self.properties), transactional_id, wake, resume, mending, unended)

    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.bootstrap, dict(self.properties), self.copies)

    def deleter(self) -> KafkaDeleter:
        return KafkaDeleter(self.bootstrap, dict(self.properties))
