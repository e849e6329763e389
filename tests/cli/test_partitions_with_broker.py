"""A partitioned query behind a partitioned node, from the command line: real broker, real processes, no Spark."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path

import psutil
import pytest

from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from tests.cli.commands import Borealis, statuses
from tests.harness.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("there")]
APP = "cli-parts"
TEXT = f"""
from borealis_py import App

app = App("{APP}", bucket="100ms")
left = app.source("left", schema={{"key": "string", "value": "double"}}, partitions=2)
right = app.source("right", schema={{"key": "string", "value": "double"}})
clean = app.union(left, right).filter("value > 0").node("clean", partitions=3, by="key")
sums = clean.window("1s").group_by("key").agg(n="count(*)", total="sum(value / 3)")
app.query("sums", sums, "2s", replicas=2, partitions=2, by="key")
app.query("all", clean.window("1s").agg(n="count(*)", keys="list(key)"), "2s", replicas=1)
"""
ROWS, KEYS = 400, "abcdefgh"


def test_each_partition_is_a_node_of_its_own(borealis: Borealis) -> None:
    found = statuses(borealis, APP)
    parts = {("clean.0", 0), ("clean.1", 0), ("clean.2", 0), ("sums.0", 0), ("sums.1", 0)}
    assert set(found) == {*parts, *((node, 1) for node, _ in parts), ("all", 0)}
    assert [i["name"] for i in found["sums.1", 0]["inputs"]] == ["clean.0", "clean.1", "clean.2"]
    assert found["clean.2", 0]["of_queries"] == ["sums", "all"]
    assert len({r["pid"] for r in found.values()}) == 2, "a process runs all partitions of all nodes"


def test_check_and_the_threshold_speak_of_the_whole(borealis: Borealis) -> None:
    said = borealis("check", "app.py", "--json")
    assert json.loads(said.out)["queries"]["sums"]["partitions"] == {"by": ["key"], "count": 2}
    said = borealis("threshold", "sums", "1900ms", "--app", APP)
    assert said.code == 0, said.err
    until(
        lambda: {r["threshold_us"] for (n, _), r in statuses(borealis, APP).items() if n != "all"} == {1_900_000},
        "every partition obeys",
    )


def test_each_partition_of_a_source_has_a_publisher_of_its_own(borealis: Borealis, site: Path) -> None:
    (site / "empty.csv").write_text("at,key,value\n")
    said = borealis("publish", "left", "empty.csv", "--stime", "at", "--app", APP)
    assert said.code == 2
    assert "no source 'left'; did you mean 'left.1' or 'left.0'? sources: left.0, left.1, right" in said.err


def test_only_one_partition_of_a_node_has_a_raw_view(borealis: Borealis) -> None:
    said = borealis("subscribe", "clean", "--view", "raw", "--app", APP)
    assert said.code == 2
    assert "no node or query 'clean'; did you mean 'clean." in said.err


def test_what_is_published_comes_out_whole_although_a_replica_dies(borealis: Borealis, site: Path) -> None:
    start_us = time.time_ns() // 1000 + 200_000
    expected: dict[str, int] = defaultdict(int)
    for seed, source in enumerate(("left.0", "right", "left.1")):
        rows = []
        for i in range(ROWS):
            key, value = KEYS[(i * 5 + seed) % len(KEYS)], (i * 7 + seed) % 20
            rows.append(f"{start_us + i * 5_000},{key},{value}")
            expected[key] += value > 0
        (site / f"{source}.csv").write_text("at,key,value\n" + "\n".join(rows) + "\n")
    assert borealis("publish", "left.1", "left.1.csv", "--stime", "at", "--app", APP).code == 0
    assert borealis("publish", "left.0", "left.0.csv", "--stime", "at", "--app", APP).code == 0
    victim = ReplicaProcesses(site / ".borealis", APP).running()[ProcessName(0)]
    victim.kill()
    psutil.wait_procs([victim], PATIENCE_S)
    assert borealis("publish", "right", "right.csv", "--stime", "at", "--app", APP).code == 0
    assert borealis("up", "app.py", "--host", "process", "--no-restart", "--take-over").code == 0
    said = borealis("subscribe", "sums", "--app", APP)
    now = borealis("read", "sums", "--app", APP)
    assert sorted(now.out.splitlines()) == sorted(said.out.splitlines())
    assert said.code == 0, said.err
    rows_of = defaultdict(list)
    for line in map(json.loads, said.out.splitlines()):
        rows_of[line["value"]["key"]].append(line)
    assert {key: sum(r["value"]["n"] for r in found) for key, found in rows_of.items()} == expected
    assert all(len({r["partition"] for r in found}) == 1 for found in rows_of.values())
    assert all([r["stime"] for r in found] == sorted(r["stime"] for r in found) for found in rows_of.values())
    assert {r["partition"] for found in rows_of.values() for r in found} == {0, 1}
    live = borealis("subscribe", "sums", "--view", "live", "--from", "beginning", "--app", APP)
    stable = [c for c in map(json.loads, live.out.splitlines()) if c["kind"] == "STABLE"]
    assert sum(row["n"] for c in stable for row in c["rows"]) == sum(expected.values())
    said = borealis("audit", "--no-spark", "--whole", "--json", "--app", APP)
    assert said.code == 0, said.out + said.err
    audited = {r["query"]: r for r in json.loads(said.out)}
    assert set(audited) == {"sums.0", "sums.1", "all"}
    assert all(r["clean"] and r["rows"] for r in audited.values())
