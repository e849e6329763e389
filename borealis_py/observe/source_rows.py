"""How many rows a second come into the sources of an app, and some of them, by their newest records. Blocking; for
commands. Works on any log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec

from borealis_py.engine.arrow.rows import Parsed
from borealis_py.engine.codec import ArrowRowCodec, ArrowSourceCodec
from borealis_py.log import topics
from borealis_py.log.base import Log, LogError, LogUnreachable, Lookup, Record
from borealis_py.log.records import BatchHeader, EnvelopeError, unpack_source, unpack_stimes
from borealis_py.observe.growth import newest
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec

SAMPLES_MAX = 2_000


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Of one source, as it runs. `rows_per_s`: by the times of its rows. `samples`: some of them as JSON objects."""

    rows_per_s: float
    samples: Sequence[bytes]


def source_rows(log: Log, app: AppSpec) -> dict[str, SourceRows]:
    """Of each source that has rows of two times; others are left out.

    Raises:
        LogUnreachable: no broker answers.
    """
    runs = physical(app)
    found: dict[str, SourceRows] = {}
    with closing(log.lookup()) as lookup:
        for name, columns in runs.sources.items():
            one = _rows_of(lookup, runs.name, name, ArrowSourceCodec(name, columns))
            if one is not None:
                found[name] = one
    return found


def _rows_of(lookup: Lookup, app: str, source: str, codec: ArrowSourceCodec) -> SourceRows | None:
    try:
        records = newest(lookup, topics.source(app, source))
    except LogUnreachable:
        raise
    except LogError:
        return None  # there is no such topic yet
    stimes: list[int] = []
    samples: list[bytes] = []
    for record in records:
        batch = _batch(record)
        if batch is not None:
            header, payload = batch
            stimes += unpack_stimes(header.stimes)
            if len(samples) < SAMPLES_MAX:
                samples += _objects(codec, header, payload)
    if not stimes or max(stimes) == min(stimes):
        return None
    first = min(stimes)
    return SourceRows(sum(1 for at in stimes if at > first) * 1e6 / (max(stimes) - first), samples)


def _batch(record: Record) -> tuple[BatchHeader, bytes] | None:
    """None: no rows, or none that its readers take."""
    try:
        header, payload = unpack_source(record.value)
        return (header, bytes(payload)) if isinstance(header, BatchHeader) and unpack_stimes(header.stimes) else None
    except EnvelopeError:
        return None


def _objects(codec: ArrowSourceCodec, header: BatchHeader, payload: bytes) -> list[bytes]:
    if header.encoding == "json":
        try:
            return [bytes(raw) for raw in msgspec.json.decode(payload, type=list[msgspec.Raw])]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return []
    rows, _ = codec.decode(payload, header.encoding, unpack_stimes(header.stimes))
    if rows is None or isinstance(rows, Parsed):
        return []
    return [row for row, _ in ArrowRowCodec(rows.schema, ()).published(rows)]
