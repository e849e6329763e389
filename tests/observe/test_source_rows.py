"""How many rows a second come into sources, and some of them. On the simulated log."""

from __future__ import annotations

import pyarrow as pa
import pytest

from borealis_py.app.topics import topics_of
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.log import topics
from borealis_py.log.base import LogUnreachable, NewRecord
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, pack_stimes
from borealis_py.observe.source_rows import source_rows
from borealis_py.query import App
from borealis_py.query.spec import AppSpec
from tests.support.instant_log import InstantLog

SCHEMA = {"v": "int64"}
T0 = 1_700_000_000_000_000


def an_app() -> AppSpec:
    app = App("g")
    app.query("q", app.union(*(app.source(name, schema=SCHEMA) for name in ("s", "still"))), "3s")
    return app.describe()


def made() -> InstantLog:
    log = InstantLog()
    log.admin().create(topics_of(an_app()))
    return log


def batch(at_us: list[int], payload: bytes, encoding: str = "json", source: str = "s") -> NewRecord:
    header = BatchHeader("life", 1, "u", 0, pack_stimes([T0 + at for at in at_us]), None, encoding)
    return NewRecord(topics.source("g", source), pack(header, payload), timestamp_ms=(T0 + at_us[0]) // 1000)


def test_rows_are_counted_by_their_own_times() -> None:
    log = made()
    claim = NewRecord(topics.source("g", "s"), pack(ClaimHeader("life", 1, "u")), timestamp_ms=T0 // 1000)
    log.put(claim, *(batch([n * 100_000, n * 100_000 + 50_000], b'[{"v":1},{"v":2}]') for n in range(11)))
    log.put(NewRecord(topics.source("g", "s"), b"garbage", timestamp_ms=T0 // 1000))
    found = source_rows(log, an_app())
    assert list(found) == ["s"]
    assert found["s"].rows_per_s == pytest.approx(20)
    assert found["s"].samples[:2] == [b'{"v":1}', b'{"v":2}']
    assert len(found["s"].samples) == 22


def test_rows_in_arrow_are_samples_too() -> None:
    log = made()
    codec = ArrowSourceCodec("s", SCHEMA)
    rows = pa.RecordBatch.from_arrays([pa.array([5, 6]), pa.array([T0, T0 + 10])], schema=codec.schema)
    log.put(batch([0, 1_000_000], codec.encode(rows), "arrow"))
    assert source_rows(log, an_app())["s"].samples == [b'{"v":5}', b'{"v":6}']


def test_what_has_no_two_times_has_no_rate() -> None:
    log = made()
    log.put(batch([0], b'[{"v":1}]'), batch([0], b"[]", source="still"))
    assert source_rows(log, an_app()) == {}


def test_no_topics_no_rates_and_no_broker_is_an_error() -> None:
    log = InstantLog()
    assert source_rows(log, an_app()) == {}
    log.cut()
    with pytest.raises(LogUnreachable):
        source_rows(log, an_app())
