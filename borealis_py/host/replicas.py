"""The replica processes of one app on this machine: start, find again, stop. One process a replica index.

A process is known by the pid file beside its log; a pid alone proves nothing, so the file has its start time too. Knows
nothing of brokers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

SAME_START_S = 0.05
_TAIL_BYTES = 65_536

KAFKA_PROPERTIES = "BOREALIS_KAFKA_PROPERTIES"
"""Environment variable of a replica process: properties for Kafka's clients as a JSON object."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a process ended: `forced` when it had to be killed."""

    replica: int
    pid: int
    forced: bool


class ReplicaProcesses:
    """Those of `app` below `data_dir`: `<data_dir>/<app>/replica-<k>.log` and `.pid`."""

    def __init__(self, data_dir: Path, app: str) -> None:
        self.app = app
        self.directory = data_dir / app
        self._started: dict[int, subprocess.Popen[bytes]] = {}

    def log_file(self, replica: int) -> Path:
        """What the process writes to standard output and error."""
        return self.directory / f"replica-{replica}.log"

    def running(self) -> dict[int, psutil.Process]:
        """By replica index."""
        found = {k: self._process(k) for k in self._noted()}
        return {k: process for k, process in sorted(found.items()) if process is not None}

    def start(self, replica: int, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
        """Start the process of one index, in a session of its own: it outlives this one. Returns its pid.

        Args:
            arguments: of `borealis_py.host.process`.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_file(replica).open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "borealis_py.host.process", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        self._started[replica] = process
        with suppress(psutil.NoSuchProcess):  # ended already: whoever waits for it will say why
            note = json.dumps({"pid": process.pid, "created": psutil.Process(process.pid).create_time()})
            partial = self._pid_file(replica).with_suffix(".partial")
            partial.write_text(note)
            partial.replace(self._pid_file(replica))
        return process.pid

    def ended(self, replica: int) -> int | None:
        """The exit code of a process that `start` of this object started; None while it runs."""
        process = self._started.get(replica)
        return None if process is None else process.poll()

    def release(self) -> None:
        """The started processes outlive this object: no warning about that when it goes."""
        for process in self._started.values():
            if process.returncode is None:
                process.returncode = 0
        self._started.clear()

    def stop(self, replicas: Sequence[int] | None = None, timeout_s: float = 15.0) -> list[Stopped]:
        """Ask the processes to end, and kill those that do not within `timeout_s`.

        Args:
            replicas: indexes; None: all.
        """
        chosen = {k: p for k, p in self.running().items() if replicas is None or k in replicas}
        for process in chosen.values():
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(list(chosen.values()), timeout=timeout_s)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                _kill_tree(process)
        psutil.wait_procs(alive, timeout=10.0)
        forced = {process.pid for process in alive}
        for k in chosen:
            self._pid_file(k).unlink(missing_ok=True)
            if k in self._started:
                self._started.pop(k).wait()
        return [Stopped(k, process.pid, process.pid in forced) for k, process in chosen.items()]

    def log_tail(self, replica: int, lines: int = 12) -> str:
        """The end of a process's output, its JSON lines made readable."""
        path = self.log_file(replica)
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
                said = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(readable(line) for line in said[-lines:])

    def _pid_file(self, replica: int) -> Path:
        return self.directory / f"replica-{replica}.pid"

    def _noted(self) -> list[int]:
        indexes = (p.stem.removeprefix("replica-") for p in self.directory.glob("replica-*.pid"))
        return sorted(int(k) for k in indexes if k.isdigit())

    def _process(self, replica: int) -> psutil.Process | None:
        try:
            note = json.loads(self._pid_file(replica).read_text())
            process = psutil.Process(int(note["pid"]))
            same = abs(process.create_time() - float(note["created"])) < SAME_START_S
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except (OSError, ValueError, TypeError, KeyError, psutil.Error):
            return None


def apps_here(data_dir: Path) -> list[str]:
    """The apps that have a replica process running below this directory."""
    names = sorted({path.parent.name for path in data_dir.glob("*/replica-*.pid")})
    return [name for name in names if ReplicaProcesses(data_dir, name).running()]


def readable(line: str) -> str:
    """A log line as a person reads it; others as they are."""
    try:
        entry = json.loads(line)
        event = entry.pop("event")
        said = [str(entry.pop("level", "")), str(event)]
    except (ValueError, TypeError, AttributeError, KeyError):
        return line
    for noise in ("timestamp", "logger"):
        entry.pop(noise, None)
    trace = entry.pop("exception", None)
    said += [f"{key}={value}" for key, value in entry.items()]
    return " ".join(part for part in said if part) + (f"\n{trace}" if trace else "")


def _kill_tree(process: psutil.Process) -> None:
    """Spark's JVM and workers too: killed, the process cannot end them."""
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.kill()
