"""The local broker with a listener for each link, where it says that it is at the other end of that link."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from borealis_py.kafka.broker import LocalBroker, free_port
from tests.harness.links import HOST


class LinkedBroker(LocalBroker):
    """`ports`: of each link, where its process connects, and the broker's own listener behind it."""

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
