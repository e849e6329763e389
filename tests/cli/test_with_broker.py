"""The command line on a running app: real broker, replica processes without Spark."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from borealis_py.app.loader import load_app
from borealis_py.app.state import read_app
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.records import BatchHeader, unpack_source, unpack_stimes
from sunion.model import FOREVER
from tests.cli.commands import Borealis, app_text, status
from tests.cli.imports import KAFKA, loaded
from tests.harness.launching import cut_off, described
from tests.harness.waiting import PATIENCE_S, until, until_equal

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("there")]
APP = "clitest"
TEXT = app_text(APP)
KEYS = ("a", "b", "c")


def pids(site: Path) -> list[int]:
    return [json.loads((site / f".borealis/{APP}/replica-{k}.pid").read_text())["pid"] for k in (0, 1)]


def write_rows(path: Path, n: int) -> None:
    start_us = time.time_ns() // 1000 + 200_000
    rows = [f"{start_us + i * 10_000},{KEYS[i % 3]},{i % 20}" for i in range(n)]
    path.write_text("at,key,value\n" + "\n".join(rows) + "\nnonsense,a,1\n")


def test_replicas_are_up(borealis: Borealis, site: Path) -> None:
    found = status(borealis, APP)
    assert {(r["node"], r["replica"], r["running"]) for r in found["replicas"]} == {
        ("sums", 0, True),
        ("sums", 1, True),
        ("big", 0, True),
    }
    assert {r["pid"] for r in found["replicas"]} == set(pids(site))
    said = borealis("status", "--app", APP)
    for shown in ("sums", "big", "left", "delay thresholds sums 1s"):
        assert shown in said.out


def test_what_computes_nothing_loads_no_engine(site: Path) -> None:
    commands = [
        ["status"],
        ["status", "--json"],
        ["top", "--count", "1"],
        ["read", "sums"],
        ["retain"],
        ["recovery"],
        ["resume", "sums"],
        ["threshold", "sums", "1s"],
        ["policy", "sums", "--failure", "process"],
        ["recovery", "sums", "active"],
        ["inspect", f"{APP}.settings"],
        ["publish", "left", "-", "--format", "jsonl"],
        ["down", "--app", "another"],
    ]
    commands = [one if "--app" in one or one[0] == "inspect" else [*one, "--app", APP] for one in commands]
    found = loaded(commands, site, os.environ)
    assert {command: names for command, (_, names) in found.items()} == {" ".join(one): KAFKA for one in commands}
    assert [code for code, _ in found.values()][:-1] == [0] * (len(commands) - 1)


def test_logs_of_a_running_app_are_readable(borealis: Borealis, site: Path) -> None:
    said = borealis("logs", "replica", "0", "--app", APP)
    assert said.code == 0
    assert "sums.r0  replica starts inc=1 bucket=20" in said.out
    assert "big.r0  READY: caught up at bucket 20" in said.out
    assert not any(line.startswith("{") for line in said.out.splitlines())


def test_up_again_starts_only_what_is_missing(borealis: Borealis, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pids(site)
    said = borealis("up", "app.py", "--host", "process", "--no-restart")
    assert said.code == 0, said.err
    assert pids(site) == before
    assert "replica 0 was running" in said.err
    assert "as it was started" not in said.err
    monkeypatch.setattr("borealis_py.runtime.spark.class_archive.prepare", lambda say: None)
    said = borealis("up", "app.py", "--no-restart")
    assert (said.code, pids(site)) == (0, before)
    assert "--host spark does not change what runs: it goes on with --host process" in said.err
    process = psutil.Process(before[1])
    process.kill()
    process.wait(PATIENCE_S)
    said = borealis("up", "app.py", "--host", "process", "--no-restart")
    assert said.code == 0, said.err
    after = pids(site)
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert "replica 1 started" in said.err


def test_a_taken_replica_index_is_refused(borealis: Borealis, site: Path) -> None:
    before = pids(site)
    said = borealis("up", "app.py", "--host", "process", "--no-restart", "--data-dir", "elsewhere")
    assert said.code == 1
    for k, pid in enumerate(before):
        assert f"replica {k} runs elsewhere: pid {pid} on {platform.node()}" in said.err
    assert f"`borealis down --app {APP} --data-dir {site / '.borealis'}` stops it" in said.err
    assert "--take-over" in said.err
    assert "exit code" not in said.err
    borealis("down", "--app", APP, "--data-dir", "elsewhere")
    assert all(psutil.pid_exists(pid) for pid in before)


def test_a_changed_query_is_refused_with_both_hashes(borealis: Borealis, site: Path) -> None:
    (site / "changed.py").write_text(app_text(APP, predicate="value > 11"))
    said = borealis("up", "changed.py", "--host", "process")
    assert said.code == 1
    hashes = [
        json.loads(borealis("check", f, "--json").out)["queries"]["big"]["hash"] for f in ("app.py", "changed.py")
    ]
    assert hashes[0] != hashes[1]
    assert all(h in said.err for h in hashes)
    assert "'big'" in said.err
    assert "'sums'" not in said.err
    assert "--reset" in said.err


def test_the_origin_is_written_once(borealis: Borealis) -> None:
    said = borealis("up", "app.py", "--host", "process", "--no-restart", "--origin", "2013-01-01")
    assert said.code == 1
    assert "already has an origin" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["subscribe", "sum"], "did you mean 'sums'"),
        (["subscribe", "left"], "has no query 'left'"),
        (["threshold", "bog", "1s"], "did you mean 'big'"),
        (["audit", "bog", "--no-spark"], "did you mean 'big'"),
        (["publish", "lefd", "app.py"], "did you mean 'left'"),
        (["publish", "sums", "app.py"], "it is a query"),
        (["publish", "left", "app.py"], "say --format csv or --format jsonl"),
        (["fail", "source", "lefd", "--for", "1s"], "did you mean 'left'"),
        (["fail", "source", "left", "--for", "1"], "no unit"),
        (["threshold", "sums", "0s"], "more than zero"),
        (["threshold", "sums", "-1s"], "more than zero"),
        (["threshold", "sums", "374ms"], "at least 375 ms"),
    ],
)
def test_names_and_values_that_make_no_sense(borealis: Borealis, arguments: list[str], message: str) -> None:
    said = borealis(*arguments, "--app", APP)
    assert said.code == (1 if "at least" in message else 2)
    assert message in said.err
    assert "Traceback" not in said.err


def test_an_unknown_app(borealis: Borealis) -> None:
    said = borealis("status", "--app", "clitesd")
    assert said.code == 2
    assert f"did you mean '{APP}'" in said.err


def test_published_rows_come_out_and_stand_the_audit(borealis: Borealis, site: Path) -> None:
    for source in ("left", "right"):
        write_rows(site / f"{source}.csv", 300)
    # one after the other: what the query needs of the second source waits in it
    for source in ("left", "right"):
        said = borealis("publish", source, f"{source}.csv", "--stime", "at", "--app", APP)
        assert said.code == 0, said.err
        assert "300 rows sent, 1 rejected (dead letters), then END" in said.err
    said = borealis("subscribe", "big", "--app", APP)
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert said.code == 0, said.err
    assert len(rows) == 2 * sum(1 for i in range(300) if i % 20 > 10)
    assert [r["stime"] for r in rows] == sorted(r["stime"] for r in rows)
    assert rows[0]["value"].keys() == {"key", "value"}
    live = borealis("subscribe", "sums", "--app", APP, "--view", "live", "--from", "beginning")
    stable = [r for line in live.out.splitlines() if (c := json.loads(line))["kind"] == "STABLE" for r in c["rows"]]
    assert sum(r["n"] for r in stable) == 600
    assert "--from beginning" not in live.err
    corrected = borealis("subscribe", "sums", "--app", APP)  # a live view begins where publishing has got to
    assert borealis("read", "sums", "--app", APP).out == corrected.out
    assert sum(json.loads(line)["value"]["n"] for line in corrected.out.splitlines()) == 600
    late = borealis("subscribe", "sums", "--app", APP, "--view", "live")
    assert (late.code, late.out) == (0, "")
    assert "every source of sums ended before now: --from beginning prints the results there are" in late.err
    raw = borealis("subscribe", "sums", "--app", APP, "--view", "raw", "--replica", "1", "--count", "1")
    assert json.loads(raw.out)["offset"] == 0
    audited = borealis("audit", "--app", APP, "--no-spark", "--json")
    assert audited.code == 0, audited.err
    results = json.loads(audited.out)
    assert {r["query"]: r["differences"] for r in results} == {"sums": 0, "big": 0}
    assert {r["query"]: r["rows"] for r in results}["big"] == len(rows)
    again = borealis("publish", "left", "left.csv", "--stime", "at", "--app", APP)
    assert again.code == 0
    assert "all 301 rows and END are there already" in again.err  # the bad line at its end, too
    (site / "more.csv").write_text((site / "left.csv").read_text() + (site / "left.csv").read_text().splitlines()[1])
    more = borealis("publish", "left", "more.csv", "--stime", "at", "--app", APP)
    assert more.code == 1
    assert "has ended" in more.err


def test_a_threshold_changes_while_it_runs(borealis: Borealis) -> None:
    assert borealis("threshold", "sums", "700ms", "--app", APP).code == 0
    until_equal(
        lambda: {r["threshold_us"] for r in status(borealis, APP)["replicas"] if r["node"] == "sums"},
        {700_000},
        "the replicas read the new threshold",
    )
    assert borealis("up", "app.py", "--host", "process", "--no-restart").code == 0
    assert status(borealis, APP)["thresholds_us"]["sums"] == 700_000  # the file did not change: what the user set stays


def test_a_source_fails_on_purpose(borealis: Borealis, bootstrap: str) -> None:
    said = borealis("fail", "source", "left", "--for", "120s", "--app", APP, "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert {(r["node"], r["replica"]) for r in found["unreachable_for"]} == {("sums", 0), ("sums", 1), ("big", 0)}
    assert status(borealis, APP)["failed_sources_until_wall_us"] == {"left": found["until_wall_us"]}
    cut_off(KafkaLog(bootstrap), APP, ["left"], 0)


def test_several_apps_must_be_chosen_from(borealis: Borealis, site: Path, bootstrap: str) -> None:
    """And `--reset` takes the topics of one of them only."""
    other = f"{APP}-other"
    for predicate in ("value > 1", "value > 2"):
        (site / "other.py").write_text(app_text(other, replicas=1, predicate=predicate))
        try:
            said = borealis("up", "other.py", "--host", "process", *(["--reset"] if predicate.endswith("2") else []))
            assert said.code == 0, said.err
            assert "several apps run here" in borealis("down").err
        finally:
            borealis("down", "--app", other)
        said = borealis("status")
        assert said.code == 2
        assert "Choose one with --app" in said.err
    state = read_app(KafkaLog(bootstrap), other)
    assert state.hash == json.loads(borealis("check", "other.py", "--json").out)["hash"]
    assert read_app(KafkaLog(bootstrap), APP).hash != state.hash


def test_a_pipe_is_published_as_it_comes_and_ctrl_c_ends_it_in_order(site: Path, bootstrap: str) -> None:
    log = KafkaLog(bootstrap)
    spec = load_app(site / "app.py").describe().model_copy(update={"name": f"{APP}-pipe"})
    described(log, spec)
    command = [sys.executable, "-m", "borealis_py.cli.main", "publish", "left", "-", "--app", spec.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b'{"key": "a", "value": 1.5}\n')
        process.stdin.flush()
        until(lambda: 1 in [len(stimes) for _, stimes in batches(log, spec.name)], "the row in the log")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert b"1 rows sent\n" in process.stderr.read()
    assert all(header.boundary is None or header.boundary < FOREVER for header, _ in batches(log, spec.name))


def batches(log: KafkaLog, app: str) -> list[tuple[BatchHeader, tuple[int, ...]]]:
    """What lies in source `left`."""
    with closing(log.lookup()) as lookup:
        feed = Feed(topics.stream(app, "left"))
        headers = [unpack_source(r.value)[0] for r in lookup.read(feed, *lookup.bounds(feed))]
    return [(h, unpack_stimes(h.stimes)) for h in headers if isinstance(h, BatchHeader)]
