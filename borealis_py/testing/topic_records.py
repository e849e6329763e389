"""The records of a foreign topic in a test: what its producers write. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from reprlib import repr as short

import msgspec

from borealis_py.query.ingress_spec import INPUTS_MAX, IngressSpec
from borealis_py.testing.times import Time, to_stime

PARTITION_MAX = 1_000
"""No test needs a larger number of a partition."""
_REGISTERED = b"\0\0\0\0\1"
"""What the serializers of a registry write before a record: zero, and the schema's id."""
_JSON = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """One record of a topic that other programs write.

    `value`: a dict, which becomes one JSON object; or bytes, as they lie in the topic; None: a tombstone. `partition`:
    of the topic. `timestamp`: its time in Kafka, as `to_stime` takes it; None: as for a row without a time. `key`: the
    same as `value`, or a text or an int, which become what the topic's `key_format` reads; None: it has none.
    `headers`: name and bytes; no column reads them.
    """

    value: Mapping[str, object] | bytes | None
    partition: int = 0
    timestamp: Time | None = None
    key: Mapping[str, object] | bytes | str | int | None = None
    headers: Mapping[str, bytes] = field(default_factory=dict)


TopicRow = Mapping[str, object] | bytes | tuple[Time, Mapping[str, object] | bytes] | TopicRecord
"""A record by its value alone, a pair of its time in Kafka and its value, or everything about it."""


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """One record. `partition`: where it lies. `value`: its bytes; None: a tombstone. `time_us`: its timestamp in Kafka,
    microseconds since 1970; None: none was given. `key`: its bytes; None: none. `headers`: name and bytes each."""

    partition: int
    value: bytes | None
    time_us: int | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def read_as(spec: IngressSpec) -> IngressSpec:
    """How a test reads a topic: no test has a schema registry, so values and keys that need one are JSON."""
    values = {"format": "json"} if spec.values_need_registry else {}
    keys = {"key_format": "json"} if spec.keys_need_registry else {}
    return spec.model_copy(update=values | keys)


def given_records(rows: Iterable[object], source: str, spec: IngressSpec) -> list[GivenRecord]:
    """The records that these rows of a topic are.

    Args:
        source: for messages.

    Raises:
        TypeError: something that is no record, or that the topic's format cannot be made of.
        ValueError: a time that cannot be read, or a partition that the topic does not have.
    """
    return [_one(row, f"record {n} of {source!r}", spec) for n, row in enumerate(rows)]


def _one(row: object, where: str, spec: IngressSpec) -> GivenRecord:
    record = _record(row, where)
    _check_partition(record.partition, where, spec)
    try:
        time_us = None if record.timestamp is None else to_stime(record.timestamp)
    except ValueError as exc:
        raise ValueError(f"{where}: {exc}") from None
    value, key = _encoded(record.value, where, spec), _key(record.key, where, spec)
    return GivenRecord(record.partition, value, time_us, key, tuple(record.headers.items()))


def _record(row: object, where: str) -> TopicRecord:
    if isinstance(row, TopicRecord):
        return row
    if isinstance(row, tuple) and len(row) == 2 and isinstance(row[1], Mapping | bytes):
        return TopicRecord(row[1], timestamp=row[0])
    if isinstance(row, Mapping | bytes):
        return TopicRecord(row)
    raise TypeError(
        f"{where} is {short(row)}; give a dict or bytes, a pair of a time and one of these, or a TopicRecord"
    )


def _check_partition(partition: object, where: str, spec: IngressSpec) -> None:
    if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < PARTITION_MAX:
        raise ValueError(f"{where}: {partition!r} is no partition; give a number from 0 on")
    if spec.by is None and spec.inputs < INPUTS_MAX and partition >= spec.inputs:
        raise ValueError(
            f"{where} lies in partition {partition}, but the topic has {spec.inputs} in this test: say "
            f"partitions={partition + 1} in app.topic()"
        )


def _encoded(value: object, where: str, spec: IngressSpec) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        if spec.values_need_registry:
            raise TypeError(
                f"{where} is bytes in the format {spec.format!r}, whose schema a registry has, and no test has one: "
                "give dicts"
            )
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"{where} is {short(value)}; give a dict, bytes, or None for a tombstone")
    if spec.format not in ("json", "debezium", "json-schema") and not spec.values_need_registry:
        raise TypeError(f"{where} is a dict, and the topic's format is {spec.format!r}: give bytes, as they lie in it")
    text = _json(dict(value), where)
    return _REGISTERED + text if spec.format == "json-schema" else text


def _key(key: object, where: str, spec: IngressSpec) -> bytes | None:
    form = read_as(spec).key_format
    if key is None or isinstance(key, bytes):
        return key
    if form == "int" and isinstance(key, int) and not isinstance(key, bool):
        return _serialized(key, where)
    if isinstance(key, str) and form in (None, "text"):
        return key.encode()
    if isinstance(key, Mapping | str | int) and form != "text":
        text = _json(dict(key) if isinstance(key, Mapping) else key, f"the key of {where}")
        return _REGISTERED + text if form == "json-schema" else text
    raise TypeError(f"the key of {where} is {short(key)}, and the topic's key_format is {form!r}: give what it reads")


def _serialized(key: int, where: str) -> bytes:
    """As Kafka's serializer of a long writes it."""
    try:
        return key.to_bytes(8, signed=True)
    except OverflowError:
        raise TypeError(f"the key of {where} is {key}, beyond an int64") from None


def _json(value: object, what: str) -> bytes:
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise TypeError(f"{what} cannot be written as JSON: {exc}") from exc
