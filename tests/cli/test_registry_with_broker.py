"""Topics in Avro, Protobuf and JSON Schema, from producers with the registry's own serializers to results."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, Record
from tests.cli.commands import Borealis, status
from tests.harness.waiting import PATIENCE_S, until
from tests.support.registry_server import NO_SCHEMA, RegistryServer
from tests.support.schema_registry import framed

NEEDS = "it is not installed: pip install 'borealis-py[avro,protobuf,registry]'"
for package in ("httpx2", "authlib", "cachetools", "fastavro", "google.protobuf", "google.type", "jsonschema"):
    pytest.importorskip(package, reason=f"{package}: {NEEDS}")

from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: E402
from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: E402
from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: E402
from confluent_kafka.schema_registry.json_schema import JSONSerializer  # noqa: E402
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402
from google.protobuf import timestamp_pb2  # noqa: E402

pytestmark = pytest.mark.broker

APP, ORDERS, TICKS, UNKNOWN = "registered", "prod.registered-orders", "prod.registered-ticks", 99_999
VISITS = "prod.registered-visits"
VISIT = json.dumps(
    {
        "title": "Visit",
        "type": "object",
        "properties": {"at": {"type": "string", "format": "date-time"}, "basket": {"type": "array"}},
    }
)
TEXT = f"""
from borealis_py import App

app = App("{APP}")
orders = app.topic("orders", topic="{ORDERS}", format="avro", stime="at", lateness="5s",
                   schema={{"shop": "string", "euros": "decimal(12,2)", "at": "timestamp"}})
ticks = app.topic("ticks", topic="{TICKS}", format="protobuf", stime="seconds", stime_unit="s", lateness="5s",
                  schema={{"seconds": "int64", "nanos": "int64"}})
app.query("sales", orders.window("1s").group_by("shop").agg(n="count(*)", euros="sum(euros)"), replicas=1)
app.query("beats", ticks.window("1s").agg(n="count(*)", nanos="sum(nanos)"), replicas=1)
"""
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "shop", "type": "string"},
            {"name": "euros", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
            {"name": "more", "type": ["null", "long"], "default": None},
        ],
    }
)


class Registry(RegistryServer):
    """Tells over HTTP what the serializers have registered with `client`, the mock of their package."""

    def __init__(self) -> None:
        self.client = SchemaRegistryClient.new_client({"url": "mock://registered"})
        super().__init__()

    def answer(self, path: str) -> tuple[int, Any]:
        try:
            found = self.client.get_schema(int(path.rpartition("/")[2]))
        except SchemaRegistryError:
            return NO_SCHEMA
        return 200, {"schema": found.schema_str, "schemaType": found.schema_type}


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    yield server
    server.end()


def records(bootstrap: str, feed: Feed) -> list[Record]:
    with closing(KafkaLog(bootstrap).lookup()) as lookup:
        return list(lookup.read(feed, *lookup.bounds(feed)))


def totals(bootstrap: str, query: str, key: str, value: str) -> dict[str, tuple[int, Decimal]]:
    """Of all windows of a corrected stream: rows counted and values summed, by key."""
    counts: Counter[str] = Counter()
    sums: dict[str, Decimal] = {}
    for record in records(bootstrap, topics.corrected(APP, query)):
        row = json.loads(record.value or b"")
        of = str(row.get(key, ""))
        counts[of] += row["n"]
        sums[of] = sums.get(of, Decimal(0)) + Decimal(str(row[value]))
    return {of: (counts[of], sums[of]) for of in counts}


def test_inspect_shows_the_fields_of_json_schemas_and_without_a_registry_those_of_the_records(
    borealis: Borealis, here: Path, bootstrap: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    admin, producer = AdminClient({"bootstrap.servers": bootstrap}), Producer({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(VISITS, 1, 1)])[VISITS].result()
    visit = JSONSerializer(VISIT, registry.client)
    for n in range(3):
        row = {"at": datetime.now(UTC).isoformat(), "basket": [n], "shop": "berlin"}
        producer.produce(VISITS, visit(row, SerializationContext(VISITS, MessageField.VALUE)))
    assert producer.flush(PATIENCE_S) == 0
    try:
        alone = borealis("inspect", VISITS)
        assert 'schema={"at": "timestamp", "basket": "json", "shop": "string"}' in alone.out
        assert "the fields are those that the records show" in " ".join(alone.err.split())
        (here / "borealis.yaml").write_text(f"schema_registry:\n  url: http://127.0.0.1:{registry.server_port}\n")
        said = borealis("inspect", VISITS)
        assert 'schema={"at": "timestamp", "basket": "json", "shop": "string"}' in said.out
        assert 'format="json-schema", stime="at"' in said.out
    finally:
        admin.delete_topics([VISITS])


def test_avro_and_protobuf_become_results_and_an_unknown_schema_a_dead_letter_that_names_it(
    borealis: Borealis, here: Path, bootstrap: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    (here / "app.py").write_text(TEXT)
    (here / "borealis.yaml").write_text(f"schema_registry:\n  url: http://127.0.0.1:{registry.server_port}\n")
    admin, producer = AdminClient({"bootstrap.servers": bootstrap}), Producer({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(ORDERS, 1, 1), NewTopic(TICKS, 1, 1)]).values():
        made.result()
    order = AvroSerializer(registry.client, ORDER)
    tick = ProtobufSerializer(timestamp_pb2.Timestamp, registry.client, {"use.deprecated.format": False})
    try:
        said = borealis("up", "app.py", "--host", "process")
        assert said.code == 0, said.err
        until(lambda: sum(i["role"] == "owner" for i in status(borealis, APP)["ingresses"]) == 2, "both are copied")
        until(lambda: all(i["inputs"] for i in status(borealis, APP)["ingresses"] if i["role"] == "owner"), "they are")
        for n in range(12):
            row = {"shop": ("berlin", "paris")[n % 2], "euros": Decimal(n) + Decimal("0.10"), "at": datetime.now(UTC)}
            producer.produce(ORDERS, order(row, SerializationContext(ORDERS, MessageField.VALUE)))
            message = timestamp_pb2.Timestamp(seconds=int(time.time()), nanos=n)
            producer.produce(TICKS, tick(message, SerializationContext(TICKS, MessageField.VALUE)))
        producer.produce(ORDERS, framed(UNKNOWN, b"what"))
        assert producer.flush(PATIENCE_S) == 0
        assert 'schema={"at": "timestamp", "shop": "string"' in borealis("inspect", ORDERS).out
        until(
            lambda: (
                totals(bootstrap, "sales", "shop", "euros")
                == {"berlin": (6, Decimal("30.60")), "paris": (6, Decimal("36.60"))}
            ),
            "the query's result is that of all orders",
        )
        until(lambda: totals(bootstrap, "beats", "", "nanos") == {"": (12, Decimal(66))}, "and of all ticks")
        until(lambda: len(records(bootstrap, Feed(topics.deadletter(APP)))) == 1, "there is one dead letter")
        (letter,) = records(bootstrap, Feed(topics.deadletter(APP)))
        assert dict(letter.headers)["reason"].decode().startswith(f"malformed: schema {UNKNOWN}: ")
        assert letter.value == framed(UNKNOWN, b"what")
    finally:
        borealis("down", "--app", APP)
        admin.delete_topics([ORDERS, TICKS])
