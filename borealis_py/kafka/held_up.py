"""Which partitions acknowledge no record although some wait for that, and why, for people."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

from borealis_py.log.base import Feed

HELD_S = 10.0
"""For how long nothing is acknowledged before that is logged: a leader that changes takes less."""
_ASK_S = 1.0


class HeldUp:
    """Counts records that are under way. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._under_way: Counter[Feed] = Counter()
        self._since: dict[Feed, float] = {}
        """When a partition with records under way acknowledged one last, or had none under way."""
        self._reported: dict[Feed, float] = {}

    def sent(self, feed: Feed, now_s: float) -> None:
        if not self._under_way[feed]:
            self._since[feed] = now_s
        self._under_way[feed] += 1

    def answered(self, feed: Feed, now_s: float) -> None:
        """A record was stored, or refused."""
        self._since[feed] = now_s
        self._under_way[feed] -= 1
        if not self._under_way[feed]:
            del self._under_way[feed], self._since[feed]

    def look(self, now_s: float) -> tuple[list[Feed], list[tuple[Feed, float]]]:
        """Partitions that have held records up for `HELD_S`, each once, and those that no longer do, with how long they
        did, in seconds."""
        held = {feed: since for feed, since in self._since.items() if now_s - since >= HELD_S}
        new = [feed for feed in held if feed not in self._reported]
        over = [(feed, now_s - since) for feed, since in self._reported.items() if feed not in held]
        self._reported = {feed: self._reported.get(feed, since) for feed, since in held.items()}
        return new, over


class _Asked(Protocol):
    def list_topics(self, topic: str, timeout: float) -> ClusterMetadata: ...


def why_held_up(client: _Asked, feed: Feed) -> str:
    """The reason, as far as the cluster's metadata tell. Waits a second at most."""
    try:
        topic = client.list_topics(feed.topic, _ASK_S).topics[feed.topic]
    except (KafkaException, KeyError):
        return "no broker answers"
    if topic.error is not None:
        return str(topic.error.str())
    partition = topic.partitions.get(feed.partition)
    if partition is None:
        return "there is no such partition"
    if partition.leader < 0:
        return "it has no leader: the brokers that have its records are away"
    copies, there = len(partition.replicas), len(partition.isrs)
    if there < copies:
        return (
            f"{there} of its {copies} copies {'is' if there == 1 else 'are'} in sync: it takes records once there are "
            "min.insync.replicas"
        )
    return "its leader does not answer"
