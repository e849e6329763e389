"""Addresses at which nothing listens are told from those that take their time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from borealis_py.kafka.client import listens, refuse
from tests.support.nowhere import NOWHERE


@pytest.fixture
def open_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that answers no attempt to connect: the queue of its listener is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.socket() as one, socket.socket() as two:
        for client in (one, two):
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_all_addresses_refuse() -> None:
    began_s = time.monotonic()
    assert refuse(NOWHERE)
    assert refuse(f"{NOWHERE}, PLAINTEXT://{NOWHERE}")
    assert not listens(NOWHERE)
    assert time.monotonic() - began_s < 5, "nothing is waited for"


def test_one_address_that_listens_suffices(open_port: str) -> None:
    assert not refuse(open_port)
    assert not refuse(f"{NOWHERE},{open_port}")
    assert listens(f"{NOWHERE},{open_port}")


def test_what_does_not_answer_or_is_not_known_may_come_yet(silent: str) -> None:
    assert not refuse(f"{NOWHERE},{silent}", timeout_s=0.05)
    assert not refuse("no-such-host.invalid:9092")
