"""Workers that are not like their driver are refused before they say anything, with what is different."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from borealis_py.app.supervisor.exit_codes import FAILED, KERNEL, ExitCode
from tests.harness.processes import ROOT
from tests.runtime.spark.driven import READY_S, driven, union_app

pytestmark = [pytest.mark.spark, pytest.mark.broker]
IN_WORKERS = """
import sys
if "borealis_py.runtime.spark.daemon" in sys.orig_argv:
"""
OTHER_DUCKDB = f"""{IN_WORKERS}
    import duckdb
    duckdb.__version__ = "0.9.9"
"""
OTHER_PYTHON = f"""{IN_WORKERS}
    from collections import namedtuple
    sys.version_info = namedtuple("version_info", "major minor micro releaselevel serial")(3, 10, 0, "final", 0)
"""


@pytest.mark.parametrize(
    ("other", "end", "said"),
    [
        (OTHER_DUCKDB, KERNEL, "has others: DuckDB 0.9.9, described with "),
        (OTHER_PYTHON, FAILED, "PYTHON_VERSION_MISMATCH"),
    ],
    ids=["DuckDB", "Python"],
)
def test_a_worker_of_another_version_is_refused(
    other: str,
    end: ExitCode,
    said: str,
    bootstrap: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    (tmp_path / "sitecustomize.py").write_text(other)
    properties = {"spark.executorEnv.PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    with driven(bootstrap, union_app(f"other-{len(other)}"), tmp_path) as app:
        driver = app.drive(0, spark_properties=properties)
        assert driver.popen.wait(READY_S) == end.code, driver.said
        assert said in driver.said
        assert "Traceback" not in driver.said
        assert app.statuses() == []
        assert app.values() == []
