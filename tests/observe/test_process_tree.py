"""What a replica's process consists of, by name and weight."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.cli.shared.replica_table import parts_table
from borealis_py.observe.process_tree import DAEMON, JVM, PARENT, WORKER, Footprint, named, parts, told


def test_what_runs_below_a_replica_has_a_name() -> None:
    daemon = ["/usr/bin/python3", "-m", DAEMON, "pyspark.worker"]
    java = ["/usr/lib/jvm/bin/java", "-cp", "x"]
    assert named(java, ["python"]) == JVM
    assert named(daemon, java) == PARENT
    assert named(daemon, daemon) == WORKER
    assert named(["/bin/bash"], java) == "bash"
    assert named([], []) == "ended"


def test_each_part_is_weighed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processes = ReplicaProcesses(tmp_path, "a")
    own = psutil.Process()
    monkeypatch.setattr(processes, "running", lambda: {ProcessName(0): own})
    code = "print('up', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"  # a process has no command line until it has one of its own
        found = {part.pid: part for part in parts(processes)}
        child.communicate(b"\n")
    assert found[own.pid].role == "driver"
    assert found[child.pid].role.startswith("python")
    assert all(0 < (part.pss_bytes or 1) <= part.rss_bytes for part in found.values())
    assert child.pid not in {part.pid for part in parts(processes)}


def test_parts_are_shown_with_their_sum() -> None:
    of = [
        Footprint(ProcessName(0), "driver", 11, 60_000_000, 40_000_000, 3),
        Footprint(ProcessName(0), JVM, 12, 9_000_000, None, 7),
    ]
    assert told(of)["replica-0"][1] == {
        "role": JVM, "pid": 12, "rss_bytes": 9_000_000, "pss_bytes": None, "threads": 7,
    }  # fmt: skip
    console = Console(width=120)
    with console.capture() as capture:
        console.print(parts_table(of))
    lines = [line.split() for line in capture.get().splitlines() if line.strip()]
    assert lines[-1] == ["all", "69", "MB", "RSS", "10"], "not a sum of both kinds"
    assert lines[-2][-4:] == ["9", "MB", "RSS", "7"]
    assert lines[-3][-5:] == ["driver", "11", "40", "MB", "3"]
