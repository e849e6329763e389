"""Deletes the beginnings of topics, with kafka-python (R16.9).

librdkafka's `delete_records` may free a request twice while it looks for a leader (docs/decisions/018), so a client of
another library does it: opened at the first deletion only, by the thread that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from borealis_py.log.base import Feed, LogError, LogUnreachable

ANSWER_MS = 10_000
_NAMES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "security.protocol": ("security_protocol", str.upper),
    "sasl.mechanism": ("sasl_mechanism", str.upper),
    "sasl.mechanisms": ("sasl_mechanism", str.upper),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", lambda value: value.lower() == "https"),
    "client.id": ("client_id", str),
    "client.dns.lookup": ("client_dns_lookup", str),
}
"""librdkafka's property -> kafka-python's argument, and how its text becomes a value."""
_OF_ACCESS = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.")
"""How properties begin that say how brokers are reached. Without one of these they would be reached otherwise."""


def access(properties: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of kafka-python's clients that reach the brokers as these properties of librdkafka do.

    Raises:
        LogError: kafka-python has nothing like one of them; the message names it.
    """
    unknown = sorted(name for name in properties if name not in _NAMES and name.startswith(_OF_ACCESS))
    if unknown:
        raise LogError(
            f"`kafka:` properties {', '.join(unknown)}: kafka-python, by which topics are trimmed, has nothing alike, "
            "so nothing is deleted"
        )
    return {_NAMES[name][0]: _NAMES[name][1](str(value)) for name, value in properties.items() if name in _NAMES}


class KafkaDeleter:
    """Implements `log.base.Deleter`."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str]) -> None:
        self._bootstrap = bootstrap
        self._properties = properties
        self._client: Any = None

    def delete_before(self, offsets: Mapping[Feed, int], check: Callable[[], None]) -> Mapping[Feed, str]:
        """See `log.base.Deleter`."""
        from kafka import TopicPartition  # 5 MB, which a replica that never trims need not have
        from kafka.errors import KafkaError

        refused: dict[Feed, str] = {}
        try:
            client = self._client = self._client or self._open()
            for feed, offset in offsets.items():
                check()
                try:
                    client.delete_records({TopicPartition(*feed): offset}, timeout_ms=ANSWER_MS)
                except KafkaError as exc:
                    refused[feed] = _why(exc, feed)
        except (KafkaError, OSError, ValueError) as exc:
            raise LogUnreachable(f"{self._bootstrap}: no client to trim topics with: {exc}") from exc
        return refused

    def _open(self) -> Any:
        from kafka import KafkaAdminClient

        return KafkaAdminClient(
            bootstrap_servers=self._bootstrap.split(","),
            request_timeout_ms=ANSWER_MS,
            bootstrap_timeout_ms=ANSWER_MS,
            **access(self._properties),
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _why(error: Exception, feed: Feed) -> str:
    from kafka.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError

    if isinstance(error, TopicAuthorizationFailedError | ClusterAuthorizationFailedError):
        return f"the brokers do not allow it: the ACLs lack DELETE on topic {feed.topic}"
    return f"{type(error).__name__}: {error}"
