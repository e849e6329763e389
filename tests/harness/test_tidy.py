"""Nothing of a run stays behind, however it ends; and how busy the machine was is measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.harness.faults import FullDisk
from tests.harness.machine import Load, Meter, Sample, between
from tests.harness.processes import ROOT
from tests.harness.tidy import MARK, SIGNALS, Interrupted, leaving_nothing, sweep_dead
from tests.harness.waiting import PATIENCE_S, until

RUN = """
import os, signal, subprocess, sys, threading
from pathlib import Path
from tests.harness.tidy import leaving_nothing
from tests.harness.faults import FullDisk

directory, runs, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sleep = [sys.executable, "-c", "import subprocess, sys; subprocess.run(['sleep', '600'])"]
with leaving_nothing(directory, runs):
    child = subprocess.Popen(sleep, start_new_session=True)
    disk = FullDisk(directory / "disk")
    if how == "error":
        raise RuntimeError
    (directory / "ready").write_text(f"{child.pid} {int(disk.mounted)}")
    threading.Event().wait()
"""


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    directory, runs = tmp_path / "run", tmp_path / "runs"
    directory.mkdir()
    yield directory, runs
    sweep_dead(runs)


def run(places: tuple[Path, Path], how: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", RUN, *map(str, places), how]
    return subprocess.Popen(arguments, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL)


def ready(places: tuple[Path, Path]) -> tuple[list[psutil.Process], bool]:
    """The processes that it started, and whether it could mount something."""
    file = places[0] / "ready"
    until(lambda: file.exists() and len(file.read_text().split()) == 2, "the run has begun")
    pid, mounted = file.read_text().split()
    child = psutil.Process(int(pid))
    until(lambda: len(child.children()) == 1, "its child's child runs")
    return [child, *child.children()], mounted == "1"


def mounted(directory: Path) -> bool:
    return str(directory) in Path("/proc/self/mounts").read_text()


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
def test_a_signal_ends_everything(places: tuple[Path, Path], number: signal.Signals) -> None:
    it = run(places, "wait")
    started, disk = ready(places)
    assert mounted(places[0]) is disk
    it.send_signal(number)
    assert it.wait(PATIENCE_S) != 0
    assert psutil.wait_procs(started, PATIENCE_S)[1] == []
    assert not mounted(places[0])
    assert list(places[1].iterdir()) == []


def test_what_a_killed_run_left_is_swept_by_the_next(places: tuple[Path, Path]) -> None:
    it = run(places, "wait")
    started, disk = ready(places)
    (name,) = (file.name for file in places[1].iterdir())
    assert sweep_dead(places[1]) == [], "it lives"
    it.kill()
    it.wait(PATIENCE_S)
    assert all(p.is_running() for p in started)
    assert mounted(places[0]) is disk
    with leaving_nothing(places[0] / "next", places[1]):
        assert psutil.wait_procs(started, PATIENCE_S)[1] == []
        assert not mounted(places[0])
        assert name not in [file.name for file in places[1].iterdir()]


def test_an_error_ends_everything_too_and_signals_are_as_before(places: tuple[Path, Path]) -> None:
    it = run(places, "error")
    assert it.wait(PATIENCE_S) == 1
    assert list(places[1].iterdir()) == []
    before = [signal.getsignal(number) for number in SIGNALS]

    def interrupted() -> None:
        with leaving_nothing(*places):
            assert os.environ[MARK] in [file.name for file in places[1].iterdir()]
            os.kill(os.getpid(), signal.SIGTERM)
            until(lambda: False, "the signal is taken")

    with pytest.raises(Interrupted, match="SIGTERM"):
        interrupted()
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert MARK not in os.environ


def test_a_number_that_another_process_has_now_is_no_run_that_lives(places: tuple[Path, Path]) -> None:
    places[1].mkdir()
    with suppress(psutil.Error):
        reused = places[1] / f"{os.getpid()}-{psutil.Process().create_time() - 1000:.2f}"
        reused.write_text(json.dumps(str(places[0])))
        assert sweep_dead(places[1]) == [reused.name]


def test_a_disk_is_not_swept_for_a_directory_with_a_similar_name(tmp_path: Path) -> None:
    other = FullDisk(tmp_path / "run-2" / "disk")
    (tmp_path / "run").mkdir()
    with leaving_nothing(tmp_path / "run", tmp_path / "runs"):
        pass
    assert mounted(tmp_path / "run-2") is other.mounted
    other.close()


# Load ----------------------------------------------------------------------------------------------------------------

S = 1_000_000
SAMPLES = [Sample(n * S, waited, own, total) for n, (waited, own, total) in enumerate(
    [(0.0, 0.0, 0.0), (0.5, 1.0, 1.0), (1.5, 2.0, 3.0), (2.5, 2.5, 5.0)]
)]  # fmt: skip


@pytest.mark.parametrize(
    ("from_s", "until_s", "expected"),
    [
        (0.0, 1.0, Load(0.75, 1.0, 0.5)),
        (0.2, 0.4, Load(0.5, 1.0, 0.0)),
        (1.5, 2.5, Load(1.0, 0.75, 1.25)),
        (2.5, 99.0, Load(1.0, 0.5, 1.5)),
        (-5.0, 0.5, Load(0.5, 1.0, 0.0)),
        (3.5, 4.0, None),
    ],
)
def test_load_is_that_of_the_samples_around(from_s: float, until_s: float, expected: Load | None) -> None:
    assert between(SAMPLES, int(from_s * S), int(until_s * S)) == expected


def test_without_samples_nothing_is_known_of_the_load() -> None:
    assert between([], 0, S) is None
    assert between(SAMPLES[:1], 0, S) is None
    assert str(Load(0.5, 1.25, 0.04)) == "CPU pressure 50%, 1.2 cores ours, 0.0 others'"


def test_a_child_that_has_ended_still_counts_as_ours() -> None:
    meter = Meter()
    busy = """
import sys, time
sys.stdin.readline()
began = time.process_time()
while time.process_time() < began + 0.3: pass
print(flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    before = meter.take()
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    child.stdout.readline()
    while_it_lives = meter.take()
    child.communicate()
    after = meter.take()
    assert while_it_lives.own_s - before.own_s >= 0.2
    assert after.own_s >= while_it_lives.own_s
    assert after.all_s > before.all_s
