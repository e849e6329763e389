"""Whatever ends a run, nothing of it stays behind: processes, mounts. What a run that was killed left, the next sweeps.

All processes of a run inherit a mark in their environment, so they are found whoever their parent is now.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import psutil

from borealis_py.kafka.process_end import is_over
from tests.harness.processes import inheriting

MARK = "BOREALIS_CHAOS_RUN"
RUNS = Path(tempfile.gettempdir()) / "borealis-chaos-runs"
"""A file for each run that has not ended in order: whose it is and where its logs are."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ROUNDS = 5
GONE_S = 10.0


class Interrupted(BaseException):
    """A signal asks the run to end. No Exception: nobody but the run itself is to catch it."""


@contextmanager
def leaving_nothing(directory: Path, runs: Path = RUNS) -> Iterator[None]:
    """While it lasts, a signal raises Interrupted in the main thread; in the end whatever still runs is ended.

    Args:
        directory: of the run; what is mounted below it is unmounted.
    """
    sweep_dead(runs)
    own = psutil.Process()
    name = f"{own.pid}-{own.create_time():.2f}"
    runs.mkdir(parents=True, exist_ok=True)
    (runs / name).write_text(json.dumps(str(directory.resolve())))
    os.environ[MARK] = name
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number in SIGNALS:  # a second one must not leave half of it
            signal.signal(number, signal.SIG_IGN)
        os.environ.pop(MARK, None)
        sweep(name, directory.resolve())
        (runs / name).unlink(missing_ok=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(signal.Signals(number).name)


def sweep_dead(runs: Path = RUNS) -> list[str]:
    """End what runs left whose own process is gone. Returns their names."""
    dead = []
    for file in sorted(runs.glob("*-*")) if runs.exists() else ():
        pid, _, created = file.name.partition("-")
        if _lives(int(pid), float(created)):
            continue
        sweep(file.name, Path(json.loads(file.read_text())))
        file.unlink(missing_ok=True)
        dead.append(file.name)
    return dead


def sweep(name: str, directory: Path) -> None:
    """kill -9 every process with that mark, and unmount everything below the directory."""
    for _ in range(ROUNDS):  # one may have started another meanwhile
        marked = inheriting(MARK, name)
        if not marked:
            break
        for process in marked:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(marked, GONE_S)
    for mounted in reversed(_mounts(directory)):
        subprocess.run(["umount", "-l", str(mounted)], capture_output=True, check=False)


def _lives(pid: int, created: float) -> bool:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return bool(abs(process.create_time() - created) < 1.0 and not is_over(process))
    return False


def _mounts(directory: Path) -> list[Path]:
    """Below it, in the order in which they were mounted."""
    table = Path("/proc/self/mounts")
    lines = table.read_text().splitlines() if table.exists() else []
    places = [Path(line.split()[1].encode().decode("unicode_escape")) for line in lines]
    return [place for place in places if place.is_relative_to(directory)]
