"""Local brokers of a test's or a drill's own: one, one with a listener for each link, and a cluster of two.

Three brokers, each with a network of its own, are in `brokers.py`.
"""

from __future__ import annotations

import os
import signal
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from borealis_py.kafka.broker import LocalBroker, free_port
from borealis_py.kafka.client import ask_cluster_id
from borealis_py.kafka.errors import BrokerError
from tests.harness.links import HOST
from tests.harness.waiting import PATIENCE_S, until

TRIES = 3
START_S = 180.0
"""A broker may take as long on a machine that does other things too."""


@contextmanager
def started(directory: Path, timeout_s: float = START_S) -> Iterator[LocalBroker]:
    """A broker whose files lie below `directory`, ended in the end without regard to its data.

    Raises:
        BrokerError: no Java, or it did not start.
    """
    for left in reversed(range(TRIES)):
        local = LocalBroker(directory / f"broker-{left}", free_port())
        try:
            local.up(timeout_s)
            break
        except BrokerError as exc:  # other programs choose ports at the same time
            if not left or "in use" not in str(exc):
                raise
    try:
        yield local
    finally:
        local.down(timeout_s=0.0)


class LinkedBroker(LocalBroker):
    """A local broker which advertises on each link's listener the address at the other end of that link.

    `ports`: of each link, where its process connects, and the broker's own listener behind it."""

    def __init__(self, data_dir: Path, names: Sequence[str]) -> None:
        super().__init__(data_dir, free_port())
        self.ports = {name: (free_port(), free_port()) for name in names}

    def address(self, name: str) -> str:
        """What the process of that link is told."""
        return f"{HOST}:{self.ports[name][0]}"

    def close(self) -> None:
        """End it, paused or not."""
        pid = self.status().pid
        if pid is not None:
            with suppress(psutil.Error):
                psutil.Process(pid).resume()
        self.down(timeout_s=0.0)

    def properties(self) -> str:
        """Kafka takes the last value of a name that is there twice."""
        text = super().properties()
        values = dict(line.split("=", 1) for line in text.splitlines())
        own = [(f"LINK{n}", *ports) for n, ports in enumerate(self.ports.values())]
        more = {
            "listeners": [f"{name}://{HOST}:{target}" for name, _, target in own],
            "advertised.listeners": [f"{name}://{HOST}:{port}" for name, port, _ in own],
            "listener.security.protocol.map": [f"{name}:PLAINTEXT" for name, _, _ in own],
        }
        return text + "".join(f"{key}={','.join([values[key], *added])}\n" for key, added in more.items())


FIRST, SECOND = 1, 2
"""Ids of two brokers."""
SESSION_MS = 30_000
"""So long after a kill that broker's partitions keep their leader, and it cannot come back: longer than a busy machine
takes to notice."""


class First(LocalBroker):
    """The controller, too; on one port, since the second broker must find it again."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, free_port())
        self.voters = f"{FIRST}@{HOST}:{free_port()}"

    def properties(self) -> str:
        """Kafka takes the last value of a name that is there twice."""
        _, _, controller = self.voters.partition("@")
        return super().properties() + (
            f"controller.quorum.voters={self.voters}\nlisteners=PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}\n"
            f"broker.session.timeout.ms={SESSION_MS}\n"
        )


class Second(LocalBroker):
    """A broker of the cluster of `first`, which runs.

    Once it is killed, a partition that it alone holds has no leader.
    """

    def __init__(self, data_dir: Path, first: First) -> None:
        super().__init__(data_dir, free_port())
        self._voters = first.voters
        directory_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        (self.data_dir / "log").mkdir(parents=True)
        (self.data_dir / "log" / "meta.properties").write_text(  # as Kafka's tool formats it
            f"version=1\nnode.id={SECOND}\ncluster.id={ask_cluster_id(first.bootstrap, 10.0)}\n"
            f"directory.id={directory_id}\n"
        )

    def properties(self) -> str:
        return super().properties() + (
            f"process.roles=broker\nnode.id={SECOND}\ncontroller.quorum.voters={self._voters}\n"
            f"listeners=PLAINTEXT://{self.bootstrap}\n"
        )

    def kill(self) -> None:
        """kill -9."""
        pid = self.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        psutil.Process(pid).wait(PATIENCE_S)


class TwoBrokers:
    """Both run. Clients are to ask at `bootstrap`, the first."""

    def __init__(self, directory: Path) -> None:
        self.first = First(directory / "first")
        self.first.up(START_S)
        self.second = Second(directory / "second", self.first)
        self.second.up(START_S)
        self.bootstrap = self.first.bootstrap
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})
        until(lambda: len(self._admin.list_topics(timeout=5).brokers) == 2, "both brokers are in the cluster")

    def create(self, topic: str, leaders: Sequence[int]) -> None:
        """A topic of one partition for each of these ids, held by that broker alone."""
        new = NewTopic(topic, len(leaders), replica_assignment=[[leader] for leader in leaders])
        self._admin.create_topics([new])[topic].result()
        until(lambda: self.leaders(topic) == list(leaders), "clients see the topic")

    def leaders(self, topic: str) -> list[int]:
        """By partition; -1: none."""
        found = self._admin.list_topics(topic, timeout=5).topics[topic].partitions
        return [found[p].leader for p in sorted(found)]

    def close(self) -> None:
        self.second.down(timeout_s=0.0)
        self.first.down(timeout_s=0.0)
