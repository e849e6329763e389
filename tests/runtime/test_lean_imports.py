"""What our own processes do without (`runtime/lean_imports.py`)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from borealis_py.runtime.lean_imports import hidden

MODULE = "plistlib"  # of the standard library; nothing loads it here


def test_hidden_modules_are_found_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with hidden(MODULE):
        assert importlib.util.find_spec(MODULE) is None
        assert importlib.util.find_spec("tomllib") is not None
    assert importlib.util.find_spec(MODULE) is not None


APP = """
{first}
from borealis_py import App
app = App("a")
app.query("q", app.source("s", schema={{"x": "double"}}).window("1s").agg(n="count(*)", x="sum(x)"))
"""
UP = """
import sys
from borealis_py.cli.main import main
main(["up", "app.py", "--host", "process", "--data-dir", ".", "--bootstrap", "127.0.0.1:1"])  # nothing answers there
print(*sorted({"duckdb", "pandas"} & set(sys.modules)))
"""


@pytest.mark.parametrize(("first", "loaded"), [("", "duckdb"), ("import pandas; pandas.DataFrame", "duckdb pandas")])
def test_up_loads_pandas_only_for_a_file_that_wants_it(tmp_path: Path, first: str, loaded: str) -> None:
    (tmp_path / "app.py").write_text(APP.format(first=first))
    done = subprocess.run([sys.executable, "-c", UP], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == [loaded], done.stdout + done.stderr
