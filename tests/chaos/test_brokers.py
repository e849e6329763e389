"""Three brokers: where each is, what cuts them off, what becomes of the wires of a killed run; and faults of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.__main__ import plan_of
from tests.chaos.arena import arena
from tests.chaos.faults import Fault
from tests.chaos.report import timeline
from tests.chaos.run import Done, run
from tests.harness import wires
from tests.harness.processes import ROOT
from tests.harness.waiting import PATIENCE_S, until
from tests.harness.wires import NoNamespaces, Wires, check, sweep_dead
from tests.support.late import LATE
from tests.support.right import exactly

SHORT_S = 0.3
SERVE = """
import socket, sys
with socket.create_server((sys.argv[1], 9000)) as server:
    print(flush=True)
    while True:
        server.accept()[0].sendall(b"x")
"""
CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], 9000), float(sys.argv[2])) as client:
    assert client.recv(1) == b"x"
"""


@pytest.fixture
def namespaces() -> None:
    """They can be made here."""
    try:
        Wires(1).close()
    except NoNamespaces as exc:
        pytest.skip(str(exc))


def test_without_the_means_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(NoNamespaces, match="iproute2"):
            check()
    (tmp_path / "ip").write_text("")
    (tmp_path / "ip").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoNamespaces, match="only root"):
        check()


@pytest.fixture
def two(namespaces: None) -> Iterator[Wires]:
    """Two namespaces, and a server in the first one."""
    it = Wires(2)
    server = subprocess.Popen(
        it.command(0, [sys.executable, "-c", SERVE, it.address(0)]), stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    server.stdout.readline()
    yield it
    it.close()
    server.wait(PATIENCE_S)
    server.stdout.close()


def reaches(it: Wires, timeout_s: float = PATIENCE_S) -> bool:
    """Whether the second one reaches the first one's server."""
    command = it.command(1, [sys.executable, "-c", CONNECT, it.address(0), str(timeout_s)])
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_one_that_is_cut_off_is_reached_from_outside_alone(two: Wires) -> None:
    assert reaches(two)
    two.cut(0, [1])
    assert not reaches(two, SHORT_S)
    with socket.create_connection((two.address(0), 9000), PATIENCE_S) as client:
        assert client.recv(1) == b"x"
    two.heal(0)
    assert reaches(two)


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_what_a_killed_run_left_is_removed_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os; from tests.harness.wires import Wires; w = Wires(2); print(w.namespace(0), flush=True); os._exit(1)"
    )
    left = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    name = left.stdout.strip().removesuffix("-0")
    assert name.startswith(wires.PREFIX), left.stderr
    sleeper = subprocess.Popen(["ip", "netns", "exec", f"{name}-1", "sleep", "1000"])
    until(lambda: str(sleeper.pid) in wires._ip("netns", "pids", f"{name}-1").split(), "it runs there")
    assert name in sweep_dead()
    assert sleeper.wait(PATIENCE_S) == -9
    assert name not in wires._names()


FAULTS = (
    Fault("one broker killed", 0.5, frozenset(("broker",)), "broker-1", 0.5, "back once others lead"),
    Fault("coordinator killed", 0.5, frozenset(("broker",)), "", 0.5),
    Fault("one broker cut off", 0.5, frozenset(("broker",)), "broker-2", 4.0, "from both"),
    Fault("too few in sync", 0.5, frozenset(("broker",)), "broker-3", 0.5),
)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_brokers_that_break_while_there_are_three_lose_repeat_and_change_nothing(tmp_path: Path) -> None:
    told: list[int] = []

    def note(done: list[Done]) -> None:
        told.append(sum(d.end_us is not None for d in done))

    with arena(plan_of("process", 4_000, "needed"), tmp_path, brokers=3) as it:
        done = run(it, FAULTS, note)
        print(timeline(done, done[0].begin_us))
        verdict = it.end()
    with exactly():
        assert (verdict.kinds - LATE, verdict.undecided) == (set(), [])
    assert [d.nothing for d in done] == [""] * len(FAULTS)
    assert told[-1] == len(FAULTS)
    assert all(verdict.looked_at[what] > 50 for what in ("corrected rows", "progress records", "buckets timed"))
