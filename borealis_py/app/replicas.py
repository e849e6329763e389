"""The processes of one app on this machine, of replicas and of ingresses: start, find, stop.

Each replica index has one process, which runs that replica of every node and query: replicas of one index may fail
together, since every other index has all of them. Containers may run nodes separately. An ingress process runs the
ingresses of all foreign topics. A process is identified by the pid file next to its log; a pid alone proves nothing, so
the file also holds its start time (`app/supervisor/run_notes.py`). A supervisor may keep processes running. Knows no
broker.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from borealis_py.app import supervision
from borealis_py.app.process_spec import ProcessSpec, ProcessSpecError
from borealis_py.app.supervision import Fate, ProcessStart
from borealis_py.app.supervisor import run_notes
from borealis_py.app.supervisor.supervised_process import say_unseen
from borealis_py.config import logfile
from borealis_py.kafka.process_end import KILL_S, await_end, is_over
from borealis_py.kafka.process_start import uninterrupted
from borealis_py.query.ingress_spec import INGRESSES
from borealis_py.query.names import base_name
from borealis_py.query.spec import AppSpec

SAME_START_S = 0.05
STOP_S = 40.0
"""A Spark driver gives its tasks, its context and its JVM 23 s to end."""
COMMAND = (sys.executable, "-m", "borealis_py.runtime.process")
_STEM = re.compile(r"replica-(\d+)|ingress-(\d+)|([A-Za-z][A-Za-z0-9_-]*)\.r(\d+)")
_TAIL_BYTES = 65_536


@dataclass(frozen=True, slots=True, order=True)
class ProcessName:
    """Identifies a process of an app: replica `replica` of all nodes and queries (`node` empty), or of one of them; or,
    with `ingress`, the ingress of that index, which runs no replica."""

    replica: int
    node: str = ""
    ingress: bool = False

    @classmethod
    def parse(cls, stem: str) -> ProcessName | None:
        """Parse a file name without its suffix; None: it is not one of our processes."""
        found = _STEM.fullmatch(stem)
        return None if found is None else cls(int(found[1] or found[2] or found[4]), found[3] or "", bool(found[2]))

    @property
    def stem(self) -> str:
        """File name stem: `replica-0`, `ingress-0`, `cleaned.r0` (a node's name has no dot)."""
        if self.ingress:
            return f"ingress-{self.replica}"
        return f"{self.node}.r{self.replica}" if self.node else f"replica-{self.replica}"

    def arguments(self, app: str) -> list[str]:
        """The command line of the process, so that people find it: what else it is told is its `ProcessSpec`."""
        if self.ingress:
            return ["--app", app, "--ingress", str(self.replica)]
        return ["--app", app, "--replica", str(self.replica), *(["--node", self.node] if self.node else [])]

    def __str__(self) -> str:
        if self.ingress:
            return f"ingress {self.replica}"
        return f"replica {self.replica}" + (f" of node {self.node}" if self.node else "")


def process_names(spec: AppSpec) -> list[ProcessName]:
    """Every process that an app needs: one per replica index, and ingresses if it reads foreign topics."""
    replicas = map(ProcessName, range(max((node.replicas for node in spec.all_nodes.values()), default=0)))
    ingresses = range(INGRESSES if spec.ingresses else 0)
    return [*replicas, *(ProcessName(index, ingress=True) for index in ingresses)]


def process_of(names: Container[ProcessName], node: str, replica: int) -> ProcessName:
    """The process that runs a replica of a node or query: one for this node alone if there is one."""
    apart = ProcessName(replica, base_name(node))  # one process runs all its partitions
    return apart if apart in names else ProcessName(replica)


@dataclass(frozen=True, slots=True)
class Stopped:
    """A process that was stopped: which one (`name`), and the `pid` that it had. `forced`: it had to be killed."""

    name: ProcessName
    pid: int
    forced: bool


def spec_of(process: psutil.Process) -> ProcessSpec | None:
    """What a running replica process was told; None: it cannot be told."""
    try:
        return ProcessSpec.from_environment(process.environ())
    except (psutil.Error, ProcessSpecError):
        return None


class ReplicaProcesses:
    """The processes of `app`; each has a log and a pid file: `<data_dir>/<app>/replica-<k>.log`, `<node>.r<k>.log`."""

    def __init__(self, data_dir: Path, app: str) -> None:
        self.app = app
        self.directory = data_dir / app
        self._started: dict[ProcessName, subprocess.Popen[bytes]] = {}

    def log_file(self, name: ProcessName) -> Path:
        """The file with the process's standard output and error."""
        return self.directory / f"{name.stem}.log"

    def running(self) -> dict[ProcessName, psutil.Process]:
        """The running processes, by name."""
        found = {name: self._process(name) for name in self._noted()}
        return {name: process for name, process in found.items() if process is not None}

    def ready(self) -> set[ProcessName]:
        """Those that run replicas, and have noted that all of them are READY."""
        return {name for name in self.running() if not name.ingress and self._ready_since(name) is not None}

    def hosts(self) -> dict[ProcessName, str]:
        """Where the replicas of each running process run (`ProcessSpec.host`), as far as it can be told."""
        specs = {name: spec_of(process) for name, process in self.running().items()}
        return {name: spec.host for name, spec in specs.items() if spec is not None}

    def start_process(self, name: ProcessName, spec: ProcessSpec, take_over: bool = False) -> int:
        """Start a process in its own session: it outlives this one, and nothing restarts it. Returns its pid."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path, run = str(self.directory / name.stem), os.urandom(4).hex()
        before = run_notes.read(str(self._pid_file(name)))
        say_unseen(path, before)
        after = ["--after", before["run"]] if "run" in before else []
        output = logfile.opened(str(self.log_file(name)))
        with uninterrupted():
            try:
                process = subprocess.Popen(
                    [*COMMAND, *self._arguments(name), *first_arguments(take_over), "--run", run, *after],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env={**os.environ, **spec.environment(), run_notes.RUN: run},
                )
            finally:
                os.close(output)
            self._started[name] = process
            with suppress(ProcessLookupError, psutil.NoSuchProcess):  # ended already: whoever waits for it reports why
                run_notes.write(str(self._pid_file(name)), {**_known_by(process.pid), "run": run})
        return process.pid

    def _arguments(self, name: ProcessName) -> list[str]:
        return [*name.arguments(self.app), "--log", str(self.log_file(name))]

    def keep(self, specs: Mapping[ProcessName, ProcessSpec], take_over: bool = False) -> None:
        """Have a supervisor start what is not running and restart what dies. It replaces a running supervisor.

        Args:
            take_over: at the first start of each.

        Raises:
            LaunchError: the supervisor did not start.
        """
        supervision.stop_supervisor(self.directory)
        starts = [
            ProcessStart(name.stem, self._arguments(name), first_arguments(take_over), spec.environment())
            for name, spec in specs.items()
        ]
        supervision.start_supervisor(self.directory, COMMAND, starts)

    @property
    def kept(self) -> bool:
        """Whether a supervisor runs."""
        return supervision.supervisor_of(self.directory) is not None

    def release_supervisor(self) -> bool:
        """End the supervisor but not the processes. Returns whether one was running."""
        return supervision.stop_supervisor(self.directory)

    def fates(self) -> dict[ProcessName, Fate]:
        """The last end of each process that has ended since `up`, by name."""
        found = {name: supervision.fate_of(self._pid_file(name)) for name in self._noted()}
        return {name: fate for name, fate in found.items() if fate is not None}

    def told(self) -> list[dict[str, Any]]:
        """Each process as JSON values, for `status --json`. Times in us."""
        running, fates, out = self.running(), self.fates(), []
        for name, pid in self.pids().items():
            fate = fates.get(name)
            ended = None if fate is None else {"how": fate.how, "at_wall_us": fate.at_wall_us, "final": fate.final}
            out.append(
                {
                    "process": name.stem,
                    "pid": pid,
                    "running": name in running,
                    "restarts": 0 if fate is None else fate.restarts,
                    "last_end": ended,
                    "next_start_wall_us": None if fate is None else fate.next_wall_us,
                }
            )
        return out

    def pids(self) -> dict[ProcessName, int]:
        """The last pid of each process, running or not."""
        found = {name: run_notes.read(str(self._pid_file(name))).get("pid") for name in self._noted()}
        return {name: pid for name, pid in found.items() if isinstance(pid, int)}

    def ended(self, name: ProcessName) -> int | None:
        """Exit code of a process started by this object; None while it runs."""
        process = self._started.get(name)
        return None if process is None else process.poll()

    def release(self) -> None:
        """Detach the started processes, which outlive this object, so that Python does not warn about them."""
        for process in self._started.values():
            if process.returncode is None:
                process.returncode = 0
        self._started.clear()

    def stop(self, names: Sequence[ProcessName] | None = None, timeout_s: float = STOP_S) -> list[Stopped]:
        """Terminate the processes, and kill those still running after `timeout_s`. The supervisor is ended first.

        Args:
            names: which; None: all.
        """
        supervision.stop_supervisor(self.directory)
        chosen = {name: p for name, p in self.running().items() if names is None or name in names}
        for process in chosen.values():
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        alive = await_end(chosen.values(), timeout_s)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                _kill_tree(process)
        await_end(alive, KILL_S)
        forced = {process.pid for process in alive}
        for name in chosen:
            self._pid_file(name).unlink(missing_ok=True)
            if name in self._started:
                self._started.pop(name).wait()
        return [Stopped(name, process.pid, process.pid in forced) for name, process in chosen.items()]

    def log_tail(self, name: ProcessName, lines: int = 12) -> str:
        """The end of a process's output, with JSON lines formatted for reading."""
        path = self.log_file(name)
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
                said = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(readable(line) for line in said[-lines:])

    def _pid_file(self, name: ProcessName) -> Path:
        return self.directory / f"{name.stem}.pid"

    def _noted(self) -> list[ProcessName]:
        names = (ProcessName.parse(path.stem) for path in self.directory.glob("*.pid"))
        return sorted(name for name in names if name is not None)

    def _ready_since(self, name: ProcessName) -> float | None:
        return run_notes.ready_since(str(self.directory / name.stem), run_notes.read(str(self._pid_file(name))))

    def _process(self, name: ProcessName) -> psutil.Process | None:
        note = run_notes.read(str(self._pid_file(name)))
        try:
            process = psutil.Process(int(note["pid"]))
            started = process.create_time()
            same = run_notes.running(note) if "ticks" in note else abs(started - float(note["created"])) < SAME_START_S
            return process if same and not is_over(process) else None
        except (ValueError, TypeError, KeyError, psutil.Error):
            return None


def first_arguments(take_over: bool) -> list[str]:
    """Arguments of one start alone: a restarted process must not take its index from one that lives elsewhere."""
    return ["--take-over"] if take_over else []


def _known_by(pid: int) -> dict[str, Any]:
    """What a note says to identify a process. Raises ProcessLookupError, psutil.NoSuchProcess."""
    return (
        run_notes.of_process(pid)
        if supervision.available()
        else {"pid": pid, "created": psutil.Process(pid).create_time()}
    )


def apps_here(data_dir: Path) -> list[str]:
    """The apps with a running replica process or supervisor below this directory."""
    found = {
        name: ReplicaProcesses(data_dir, name) for name in sorted({p.parent.name for p in data_dir.glob("*/*.pid")})
    }
    return [name for name, processes in found.items() if processes.running() or processes.kept]


def apps_known_here(data_dir: Path) -> list[str]:
    """The apps of which a process was ever started below this directory, unless its logs were deleted since."""
    notes = (path for kind in ("log", "pid") for path in data_dir.glob(f"*/*.{kind}"))
    return sorted({path.parent.name for path in notes if ProcessName.parse(path.stem) or path.stem == "supervisor"})


def readable(line: str) -> str:
    """A log line formatted for reading; other lines unchanged."""
    try:
        entry = json.loads(line)
        event = entry.pop("event")
        said = [str(entry.pop("level", "")), str(event)]
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return line
    for noise in ("timestamp", "logger"):
        entry.pop(noise, None)
    trace = entry.pop("exception", None)
    said += [f"{key}={value}" for key, value in entry.items()]
    return " ".join(part for part in said if part) + (f"\n{trace}" if trace else "")


def _kill_tree(process: psutil.Process) -> None:
    """Kill a process with Spark's JVM and workers, which it cannot end once it is killed."""
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.kill()
