"""`make bench NAME=publish`: every way of publishing is measured, and all rows are sent. No speeds."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.experiments import publish
from benchmarks.experiments.publish import PublishFigure, PublishSize, measure
from benchmarks.load.nowhere import Nowhere
from borealis_py.bench.console import Bars, bars_on
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.kafka.broker import LocalBroker

SMALL = PublishSize(rows=3_000, per_bucket=100, runs=2)


@pytest.fixture
def bars() -> Iterator[Bars]:
    with bars_on(Console(file=io.StringIO())) as shown:
        yield shown


def test_every_way_is_measured_beside_encoding_alone(bars: Bars) -> None:
    figures = measure(SMALL, bars)
    assert [figure.way for figure in figures][:3] == [publish.YARDSTICK, "send", "send, own times"]
    assert len(figures) == 9
    assert set(publish.GOALS) < {figure.way for figure in figures}
    assert figures[0].of_yardstick == 1
    assert all(figure.rows_per_cpu_s > 0 for figure in figures)


def test_what_is_told() -> None:
    ways = [("msgspec", 900.0, None), ("send", 300.0, 301), ("send_many", 450.0, 450)]
    figures = [PublishFigure(way, rows, rows / 900, goal) for way, rows, goal in ways]
    found = publish.outcome(figures, SMALL, 250_000.0)
    assert found.rows[1:] == [
        ["send", "300", "33%", "301"],
        ["send_many", "450", "50%", "450"],
        [publish.INTO_KAFKA, "250,000", "", "250,000"],
    ]
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert found.ratios == {"send / encoding alone": 300 / 900, "send_many / encoding alone": 0.5}
    assert "Below the goal: send: 300 (301). Publishing row by row takes 3.0 times as long" in found.worse
    assert [curve.y for curve in found.panels[0].curves] == [[300.0, 450.0], [301.0, 450.0]]
    assert found.data["rows"] == SMALL.rows
    assert "Below" not in publish.outcome([figures[0], figures[2]], SMALL, 250_000.0).worse
    assert "on the wall: 249,999 (250,000)" in publish.outcome([figures[0], figures[2]], SMALL, 249_999.0).worse


def test_a_file_is_published_into_kafka(broker: LocalBroker, tmp_path: Path, bars: Bars) -> None:
    stage = Stage(tmp_path, broker)
    with stage.endings:
        assert publish.into_kafka(stage, SMALL, bars) > 0


def test_rows_that_are_lost_are_no_figure(monkeypatch: pytest.MonkeyPatch, bars: Bars) -> None:
    monkeypatch.setitem(publish.SCHEMA, "shop", "int64")
    with pytest.raises(BenchError, match="send: 0 of 3000 rows were sent"):
        measure(SMALL, bars)


def test_what_is_measured_lies_in_the_records(monkeypatch: pytest.MonkeyPatch, bars: Bars) -> None:
    logs: list[Nowhere] = []

    class Watched(Nowhere):
        def __init__(self) -> None:
            super().__init__()
            logs.append(self)

    monkeypatch.setattr(publish, "Nowhere", Watched)
    measure(PublishSize(rows=1_000, per_bucket=100, runs=1), bars)
    assert len(logs) == 8
    assert all(log.bytes > 1_000 * 85 for log in logs)
    assert all(log.end >= 11 for log in logs[1::2]), "by their own times a record for each bucket"
