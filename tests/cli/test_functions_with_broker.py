"""Python functions from the command line: real broker, real processes that load what `up` stored, no Spark."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil
import pytest

from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from tests.cli.commands import Borealis, statuses
from tests.harness.waiting import PATIENCE_S, until

pytestmark = pytest.mark.broker
APP = "cli-functions"
TEXT = f"""
import cli_functions
from borealis_py import App

app = App("{APP}", modules=["cli_functions.py"])
doubled = app.source("left", schema={{"key": "string", "value": "double"}}).apply(
    cli_functions.doubled, {{"value": "double"}}, keep=("key",)
)
totals = doubled.window("1s").group_by("key").apply(cli_functions.total, {{"total": "double"}}, style="pandas")
app.query("totals", totals, "2s")
"""
FUNCTIONS = """
import pyarrow as pa
import pyarrow.compute as pc

def doubled(rows):
    if -1.0 in rows["value"].to_pylist():
        raise ValueError("negative")
    return pa.table({"value": pc.multiply(rows["value"], 2.0)})

def total(rows):
    return rows.head(1).assign(total=rows["value"].sum())
"""


def test_replicas_run_the_functions_that_up_saw_whatever_becomes_of_the_file(
    borealis: Borealis, here: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    (here / "app.py").write_text(TEXT)
    (here / "cli_functions.py").write_text(FUNCTIONS)
    processes = ReplicaProcesses(here / ".borealis", APP)
    try:
        up = borealis("up", "app.py", "--host", "process")
        assert up.code == 0, up.err
        assert len(list((here / ".borealis" / APP / "code").iterdir())) == 1
        (here / "cli_functions.py").write_text(FUNCTIONS.replace("2.0", "3.0"))
        monkeypatch.delitem(sys.modules, "cli_functions")
        refused = borealis("up", "app.py", "--host", "process")
        assert refused.code == 1
        assert "function cli_functions.doubled: cli_functions.py is SHA-256" in refused.err
        victim = processes.running()[ProcessName(0)]
        victim.kill()
        psutil.wait_procs([victim], PATIENCE_S)
        until(lambda: statuses(borealis, APP)["totals", 0]["inc"] > 1, "the supervisor has started it again")
        start_us = time.time_ns() // 1000 - 1_000_000  # `up` took longer: what lies before the app's origin is refused
        rows = [f"{start_us + n * 10_000},{'ab'[n % 2]},{-1 if n == 7 else n}" for n in range(100)]
        (here / "rows.csv").write_text("\n".join(["at,key,value", *rows]) + "\n")
        published = borealis("publish", "left", "rows.csv", "--stime", "at", "--app", APP)
        assert published.code == 0, published.err
        said = borealis("subscribe", "totals", "--app", APP)
        found = [json.loads(line)["value"] for line in said.out.splitlines()]
        assert sum(row["total"] for row in found) == 2.0 * (sum(range(100)) - 7)
        audit = borealis("audit", "--no-spark", "--app", APP)
        assert audit.code == 0, audit.err
        assert "every bit the same, 1 dead letters as they must be" in audit.out + audit.err
    finally:
        borealis("down", "--app", APP)
