"""The functions of the how-to are what `borealis check` accepts, and compute what the page says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from borealis_py.app.functions.check import check_functions
from borealis_py.app.loader import load_app, load_spec
from borealis_py.testing import run
from tests.docs.page import blocks
from tests.docs.terminal import ROOT


def test_its_files_are_an_app_that_passes_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in blocks(ROOT / "docs" / "how-to" / "functions.md"):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "shop_functions", raising=False)
    reports = check_functions(load_spec("shop.py"))
    assert [report.function for report in reports] == [
        "shop_functions.taxed", "shop_functions.taxed", "shop_functions.best",
    ]  # fmt: skip
    assert not any(report.useless for report in reports)
    results = run(load_app("shop.py"), {"orders": [{"item": "tea", "euros": float(n)} for n in range(9)]})
    assert [row["gross"] for row in results["best"]] == [8 * 1.19, 7 * 1.19, 6 * 1.19]
    monkeypatch.delitem(sys.modules, "shop_functions", raising=False)
