"""Where a broker that we start listens, if nobody says where."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from borealis_py.kafka import broker
from borealis_py.kafka.broker import free_port

Given = Callable[[str], None]


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    """Says which ports the system gives to who asks for any."""

    def say(text: str) -> None:
        (tmp_path / "given").write_text(text)
        monkeypatch.setattr(broker, "GIVEN_PORTS", tmp_path / "given")

    return say


def bound(port: int) -> socket.socket:
    taken = socket.socket()
    taken.bind(("127.0.0.1", port))
    return taken


def test_the_system_gives_it_to_nobody_before_the_broker_listens(given: Given) -> None:
    given("32768\t60999\n")
    found = [free_port() for _ in range(50)]
    assert all(broker.PORT_MIN <= port < 32_768 for port in found)
    assert len(set(found)) == 50
    for port in found[:5]:
        bound(port).close()


@pytest.mark.parametrize(("said", "least", "most"), [("10000 19999", 20_000, 65_535), ("gone", 10_000, 49_151)])
def test_it_is_where_there_are_most_others(given: Given, said: str, least: int, most: int) -> None:
    given(said)
    assert all(least <= free_port() <= most for _ in range(50))


def test_where_the_system_gives_all_ports_it_is_one_of_these(given: Given) -> None:
    given("1024 65535")
    bound(free_port()).close()


def test_of_a_single_one_that_is_taken_any_is_given(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    with bound(free_port()) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(broker, "PORT_MIN", port)
        given(f"{port + 1} 65535")
        assert free_port() != port
