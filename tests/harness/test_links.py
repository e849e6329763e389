"""The proxy between a process and the broker: what is cut is held, what is reset ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from borealis_py.kafka.broker import free_port
from tests.harness.links import HOST, Links
from tests.harness.waiting import PATIENCE_S, until
from tests.support.nowhere import PORT

SHORT_S = 0.3


@dataclass
class Talk:
    """A server that repeats what it hears, and a client whose link goes through the proxy."""

    links: Links
    heard: list[bytes]
    client: socket.socket
    port: int

    def answers(self, text: bytes, timeout_s: float = PATIENCE_S) -> bytes:
        """What comes back; empty: nothing within the time."""
        self.client.sendall(text)
        return self.read(timeout_s)

    def read(self, timeout_s: float = PATIENCE_S) -> bytes:
        self.client.settimeout(timeout_s)
        with suppress(TimeoutError):
            return self.client.recv(100)
        return b""


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    heard: list[bytes] = []
    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=_repeat, args=(server, heard), daemon=True)
        thread.start()
        port = free_port()
        links = Links({"one": (port, server.getsockname()[1])}, tmp_path / "links.log")
        with socket.create_connection((HOST, port), PATIENCE_S) as client:
            it = Talk(links, heard, client, port)
            assert it.answers(b"a") == b"a"
            yield it
        links.close()


def _repeat(server: socket.socket, heard: list[bytes]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, heard), daemon=True).start()


def _serve(connection: socket.socket, heard: list[bytes]) -> None:
    with connection, suppress(OSError):
        while data := connection.recv(100):
            heard.append(data)
            connection.sendall(data)


@pytest.mark.parametrize(("way", "arrives"), [("both", False), ("to the broker", False), ("from the broker", True)])
def test_what_is_sent_through_a_cut_link_comes_when_it_heals(talk: Talk, way: str, arrives: bool) -> None:
    talk.links.cut("one", way)
    assert talk.answers(b"b", SHORT_S) == b""
    if arrives:
        until(lambda: b"b" in talk.heard, "the server hears it")
    else:
        assert b"b" not in talk.heard
    talk.links.heal("one")
    assert talk.read() == b"b"
    assert talk.heard == [b"a", b"b"]


def test_new_connections_through_a_cut_link_hear_nothing(talk: Talk) -> None:
    talk.links.cut("one", "both")
    with socket.create_connection((HOST, talk.port), PATIENCE_S) as another:
        another.sendall(b"c")
        another.settimeout(SHORT_S)
        with pytest.raises(TimeoutError):
            another.recv(1)
        talk.links.heal("one")
        another.settimeout(PATIENCE_S)
        assert another.recv(1) == b"c"


def test_a_reset_ends_all_connections_and_new_ones_work(talk: Talk) -> None:
    talk.links.reset("one")
    with pytest.raises(ConnectionResetError):
        talk.read()
    with socket.create_connection((HOST, talk.port), PATIENCE_S) as another:
        another.sendall(b"d")
        assert another.recv(1) == b"d"


def test_without_a_broker_a_connection_ends_at_once(tmp_path: Path) -> None:
    port = free_port()
    links = Links({"one": (port, PORT)}, tmp_path / "links.log")
    with (
        suppress(ConnectionResetError),
        socket.create_connection((HOST, port), PATIENCE_S) as client,
    ):  # or it is told at once
        assert client.recv(1) == b""
    links.close()


def test_a_process_is_cut_from_one_broker_or_from_all(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as server:
        threading.Thread(target=_repeat, args=(server, []), daemon=True).start()
        target = f"{HOST}:{server.getsockname()[1]}"
        near = {name: free_port() for name in ("one@1", "one@2", "other@1")}
        links = Links({name: (port, target) for name, port in near.items()}, tmp_path / "links.log")
        clients = {name: socket.create_connection((HOST, port), PATIENCE_S) for name, port in near.items()}

        def answering() -> set[str]:
            found = set()
            for name, client in clients.items():
                client.sendall(b"x")
                client.settimeout(SHORT_S)
                with suppress(TimeoutError):
                    client.recv(100)
                    found.add(name)
            return found

        assert answering() == set(near)
        links.cut("one@2", "both")
        assert answering() == {"one@1", "other@1"}
        links.cut("one", "both")
        assert answering() == {"other@1"}
        links.heal("one")
        for client in (clients["one@1"], clients["one@2"]):
            client.settimeout(PATIENCE_S)
            assert client.recv(100)
        for client in clients.values():
            client.close()
        links.close()
