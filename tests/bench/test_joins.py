"""`borealis bench join`: both kinds are measured, over as many rows as were asked for. No speeds."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from borealis_py.bench.measure.kernel.joins import JoinOptions, run, show
from borealis_py.bench.report.figures import BenchError
from borealis_py.cli.console import print_json

SMALL = JoinOptions(rows_per_s=400, within_s=2, keys=50, buckets=10)


def test_both_kinds_of_join_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    report = run(SMALL, Console(file=io.StringIO()))
    inner, left = report.joins
    assert (inner.how, left.how) == ("inner", "left")
    assert inner.bucket.count == left.bucket.count == 10
    assert left.pairs >= inner.pairs > 0
    assert left.kept > inner.kept >= 400, "an inner join within (0s, ...) keeps its left side only"
    out = io.StringIO()
    show(report, Console(file=out))
    assert "400 rows/s over both sides, kept 2 s, 50 keys" in out.getvalue()
    print_json(report)
    assert json.loads(capsys.readouterr().out)["joins"][1]["how"] == "left"


def test_a_join_without_pairs_is_no_figure() -> None:
    with pytest.raises(BenchError, match="the inner join gave no pairs"):
        run(JoinOptions(rows_per_s=20, within_s=1, keys=10**9, buckets=1), Console(file=io.StringIO()))
