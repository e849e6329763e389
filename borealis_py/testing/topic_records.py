"""The records of a foreign topic in a test: what its producers write. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    of the topic. `time`: its timestamp in Kafka, as `to_stime` takes it; None: as for a row without a time.
    """

    value: Mapping[str, object] | bytes | None
    partition: int = 0
    time: Time | None = None


TopicRow = Mapping[str, object] | bytes | tuple[Time, Mapping[str, object] | bytes] | TopicRecord
"""A record by its value alone, a pair of its time in Kafka and its value, or everything about it."""


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """One record. `partition`: where it lies. `value`: its bytes; None: a tombstone. `time_us`: its timestamp in Kafka,
    microseconds since 1970; None: none was given."""

    partition: int
    value: bytes | None
    time_us: int | None


def read_as(spec: IngressSpec) -> IngressSpec:
    """How a test reads a topic: no test has a schema registry, so rows of a topic that needs one are JSON objects."""
    return spec.model_copy(update={"format": "json"}) if spec.needs_registry else spec


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
        time_us = None if record.time is None else to_stime(record.time)
    except ValueError as exc:
        raise ValueError(f"{where}: {exc}") from None
    return GivenRecord(record.partition, _encoded(record.value, where, spec), time_us)


def _record(row: object, where: str) -> TopicRecord:
    if isinstance(row, TopicRecord):
        return row
    if isinstance(row, tuple) and len(row) == 2 and isinstance(row[1], Mapping | bytes):
        return TopicRecord(row[1], time=row[0])
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
        if spec.needs_registry:
            raise TypeError(
                f"{where} is bytes in the format {spec.format!r}, whose schema a registry has, and no test has one: "
                "give dicts"
            )
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"{where} is {short(value)}; give a dict, bytes, or None for a tombstone")
    if spec.format not in ("json", "debezium", "json-schema") and not spec.needs_registry:
        raise TypeError(f"{where} is a dict, and the topic's format is {spec.format!r}: give bytes, as they lie in it")
    try:
        text = _JSON.encode(dict(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise TypeError(f"{where} cannot be written as JSON: {exc}") from exc
    return _REGISTERED + text if spec.format == "json-schema" else text
