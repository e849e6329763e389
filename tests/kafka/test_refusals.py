"""Where a broker answers and lets nobody in, its users learn why: a client library only lets calls time out."""

from __future__ import annotations

import logging
import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError

from borealis_py.kafka.client import base_config, translated
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed, LogUnreachable, NewRecord
from tests.kafka.waiter import Waiter

FEED = Feed("t")
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT)
EXPIRED = KafkaError(KafkaError._AUTHENTICATION, "sasl_ssl://b:1/bootstrap: SASL authentication error: expired")
NO_TLS = KafkaError(KafkaError._SSL, "ssl://b:1/bootstrap: SSL handshake failed: wrong version number")


class _HangsUp(socketserver.BaseRequestHandler):
    """Takes the first bytes for nonsense, as a listener of Kafka without TLS does those of TLS."""

    def handle(self) -> None:
        self.request.recv(1_000)


@pytest.fixture
def plain() -> Iterator[KafkaLog]:
    """TLS clients of a listener without TLS."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _HangsUp) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield KafkaLog.of(f"127.0.0.1:{server.server_address[1]}", {"security.protocol": "ssl"})
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def nothing_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("borealis_py.kafka.access.refusals._heard", {})


def tell(bootstrap: str, error: KafkaError) -> None:
    base_config(bootstrap, {})["error_cb"](error)


def test_whoever_asks_is_told_that_tls_fails(plain: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("admin", "lookup"):
        monkeypatch.setattr(f"borealis_py.kafka.{module}.ANSWER_S", 1.0)
    lookup, admin = plain.lookup(), plain.admin()
    asks: list[Callable[[], object]] = [
        admin.topics,
        lambda: lookup.bounds(FEED),
        lambda: list(lookup.read(FEED, 0, 5)),
    ]
    for ask in asks:
        with pytest.raises(LogUnreachable, match=rf"{plain.bootstrap}.* TLS handshake .*`kafka:` in borealis.yaml"):
            ask()
    lookup.close()
    admin.close()


@pytest.mark.parametrize("part", ["reader", "appender", "ends"])
def test_whoever_waits_says_so_in_the_log_once(
    plain: KafkaLog, waiter: Waiter, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    def said() -> list[str]:
        return [r.getMessage() for r in caplog.records if "TLS handshake" in r.getMessage()]

    reader, appender, lookup = plain.reader(waiter.wake), plain.appender(waiter.wake), plain.lookup()
    match part:
        case "reader":
            reader.open(FEED, 0)
            reader.poll()
        case "appender":
            appender.append(NewRecord(FEED, b"1"))
        case _:
            query = lookup.ask_ends([FEED])
            waiter.until(query.poll)
    waiter.until(said)
    for opened in (reader, appender, lookup):
        opened.close()
    assert len(said()) == 1
    assert caplog.records[0].levelno == logging.WARNING


def test_refused_credentials_are_named(caplog: pytest.LogCaptureFixture) -> None:
    tell("b:1", EXPIRED)
    tell("b:1", KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    said = str(translated("b:1", "list topics", TIMED_OUT))
    assert "refuses the credentials" in said
    assert "SASL authentication error: expired" in said
    assert "refuses the credentials" in caplog.text


def test_one_cause_is_logged_once_and_another_one_again(caplog: pytest.LogCaptureFixture) -> None:
    for error in (EXPIRED, EXPIRED, NO_TLS, NO_TLS, EXPIRED):  # one of several brokers each, perhaps
        tell("b:2", error)
    assert [r.levelname for r in caplog.records] == ["WARNING"] * 2
    assert "refuses the credentials" in str(translated("b:2", "list topics", TIMED_OUT))
    tell("b:3", EXPIRED)
    assert len(caplog.records) == 3


def test_what_another_broker_says_or_was_said_long_ago_is_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    tell("b:4", EXPIRED)
    assert "no Kafka broker answers at b:5" in str(translated("b:5", "list topics", TIMED_OUT))
    monkeypatch.setattr("borealis_py.kafka.access.refusals.RECENT_S", 0.0)
    assert "no Kafka broker answers at b:4" in str(translated("b:4", "list topics", TIMED_OUT))


def test_another_error_is_no_refusal(caplog: pytest.LogCaptureFixture) -> None:
    tell("b:6", KafkaError(KafkaError._TRANSPORT, "b:6/bootstrap: Connect to ipv4#1 failed: Connection refused"))
    assert "no Kafka broker answers at b:6" in str(translated("b:6", "list topics", TIMED_OUT))
    assert not caplog.records
