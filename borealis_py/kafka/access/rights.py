"""Which right of Kafka's ACLs a refused operation needs."""

from __future__ import annotations

from confluent_kafka import KafkaError

_OF_TOPIC = {"read": "READ", "write": "WRITE", "create": "CREATE", "delete": "DELETE"}
"""By the first word of an operation; others need DESCRIBE alone."""


def missing_right(code: int, doing: str) -> str | None:
    """The right that is missing, for people: "READ on topic shop.settings"; None: that was not the error.

    Args:
        code: of the client's error.
        doing: the operation and its topic: "read shop.settings[0]".
    """
    what, _, name = doing.rpartition(" ")
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"{_OF_TOPIC.get(what.partition(' ')[0], 'DESCRIBE')} on topic {name.partition('[')[0]}"
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return "READ on the consumer group"
    if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return f"WRITE on transactional id {name}" if "fence" in doing else "WRITE on the transactional id"
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return f"{'CREATE' if doing.startswith('create') else 'IDEMPOTENT_WRITE'} on the cluster"
    return None
