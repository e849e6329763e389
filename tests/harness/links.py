"""A link of its own between each process and the broker, that can be cut one way or both ways, and reset.

Kafka tells its clients where it is. So the broker gets a listener for each link, and advertises there the address of
this proxy (`broker`). What is cut is held back, as by a network that loses packets until it is whole again. Where there
are several brokers, a process has a link to each, `NAME@1` to `NAME@3`: what is done to `NAME` is done to all of them.

The proxy is a process (`python -m tests.harness.links`): what it does must not wait for whoever breaks things.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tests.harness.processes import ROOT
from tests.harness.waiting import PATIENCE_S

HOST = "127.0.0.1"
READY = "ready"
WAYS = {"both": (True, True), "to the broker": (True, False), "from the broker": (False, True)}
"""How a link may be cut: whether what the process sends is held, and whether what it is sent."""


@dataclass(eq=False)
class Gate:
    """One direction of a link: everything that flows through it now, and whether that is held."""

    held: bool = False
    halves: set[Half] = field(default_factory=set)

    def set(self, held: bool) -> None:
        self.held = held
        for half in self.halves:
            half.obey()


class Half(asyncio.Protocol):
    """One end of a connection: what it receives goes to the other end, if its gate lets it."""

    def __init__(self, gate: Gate, joined: Callable[[Half], None] = lambda half: None) -> None:
        self._gate, self._joined = gate, joined
        self._transport: asyncio.Transport | None = None
        self._other: Half | None = None
        self._early = b""

    def join(self, other: Half) -> None:
        """Send what comes to `other` from now on, what came before first."""
        self._other = other
        if self._early:
            other.write(self._early)
            self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._gate.halves.add(self)
        asyncio.get_running_loop().call_soon(self.obey)  # Python 3.11.2 begins to read after this call, paused or not
        self._joined(self)

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early += data
        else:
            self._other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gate.halves.discard(self)
        if self._other is not None:
            self._other.reset() if exc is not None else self._other.close()

    @property
    def gone(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def obey(self) -> None:
        """Read on, or not."""
        if self._transport is not None and not self.gone:
            self._transport.pause_reading() if self._gate.held else self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self.gone:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """End it with an RST."""
        if self._transport is not None and not self.gone:
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()


@dataclass(eq=False)
class Link:
    """All connections of one process to one broker. `port`: where it connects; `host`, `target`: its listener."""

    name: str
    port: int
    target: int
    host: str = HOST
    to_broker: Gate = field(default_factory=Gate)
    from_broker: Gate = field(default_factory=Gate)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: Half(self.to_broker, self._accepted), HOST, self.port)

    def _accepted(self, near: Half) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(near))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, near: Half) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, far = await loop.create_connection(lambda: Half(self.from_broker), self.host, self.target)
        except OSError:  # no broker: as if it had been asked itself
            near.reset()
            return
        far.join(near)
        near.join(far)
        if near.gone:
            far.close()

    def cut(self, way: str) -> None:
        to_broker, from_broker = WAYS[way]
        self.to_broker.set(to_broker)
        self.from_broker.set(from_broker)

    def heal(self) -> None:
        self.to_broker.set(False)
        self.from_broker.set(False)

    def reset(self) -> None:
        for half in [*self.to_broker.halves, *self.from_broker.halves]:
            half.reset()


class Links:
    """The proxy's process, told what to do. `ports`: of each link, where to listen, and the listener behind it: a port
    of this machine, or HOST:PORT."""

    def __init__(self, ports: Mapping[str, tuple[int, int | str]], output: Path) -> None:
        arguments = [f"{name}={port}:{target}" for name, (port, target) in ports.items()]
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.links", *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, cwd=ROOT, text=True, start_new_session=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != READY:
            raise AssertionError(f"the links do not come up: {output.read_text()[-1000:]}")

    def cut(self, name: str, way: str) -> None:
        """Hold what is sent; `way` is one of WAYS. For as long as `heal` is not called."""
        self._tell(f"cut {name} {way}")

    def heal(self, name: str) -> None:
        """Let through what was held."""
        self._tell(f"heal {name}")

    def reset(self, name: str) -> None:
        """End all of its connections with RST, at both ends."""
        self._tell(f"reset {name}")

    def close(self) -> None:
        """End the proxy."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(PATIENCE_S)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        if self._process.stdout.readline().strip() != READY:
            raise AssertionError(f"the links did not {line}")


def named(name: str, links: Mapping[str, Link]) -> list[Link]:
    """That link, or a process's links to all brokers.

    Raises:
        KeyError: there is none.
    """
    found = [link for known, link in links.items() if name in (known, known.partition("@")[0])]
    if not found:
        raise KeyError(name)
    return found


async def serve(links: Mapping[str, Link]) -> None:
    """Obey lines of standard input until it ends."""
    for link in links.values():
        await link.listen()
    print(READY, flush=True)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode():
        verb, name, *way = line.strip().split(" ", 2)
        for link in named(name, links):
            if verb == "cut":
                link.cut(way[0])
            elif verb == "heal":
                link.heal()
            elif verb == "reset":
                link.reset()
        print(READY, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("links", nargs="+", metavar="NAME=PORT:[HOST:]TARGET")
    links = {}
    for text in parser.parse_args().links:
        name, _, ports = text.partition("=")
        port, _, target = ports.partition(":")
        host, _, behind = target.rpartition(":")
        links[name] = Link(name, int(port), int(behind), host or HOST)
    asyncio.run(serve(links))


if __name__ == "__main__":
    main()
