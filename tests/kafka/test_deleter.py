"""How kafka-python is told to reach the brokers, and what is said where it may not delete."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from borealis_py.kafka.deleter import KafkaDeleter, access
from borealis_py.log.base import Feed, LogError, LogUnreachable


def test_access_means_the_same() -> None:
    properties = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "scram-sha-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "linger.ms": "5",
        "socket.keepalive.enable": "true",
    }
    assert access(properties) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    "name", ["ssl.keystore.location", "sasl.oauthbearer.config", "enable.ssl.certificate.verification"]
)
def test_access_that_cannot_be_said_deletes_nothing(name: str) -> None:
    deleter = KafkaDeleter("localhost:1", {name: "x", "linger.ms": "5"})
    with pytest.raises(LogError, match=rf"{name}: .* nothing is deleted"):
        deleter.delete_before({Feed("a"): 1}, lambda: None)


class Client:
    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, list[Any]()

    def delete_records(self, records: Any, timeout_ms: int) -> None:
        self.asked.append(records)
        if "secret" in str(records):
            raise self.error

    def close(self) -> None:
        pass


def test_what_is_not_allowed_is_told_and_the_rest_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    deleter, client = KafkaDeleter("b:1", {}), Client(TopicAuthorizationFailedError("no"))
    monkeypatch.setattr(deleter, "_open", lambda: client)
    refused = deleter.delete_before({Feed("secret", 2): 1, Feed("open"): 4}, lambda: None)
    assert refused == {Feed("secret", 2): "the brokers do not allow it: the ACLs lack DELETE on topic secret"}
    assert len(client.asked) == 2


def test_no_broker_is_an_error_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> None:
        raise KafkaConnectionError()

    deleter = KafkaDeleter("b:1", {})
    monkeypatch.setattr(deleter, "_open", refuses)
    with pytest.raises(LogUnreachable, match="b:1"):
        deleter.delete_before({Feed("a"): 1}, lambda: None)


def test_each_request_is_checked_before_and_none_follows_one_that_must_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is open by then: to open it may take long, and what was decided before may be of another life."""
    deleter, client = KafkaDeleter("b:1", {}), Client(KafkaConnectionError())
    opened: list[Client] = []
    monkeypatch.setattr(deleter, "_open", lambda: opened.append(client) or client)

    def once() -> None:
        assert opened
        if client.asked:
            raise LogError("another life")

    with pytest.raises(LogError, match="another life"):
        deleter.delete_before({Feed("a"): 1, Feed("b"): 2}, once)
    assert len(client.asked) == 1
