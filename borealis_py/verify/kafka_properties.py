"""`kafka:` properties of a configuration, spelled as librdkafka spells them, for kafka-python's consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
    "ssl.cipher.suites": ("ssl_ciphers", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", lambda value: value.lower() == "https"),
    "client.id": ("client_id", str),
    "client.rack": ("client_rack", str),
    "client.dns.lookup": ("client_dns_lookup", str),
    "check.crcs": ("check_crcs", lambda value: value.lower() == "true"),
    "connections.max.idle.ms": ("connections_max_idle_ms", int),
    "fetch.max.bytes": ("fetch_max_bytes", int),
    "fetch.message.max.bytes": ("max_partition_fetch_bytes", int),
    "fetch.min.bytes": ("fetch_min_bytes", int),
    "fetch.wait.max.ms": ("fetch_max_wait_ms", int),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", int),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
    "receive.message.max.bytes": ("receive_message_max_bytes", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "socket.receive.buffer.bytes": ("receive_buffer_bytes", int),
    "socket.send.buffer.bytes": ("send_buffer_bytes", int),
}
"""Property -> kafka-python's argument, and how its text becomes a value."""

_OF_OTHERS = (
    *("batch.", "compression.", "debug", "fetch.queue.", "heartbeat.", "linger.", "log", "message.", "partitioner"),
    *("queue", "session.", "statistics.", "sticky.", "topic.metadata.", "transaction."),
)
"""How properties begin that concern producers, groups or logs, and change nothing for a reader."""


class CannotTranslate(ValueError):
    """Properties that kafka-python has no word for; the message names them."""


def translated(properties: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of `KafkaConsumer` that mean the same. What concerns writers alone is left out.

    Raises:
        CannotTranslate: a property is not known here, or its value is no number where one must be.
    """
    found: dict[str, Any] = {}
    unknown = []
    for name, value in properties.items():
        if name in _NAMES:
            argument, of = _NAMES[name]
            try:
                found[argument] = of(str(value))
            except ValueError as exc:
                raise CannotTranslate(f"`kafka:` property {name}: {value!r} is no number") from exc
        elif not name.startswith(_OF_OTHERS):
            unknown.append(name)
    if unknown:
        raise CannotTranslate(
            f"`kafka:` properties {', '.join(sorted(unknown))}: kafka-python, which verifies, has nothing alike. "
            "Verify with a configuration without them (BOREALIS_CONFIG), where the brokers can be reached so"
        )
    return found
