"""A cluster of two brokers, the second of which a test may kill: a partition that it alone holds then has no leader."""

from __future__ import annotations

import os
import signal
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from borealis_py.kafka.broker import LocalBroker, free_port
from borealis_py.kafka.broker_config import HOST
from borealis_py.kafka.client import ask_cluster_id
from tests.harness.waiting import PATIENCE_S, until

FIRST, SECOND = 1, 2
"""Their ids."""
SESSION_MS = 30_000
"""So long after a kill that broker's partitions keep their leader, and it cannot come back: longer than a busy machine
takes to notice."""
START_S = 150.0
"""Three brokers on a busy machine take their time."""


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
    """A broker of the cluster of `first`, which runs."""

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
