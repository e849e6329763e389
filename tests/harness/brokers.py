"""Three brokers and a controller of their own, each in a network namespace, with every record on all three.

The controller is no broker: two brokers may be away, and the third one's leaders still learn that they are alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]

from borealis_py.kafka import jars
from borealis_py.kafka.broker import free_port, new_cluster_id
from borealis_py.kafka.broker_config import java_command, server_properties
from borealis_py.kafka.java import find_java
from tests.harness.faults import FullDisk, MovedClock, compiled_clock
from tests.harness.links import HOST
from tests.harness.waiting import PATIENCE_S, until
from tests.harness.wires import Wires

COUNT = 3
IN_SYNC = 2
"""A write needs so many copies (`min.insync.replicas`)."""
CONTROLLER = 0
"""Its number, and that of its namespace; brokers have 1 to 3."""
CONTROLLER_ID = 100
PORT, CONTROLLER_PORT, LINK_PORT = 9092, 9093, 9200
LAG_MS = 5_000
"""A copy that is behind for so long is not waited for any more; Kafka's default is 30 s."""
DISK_KB = 600_000
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Four of them share the cores with all else: the better code would cost more than it saves in so short a life."""
ASK_S = 2.0


@dataclass(eq=False)
class Node:
    """One of them: its files, and its process. `popen`: the newest one."""

    number: int
    data_dir: Path
    popen: subprocess.Popen[bytes] | None = None

    @property
    def properties(self) -> Path:
        return self.data_dir / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.data_dir / "broker.log"

    @property
    def process(self) -> psutil.Process:
        """That which runs now.

        Raises:
            AssertionError: none does.
        """
        assert self.popen is not None, f"broker {self.number} was never started"
        assert self.popen.poll() is None, f"broker {self.number} does not run"
        return psutil.Process(self.popen.pid)

    @property
    def ended(self) -> bool:
        return self.popen is None or self.popen.poll() is not None

    def signal(self, number: signal.Signals, timeout_s: float = PATIENCE_S) -> None:
        """End it with this signal, and wait until it has ended."""
        if self.popen is not None and self.popen.poll() is None:
            self.popen.send_signal(number)
            self.popen.wait(timeout_s)

    def tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-3000:] if self.log_file.exists() else ""


class Brokers:
    """All of them. They are as a cluster of an administrator who follows docs/how-to/kafka-cluster.md.

    Args:
        names: of links; each process has one to each broker (`ports`).
    """

    def __init__(self, data_dir: Path, names: Sequence[str] = ()) -> None:
        self.data_dir = data_dir.resolve()
        self.numbers = tuple(range(1, COUNT + 1))
        self._names = list(names)
        self._near = {(name, n): free_port() for name in names for n in self.numbers}
        self.wires = Wires(COUNT + 1)
        self.nodes = {n: self._node(n) for n in (CONTROLLER, *self.numbers)}
        self.disks: dict[int, FullDisk] = {}
        self._admin: AdminClient | None = None
        self._clocks: dict[int, MovedClock] = {}

    def _node(self, n: int) -> Node:
        return Node(n, self.data_dir / ("controller" if n == CONTROLLER else f"broker-{n}"))

    # Where they are ---------------------------------------------------------------------------------------------------

    def at(self, n: int) -> str:
        """Where one of them is reached without a link."""
        return f"{self.wires.address(n)}:{PORT}"

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.at, self.numbers))

    @property
    def ports(self) -> dict[str, tuple[int, str]]:
        """Of each process's link to each broker: where the process connects, and the listener behind it."""
        return {
            f"{name}@{n}": (port, f"{self.wires.address(n)}:{LINK_PORT + self._names.index(name)}")
            for (name, n), port in self._near.items()
        }

    def address(self, name: str) -> str:
        """What the process of that link is told."""
        return ",".join(f"{HOST}:{self._near[name, n]}" for n in self.numbers)

    # Life -------------------------------------------------------------------------------------------------------------

    def up(self, timeout_s: float) -> None:
        """Start everything, and wait until all of them answer."""
        java = find_java()
        jars_dir, cluster_id = jars.fetch(java), new_cluster_id()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        library = compiled_clock(self.data_dir / "clock.so")
        for n, node in self.nodes.items():
            node.data_dir.mkdir(parents=True, exist_ok=True)
            if n != CONTROLLER:
                self.disks[n] = FullDisk(node.data_dir / "log", DISK_KB)
            node.properties.write_text(self._properties(n))
            self._clocks[n] = MovedClock(node.data_dir / "clock", library)
            arguments = ("format", "--config", str(node.properties), "--cluster-id", cluster_id)
            done = subprocess.run(
                java_command(java, jars_dir, "kafka.tools.StorageTool", *arguments, heap_mb=128),
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
        for n in self.nodes:
            self.start(n)
        deadline = time.monotonic() + timeout_s
        for n in self.numbers:
            self.until_there(n, deadline - time.monotonic())

    def start(self, n: int) -> None:
        """Start one (again). Does not wait."""
        node, java = self.nodes[n], find_java()
        command = java_command(java, jars.fetch(java), "kafka.Kafka", str(node.properties))
        with node.log_file.open("ab") as log:
            node.popen = subprocess.Popen(
                self.wires.command(n, command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=node.data_dir,
                start_new_session=True, env={**os.environ, **QUICK, **self._clocks[n].environment},
            )  # fmt: skip

    @property
    def clocks(self) -> bool:
        """Whether they can be moved."""
        return all(clock.environment for clock in self._clocks.values())

    def move_clock(self, n: int, us: int) -> None:
        """One's wall clock says from now on what is so much later (or earlier) than it is; 0: as it is."""
        self._clocks[n].move(us)

    def until_there(self, n: int, timeout_s: float) -> None:
        """Wait until one has started, and counts as there."""
        node = self.nodes[n]

        def there() -> bool:
            assert not node.ended, f"broker {n} ended while starting:\n{node.tail()}"
            return n in self._brokers(n)

        until(there, f"broker {n} answers", timeout_s)

    def _brokers(self, n: int) -> set[int]:
        """Who is there, as that one says."""
        with suppress(KafkaException):
            return set(_asking(self.at(n)).list_topics(timeout=ASK_S).brokers)
        return set()

    def metadata(self) -> ClusterMetadata | None:
        """What some broker says now; None: nobody answers in time."""
        if self._admin is None:
            self._admin = _asking(self.bootstrap)
        with suppress(KafkaException):
            return self._admin.list_topics(timeout=ASK_S)
        return None

    def whole(self) -> bool:
        """All are there, and all have every record that was acknowledged."""
        said = self.metadata()
        if said is None or set(said.brokers) != set(self.numbers):
            return False
        parts = [p for topic in said.topics.values() for p in topic.partitions.values()]
        return all(p.leader in said.brokers and len(p.isrs) == COUNT for p in parts)

    def leaders(self, topic: str) -> list[int]:
        """Of its partitions, in order; -1: none."""
        said = self.metadata()
        if said is None or topic not in said.topics:
            return []
        return [p.leader for _, p in sorted(said.topics[topic].partitions.items())]

    def close(self) -> None:
        """End and remove all of it."""
        for node in self.nodes.values():
            with suppress(psutil.Error, subprocess.TimeoutExpired):
                node.signal(signal.SIGKILL)
        for disk in self.disks.values():
            disk.close()
        self.wires.close()

    # Settings ---------------------------------------------------------------------------------------------------------

    def _properties(self, n: int) -> str:
        """The product's settings, for more than one; a name that is there twice has its last value."""
        at, controller = self.wires.address(n), self.wires.address(CONTROLLER)
        text = server_properties(self.nodes[n].data_dir, PORT, CONTROLLER_PORT)
        values = dict(line.split("=", 1) for line in text.splitlines())
        values |= {
            "node.id": str(n or CONTROLLER_ID),
            "controller.quorum.voters": f"{CONTROLLER_ID}@{controller}:{CONTROLLER_PORT}",
            "default.replication.factor": str(COUNT),
            "min.insync.replicas": str(IN_SYNC),
            "replica.lag.time.max.ms": str(LAG_MS),
            "transaction.state.log.num.partitions": str(COUNT),
        }
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            values[f"{topic}.replication.factor"] = str(COUNT)
        for topic in ("transaction.state.log", "share.coordinator.state.topic"):
            values[f"{topic}.min.isr"] = str(IN_SYNC)
        if n == CONTROLLER:
            values["process.roles"] = "controller"
            values["listeners"] = values["advertised.listeners"] = f"CONTROLLER://{at}:{CONTROLLER_PORT}"
            del values["inter.broker.listener.name"]
        else:
            values["process.roles"] = "broker"
            own = [(f"LINK{k}", LINK_PORT + k, self._near[name, n]) for k, name in enumerate(self._names)]
            plain = f"PLAINTEXT://{at}:{PORT}"
            values["listeners"] = ",".join([plain, *(f"{name}://{at}:{port}" for name, port, _ in own)])
            values["advertised.listeners"] = ",".join([plain, *(f"{name}://{HOST}:{near}" for name, _, near in own)])
            protocols = [values["listener.security.protocol.map"], *(f"{name}:PLAINTEXT" for name, _, _ in own)]
            values["listener.security.protocol.map"] = ",".join(protocols)
        return "".join(f"{key}={value}\n" for key, value in values.items())


def _asking(bootstrap: str) -> AdminClient:
    """What says nothing of brokers that are away: they are meant to be."""
    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _: None}
    return AdminClient(config)
