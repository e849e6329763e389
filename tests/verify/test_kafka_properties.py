"""`kafka:` properties as librdkafka spells them -> kafka-python's arguments."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer

from borealis_py.verify.kafka_properties import CannotTranslate, translated

SECURE = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": "secret",
    "ssl.ca.location": "/etc/ca.pem",
    "ssl.certificate.location": "/etc/me.pem",
    "ssl.key.location": "/etc/me.key",
    "ssl.key.password": "more",
    "ssl.endpoint.identification.algorithm": "none",
}


def test_security_is_translated() -> None:
    assert translated(SECURE) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
        "ssl_cafile": "/etc/ca.pem",
        "ssl_certfile": "/etc/me.pem",
        "ssl_keyfile": "/etc/me.key",
        "ssl_password": "more",
        "ssl_check_hostname": False,
    }


def test_numbers_become_numbers_and_what_concerns_writers_is_left_out() -> None:
    given = {
        "fetch.wait.max.ms": "50",
        "check.crcs": "true",
        "linger.ms": "5",
        "compression.type": "lz4",
        "debug": "all",
    }
    assert translated(given) == {"fetch_max_wait_ms": 50, "check_crcs": True}
    with pytest.raises(CannotTranslate, match=r"fetch\.min\.bytes: 'many' is no number"):
        translated({"fetch.min.bytes": "many"})


def test_what_kafka_python_has_not_is_named_all_of_it() -> None:
    with pytest.raises(CannotTranslate, match=r"sasl\.oauthbearer\.config, ssl\.ca\.pem: kafka-python"):
        translated({**SECURE, "ssl.ca.pem": "---", "sasl.oauthbearer.config": "x"})


def test_every_argument_is_one_of_kafka_pythons() -> None:
    from borealis_py.verify.kafka_properties import _NAMES

    assert {argument for argument, _ in _NAMES.values()} <= KafkaConsumer.DEFAULT_CONFIG.keys()
