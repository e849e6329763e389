"""`borealis bench publish`: every way of publishing is measured, and all rows are sent. No speeds."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from borealis_py.bench.load.nowhere import Nowhere
from borealis_py.bench.measure import publish
from borealis_py.bench.measure.publish import PublishOptions, run, show
from borealis_py.bench.report.figures import BenchError
from borealis_py.cli.console import print_json

SMALL = PublishOptions(rows=3_000, per_bucket=100, runs=2)


def test_every_way_is_measured_and_told_beside_encoding_alone(capsys: pytest.CaptureFixture[str]) -> None:
    report = run(SMALL, Console(file=io.StringIO()))
    assert [figure.way for figure in report.figures][:3] == [publish.YARDSTICK, "send", "send, own times"]
    assert len(report.figures) == 9
    assert report.figures[0].of_yardstick == 1
    assert all(figure.rows_per_cpu_s > 0 for figure in report.figures)
    assert 85 < report.row_bytes < 95
    out = io.StringIO()
    show(report, Console(file=out))
    assert all(figure.way in out.getvalue() for figure in report.figures)
    print_json(report)
    assert json.loads(capsys.readouterr().out)["figures"][1]["way"] == "send"


def test_rows_that_are_lost_are_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(publish.SCHEMA, "shop", "int64")
    with pytest.raises(BenchError, match="send: 0 of 3000 rows were sent"):
        run(SMALL, Console(file=io.StringIO()))


def test_what_is_measured_lies_in_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[Nowhere] = []

    class Watched(Nowhere):
        def __init__(self) -> None:
            super().__init__()
            logs.append(self)

    monkeypatch.setattr(publish, "Nowhere", Watched)
    report = run(PublishOptions(rows=1_000, per_bucket=100, runs=1), Console(file=io.StringIO()))
    assert len(logs) == 8
    assert all(log.bytes > 1_000 * report.row_bytes for log in logs)
    assert all(log.end >= 11 for log in logs[1::2]), "by their own times a record for each bucket"
