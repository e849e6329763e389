"""`kafka:` is the user's but for what the guarantees rest on, under any of its names."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from borealis_py.kafka.client import base_config, consumer_config, producer_config
from borealis_py.kafka.log import KafkaLog
from borealis_py.kafka.properties import RESERVED, ReservedProperty


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_what_the_guarantees_rest_on_is_refused_by_name_with_the_reason(name: str) -> None:
    for made in (lambda: KafkaLog("h:1", ((name, "1"),)), lambda: KafkaLog.of("h:1", {"client.id": "x", name: "1"})):
        with pytest.raises(ReservedProperty) as refused:
            made()
        assert name in str(refused.value)
        assert RESERVED[name] in str(refused.value)


def test_everything_else_is_the_users() -> None:
    KafkaLog.of("h:1", {"security.protocol": "SSL", "linger.ms": "5", "transaction.timeout.ms": "5000"})


def test_new_clients_need_not_wait_long_before_they_connect_to_a_leader() -> None:
    """Half of this passes before each connection, and a take-over needs several."""
    assert base_config("h:1", {})["reconnect.backoff.ms"] <= 50
    assert base_config("h:1", {"reconnect.backoff.ms": "500"})["reconnect.backoff.ms"] == "500"


def test_what_this_program_sets_for_good_is_reserved() -> None:
    """Also under the other names that the client library knows for it."""
    fixed = set()
    for config in (consumer_config, producer_config):
        plain, mine = config("h:1", {}), {}
        for name in plain:
            if not callable(plain[name]):
                mine[name] = "mine"
        found = config("h:1", mine)
        fixed |= {name for name in mine if found[name] != "mine"}
    assert {"isolation.level", "enable.idempotence", "acks"} <= fixed - {"logger"} <= RESERVED.keys()


def test_a_reserved_name_is_one_that_the_client_library_knows() -> None:
    """A slip in the table would reserve nothing."""
    said = {}
    for name in RESERVED:
        try:
            Producer({name: "?"})
        except (KafkaException, TypeError) as exc:  # of a value that makes no sense
            said[name] = str(exc)
    assert [name for name, why in said.items() if "No such configuration property" in why] == []
    assert "acks" in said
