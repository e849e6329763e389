"""Simulated disks that are topics of the simulated log: production reads and writes them (`checkpoints: kafka`).

What faults do to a disk is written into its topic before the topic is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from borealis_py.log import topics
from borealis_py.log.base import Delivery, Feed, Log, LogError, NewRecord, Wake
from borealis_py.node.checkpoint_topic import Part, TopicLocation
from borealis_py.simulation.cluster.checkpoints import Disk, File, MemoryPlace
from borealis_py.simulation.log.client import MemoryAdmin, MemoryClient, MemoryLog
from borealis_py.simulation.log.reader import MemoryLookup

PART_BYTES = 150
"""Short: a file takes several records."""
ACTOR = "disk"
"""The client by which faults write."""


class BlockingAppender:
    """Appends whose outcome is known at once: no time passes in a call that blocks. What cannot be acknowledged now is
    reported as failed, although it may lie there."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client
        self._delivered: list[Delivery] = []

    def append(self, record: NewRecord, token: object = None) -> None:
        client, broker, topic = self._client, self._client.log.broker, record.feed.topic
        try:
            if not client.alive or not client.sends(topic):
                raise LogError(f"{topic}: no broker answered {client.name}")
            offset = broker.append(record)
            if not client.hears(topic) or broker.partition(record.feed).high_watermark <= offset:
                raise LogError(f"{topic}: no broker answered {client.name} in time")
        except LogError as exc:
            self._delivered.append(Delivery(token, -1, str(exc)))
        else:
            self._delivered.append(Delivery(token, offset))

    def deliveries(self) -> list[Delivery]:
        found, self._delivered = self._delivered, []
        return found

    def flush(self, timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        """Nothing is open."""


class BlockingLog:
    """What a `TopicLocation` uses of a `Log`."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def admin(self) -> MemoryAdmin:
        return self._client.admin()

    def lookup(self) -> MemoryLookup:
        return self._client.lookup()

    def appender(self, wake: Wake) -> BlockingAppender:
        return BlockingAppender(self._client)


@dataclass(frozen=True, slots=True)
class Keeper:
    """The topics of one app, as the process of `client` reads and writes them. `log`: the world's, for faults."""

    log: MemoryLog
    client: MemoryClient
    app: str

    def location(self, directory: str, client: MemoryClient | None = None) -> TopicLocation:
        by = client or self.client
        log: Log = BlockingLog(by)  # type: ignore[assignment]
        feed, writes = Feed(topics.kept_files(self.app, directory)), itertools.count()

        def new_id() -> str:
            there = self.log.broker.existing(feed)
            return f"{by.name}, {next(writes)} at {0 if there is None else len(there.records)}"

        return TopicLocation(log, self.app, directory, PART_BYTES, new_id)

    def bring(self, disk: Disk, directory: str) -> None:
        """Write what faults have done to a disk since its topic was last read."""
        if disk.in_topic == (now := {name: file.content for name, file in disk.files.items()}):
            return
        location = self.location(directory, self.log.client(ACTOR))
        try:
            location.prepare()
            location.remove(*(name for name in disk.in_topic if name not in now))
            for name, content in now.items():
                if disk.in_topic.get(name) != content:
                    location.write(name, content)
        except OSError:
            return  # the topic takes nothing now
        disk.in_topic = now


class TopicPlace(MemoryPlace):
    """A `MemoryPlace` whose files lie in a topic."""

    def __init__(self, disks: dict[int, Disk], node: str, replica: int, keeper: Keeper) -> None:
        super().__init__(disks, node, replica)
        self._keeper = keeper
        self._topic = keeper.location(self.name)
        keeper.bring(disks[replica], self.name)

    def prepare(self) -> None:
        self._topic.prepare()

    def names(self) -> list[str]:
        return self._topic.names()

    def read(self, name: str) -> bytes:
        return self._topic.read(name)

    def read_all(self, names: Iterable[str]) -> dict[str, bytes | OSError]:
        return self._topic.read_all(names)

    def write(self, name: str, content: bytes) -> None:
        self._refuse_if_broken()
        self._topic.write(name, content)
        super().write(name, content)
        self._disk.in_topic[name] = content

    def leave(self, file: File) -> None:
        """The process dies in the middle of writing: of a file of two parts the first one lies there."""
        feed, broker = Feed(topics.kept_files(self._keeper.app, self.name)), self._keeper.log.broker
        if file.name not in self._files and broker.exists(feed.topic):
            value = msgspec.msgpack.encode(Part("of one who died", 2, file.content))
            broker.append(NewRecord(feed, value, f"{file.name}/0".encode()))

    def remove(self, *names: str) -> None:
        self._topic.remove(*names)
        super().remove(*names)
        for name in names:
            self._disk.in_topic.pop(name, None)

    def remove_temporaries(self) -> list[str]:
        return self._topic.remove_temporaries()

    def sibling(self, name: str) -> TopicPlace:
        return TopicPlace(self._disks, self._node, int(name.rpartition(".r")[2]), self._keeper)

    def siblings(self) -> Iterator[str]:
        return self._topic.siblings()

    def display_name(self, name: str) -> str:
        return self._topic.display_name(name)

    def close(self) -> None:
        self._topic.close()
