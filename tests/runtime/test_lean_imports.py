"""What our own processes do without (`runtime/lean_imports.py`)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from borealis_py import App
from borealis_py.engine.applied.described import described
from borealis_py.runtime.lean_imports import hidden
from tests.engine.applied.modules import imported

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


HELP = """
import sys
from borealis_py.cli.main import main
main(["--help"])
print(*sorted({"confluent_kafka", "kafka", "numpy", "pyarrow", "pydantic", "structlog", "yaml"} & set(sys.modules)))
"""


def test_help_comes_before_anything_heavy_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert "Continuous queries" in done.stdout
    assert done.stdout.splitlines()[-1] == "", done.stdout + done.stderr


FUNCTIONS = "def f(rows):\n    return rows.assign(x=rows['x'] * 2)\n"
REPLICA = """
import importlib.util, sys
from pathlib import Path
from borealis_py.runtime.lean_imports import load_engine
load_engine()
import pyarrow as pa
from borealis_py.engine import compile_query
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.query.spec import AppSpec
assert importlib.util.find_spec("pandas") is None
spec = AppSpec.from_json(Path("app.json").read_text())
compile_query(spec, "q").close()
assert "pandas" not in sys.modules
kernel = compile_query(spec, "q", code=CodeInPlace())
rows = pa.record_batch({"x": [1.5, None], "stime": [1, 2]})
_, outputs = kernel.step(kernel.initial(), 0, 1, {0: (rows,)})
print(outputs[0].rows.column("x").to_pylist())
"""


def test_a_lean_process_loads_pandas_for_a_function_that_wants_it(tmp_path: Path) -> None:
    (tmp_path / "lean_functions.py").write_text(FUNCTIONS)
    app = App("a", modules=[tmp_path / "lean_functions.py"])
    f = imported(tmp_path / "lean_functions.py").f
    app.query("q", app.source("s", {"x": "double"}).apply(f, {"x": "double"}, style="pandas"))
    (tmp_path / "app.json").write_text(app.describe().with_functions(described).to_json())
    done = subprocess.run([sys.executable, "-c", REPLICA], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "[3.0, None]\n", done.stdout + done.stderr
