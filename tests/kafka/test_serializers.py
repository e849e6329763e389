"""What the serializers of confluent-kafka write is read back through a registry's client: every format of theirs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from borealis_py.ingress.decoder import Decoded
from borealis_py.ingress.decoders import decoder_for
from borealis_py.kafka.schema_registry import ConfluentRegistry
from borealis_py.log.base import Feed, Record
from borealis_py.query import App

NEEDS = "it is not installed: pip install 'borealis-py[avro,protobuf,registry]'"
for package in ("httpx2", "authlib", "cachetools", "fastavro", "google.protobuf", "google.type"):
    pytest.importorskip(package, reason=f"{package}: {NEEDS}")

from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: E402
from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: E402
from confluent_kafka.schema_registry.json_schema import JSONSerializer  # noqa: E402
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402
from google.protobuf import timestamp_pb2  # noqa: E402

AT = datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)
AT_US = int(AT.timestamp() * 1_000) * 1_000
CONTEXT = SerializationContext("prod.orders", MessageField.VALUE)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> SchemaRegistryClient:
    client = SchemaRegistryClient.new_client({"url": "mock://registry"})
    monkeypatch.setattr(SchemaRegistryClient, "new_client", staticmethod(lambda _: client))
    return client


def decoded(values: Sequence[bytes], **topic: Any) -> Decoded:
    """What an ingress of this topic makes of the values, once the registry has answered."""
    app = App("shop")
    orders = app.topic("orders", topic="prod.orders", **topic)
    app.query("q", orders.filter("true"))
    spec = app.describe()
    client = ConfluentRegistry({"url": "mock://registry"})
    decoder = decoder_for("orders", spec.ingresses["orders"], spec.sources["orders"], 1_000_000, registry=client)
    records = [Record(Feed("prod.orders"), i, 1, None, value) for i, value in enumerate(values)]
    waiting = threading.Event()
    for _ in range(1_000):
        if decoder.ready(records) == len(records):
            break
        waiting.wait(0.01)
    client.close()
    return decoder.decode(records)


def avro(**fields: Any) -> str:
    told = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Order", "fields": told})


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


def test_avro_of_two_versions_of_a_schema(registry: SchemaRegistryClient) -> None:
    write: Callable[[str], AvroSerializer] = lambda schema: AvroSerializer(registry, schema)  # noqa: E731
    old = write(avro(id="int", euros=MONEY, at=MILLIS))({"id": 1, "euros": Decimal("1.10"), "at": AT}, CONTEXT)
    new = write(avro(at=MILLIS, id="long", shop=["null", "string"], more={"type": "array", "items": "long"}))(
        {"at": AT, "id": 2, "shop": "berlin", "more": [1]}, CONTEXT
    )
    assert old[:5] != new[:5]
    schema = {"id": "int64", "shop": "string", "euros": "decimal(12,2)", "at": "timestamp"}
    found = decoded([old, new, old + b"x"], format="avro", schema=schema, stime="at")
    at = AT.replace(tzinfo=None)
    assert found.rows.to_pylist() == [
        {"id": 1, "shop": None, "euros": Decimal("1.10"), "at": at},
        {"id": 2, "shop": "berlin", "euros": None, "at": at},
    ]
    assert found.stimes.tolist() == [AT_US, AT_US]
    ((position, why),) = found.bad
    assert position == 2
    number = int.from_bytes(old[1:5])
    assert why == f"malformed: schema {number}: not Avro by its schema: 1 bytes are left after the record"


def test_protobuf(registry: SchemaRegistryClient) -> None:
    write = ProtobufSerializer(timestamp_pb2.Timestamp, registry, {"use.deprecated.format": False})
    value = write(timestamp_pb2.Timestamp(seconds=7, nanos=5), CONTEXT)
    found = decoded([value], format="protobuf", schema={"seconds": "int64", "nanos": "int64", "more": "string"})
    assert (found.rows.to_pylist(), found.bad) == ([{"seconds": 7, "nanos": 5, "more": None}], ())


def test_json_schema(registry: SchemaRegistryClient) -> None:
    told = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    value = JSONSerializer(json.dumps(told), registry)({"id": 1, "more": "x"}, CONTEXT)
    found = decoded([value], format="json-schema", schema={"id": "int64"})
    assert (found.rows.to_pylist(), found.bad) == ([{"id": 1}], ())
