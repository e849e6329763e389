"""A query on two nodes, from the command line: real broker, one process for each replica index, no Spark."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest

from borealis_py.app.process_spec import VARIABLE, ProcessSpec
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.kafka.log import KafkaLog
from borealis_py.runtime.process import index_in_use
from tests.cli.commands import Borealis, statuses
from tests.harness.launching import cut_off
from tests.harness.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("there")]
APP = "cli-chain"
TEXT = f"""
from borealis_py import App

app = App("{APP}", bucket="100ms")
left, right = (app.source(s, schema={{"key": "string", "value": "double"}}) for s in ("left", "right"))
cleaned = app.union(left, right).filter("value > 0").node("cleaned")
app.query("sums", cleaned.window("1s").group_by("key").agg(n="count(*)", total="sum(value / 3)"), "2s", replicas=2)
app.query("big", cleaned.filter("value > 15"), "1s", replicas=1)
"""
PROCESSES = [ProcessName(0), ProcessName(1)]
ROWS = 400


@pytest.fixture
def processes(site: Path) -> ReplicaProcesses:
    return ReplicaProcesses(site / ".borealis", APP)


def test_an_index_of_all_nodes_runs_in_one_process(borealis: Borealis, processes: ReplicaProcesses) -> None:
    pids = {name: process.pid for name, process in processes.running().items()}
    assert list(pids) == PROCESSES
    found = statuses(borealis, APP)
    keys = [("cleaned", 0), ("cleaned", 1), ("sums", 0), ("sums", 1), ("big", 0)]
    assert {key: r["pid"] for key, r in found.items()} == {key: pids[PROCESSES[key[1]]] for key in keys}
    assert found["cleaned", 0]["of_queries"] == ["sums", "big"]
    assert [i["name"] for i in found["sums", 0]["inputs"]] == ["cleaned"]


def test_an_index_of_a_node_that_runs_is_taken(
    bootstrap: str, site: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from borealis_py.runtime.process.__main__ import main as process

    monkeypatch.setattr(index_in_use, "WATCH_S", PATIENCE_S)
    monkeypatch.setenv(VARIABLE, ProcessSpec(bootstrap, site / "other").environment()[VARIABLE])
    assert process(ProcessName(1, "cleaned").arguments(APP)) == 1
    assert "replica 1 of node cleaned is already running" in capfd.readouterr().err


def test_up_starts_an_index_that_was_killed(borealis: Borealis, processes: ReplicaProcesses) -> None:
    victim = processes.running()[PROCESSES[0]]
    victim.kill()
    psutil.wait_procs([victim], PATIENCE_S)
    assert PROCESSES[0] not in processes.running()
    said = borealis("up", "app.py", "--host", "process", "--no-restart", "--take-over")
    assert said.code == 0, said.err
    assert "replica 0 started (pid " in said.err
    assert ": cleaned, sums, big; log " in said.err
    assert said.err.count("was running") == 1
    assert list(processes.running()) == PROCESSES


def test_only_queries_have_results(borealis: Borealis) -> None:
    said = borealis("subscribe", "cleaned", "--app", APP)
    assert said.code == 2
    assert "'cleaned' is a node of sums, big, and only a query has a corrected view" in said.err
    said = borealis("subscribe", "cleaned", "--view", "raw", "--replica", "2", "--app", APP)
    assert said.code == 2
    assert "node 'cleaned' has replicas 0 to 1" in said.err
    said = borealis("publish", "cleaned", "-", "--format", "csv", "--app", APP)
    assert "no source 'cleaned' (it is a node: replicas write its stream)" in said.err


def test_a_lost_source_is_the_business_of_who_reads_it(borealis: Borealis, bootstrap: str) -> None:
    said = borealis("fail", "source", "left", "--for", "120s", "--app", APP, "--json")
    assert said.code == 0, said.err
    cut_off(KafkaLog(bootstrap), APP, ["left"], 0)
    lost = json.loads(said.out)["unreachable_for"]
    assert {r["node"] for r in lost} == {"cleaned"}


def test_the_whole_way_and_back(borealis: Borealis, site: Path, processes: ReplicaProcesses) -> None:
    """Published to the end, read, audited from the sources, stopped."""
    start_us = time.time_ns() // 1000 + 200_000
    for seed, source in enumerate(("left", "right")):
        rows = [f"{start_us + i * 5_000},{'abc'[(i + seed) % 3]},{(i * 7 + seed) % 20}" for i in range(ROWS)]
        (site / f"{source}.csv").write_text("at,key,value\n" + "\n".join(rows) + "\n")
        assert borealis("publish", source, f"{source}.csv", "--stime", "at", "--app", APP).code == 0
    said = borealis("subscribe", "big", "--app", APP)
    assert said.code == 0, said.err
    raw = borealis("subscribe", "cleaned", "--view", "raw", "--replica", "0", "--app", APP)
    assert raw.code == 0, raw.err
    first, *_, last = raw.out.splitlines()
    assert json.loads(first)["inc"] == 2  # it was killed once
    assert json.loads(last)["kind"] == "BOUNDARY"  # the end of the sources is the end of the view
    values = [json.loads(line)["value"]["value"] for line in said.out.splitlines()]
    assert len(values) == sum((i * 7 + seed) % 20 > 15 for seed in (0, 1) for i in range(ROWS))
    until(lambda: all(r["stable_until"] == "END" for r in statuses(borealis, APP).values()), "every node is at the end")
    said = borealis("audit", "--no-spark", "--whole", "--json", "--app", APP)
    assert said.code == 0, said.err
    found = {r["query"]: r for r in json.loads(said.out)}
    assert (found["big"]["rows"], found["big"]["clean"], found["sums"]["clean"]) == (len(values), True, True)
    assert found["sums"]["rows"] > 3
    said = borealis("down", "--app", APP)
    assert said.code == 0
    assert said.err.count(" stopped (pid ") == 2
    assert processes.running() == {}
