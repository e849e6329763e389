"""What a soak runs on: a broker, an app that `borealis up` started as anybody would, publishers, and kills."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.supervision import supervisor_of
from borealis_py.kafka.broker import free_port
from tests.harness import feeders
from tests.harness.feeders import Feeding
from tests.harness.network import SOURCES
from tests.harness.poison import WHATS, PoisonPlan
from tests.harness.processes import ROOT, Process, inheriting, spawn
from tests.harness.tidy import MARK

APP = "soak"
APP_FILE = "from tests.harness.app import drill_app\n\napp = drill_app('soak', True, '3s')\n"
CONFIG = "timing:\n  slack: 1500ms\n"
HOSTS = ("spark", "process")
"""Where replicas run: as Spark tasks, or in processes without Spark."""
POISON_EVERY = 1_000
"""Rows of a source between two that nobody can use, each kind in turn."""
POISON_ROWS = 3_600_000_000 * 24 // feeders.PERIOD_US
"""For a day."""
COMMAND_S = 400.0


class CommandFailed(AssertionError):
    """A command did not do what it was to."""


@dataclass
class Site:
    """Directory, broker address and processes of one soak."""

    directory: Path
    host: str
    port: int = field(default_factory=free_port)
    feeders: dict[str, Process] = field(default_factory=dict)
    started: int = 0
    start_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def poison(self) -> Path:
        """Which rows are replaced by what nobody can use."""
        return self.directory / "poison.jsonl"

    @property
    def processes(self) -> ReplicaProcesses:
        return ReplicaProcesses(self.directory / "data", APP)

    @property
    def supervisor(self) -> psutil.Process | None:
        return supervisor_of(self.processes.directory)

    def borealis(self, *arguments: str, within_s: float = COMMAND_S) -> str:
        """Run a command; its standard output. Raises CommandFailed with what it said."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "BOREALIS_CONFIG": str(self.directory / "borealis.yaml"),
            "BOREALIS_DATA_DIR": str(self.directory / "data"),
        }
        command = [sys.executable, "-m", "borealis_py.cli.main", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=within_s, check=False
        )
        if done.returncode:
            raise CommandFailed(f"borealis {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
        return done.stdout

    def begin(self) -> None:
        """Broker, app, publishers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "borealis.yaml").write_text(CONFIG)
        (self.directory / "app.py").write_text(APP_FILE)
        plan = PoisonPlan(self.poison)
        for source in SOURCES:
            for i, n in enumerate(range(POISON_EVERY, POISON_ROWS, POISON_EVERY)):
                plan.add(source, n, [WHATS[i % len(WHATS)]])
        self.borealis("broker", "up", "--port", str(self.port))
        self.up()
        for source in SOURCES:
            self.feed(source)

    def up(self) -> None:
        self.borealis("up", str(self.directory / "app.py"), "--host", self.host)

    def feed(self, source: str, take_over: bool = False) -> None:
        """A publisher of one source, in a process of its own."""
        self.started += 1
        feeding = Feeding(APP, self.start_us, self.directory / "acks.jsonl", self.poison)
        arguments = feeding.publish(self.bootstrap, [source], take_over)
        self.feeders[source] = spawn(feeders.MODULE, arguments, self.directory / f"{source}-{self.started}.log")

    def status(self) -> dict[str, Any]:
        """As `borealis status --json` has it."""
        found: dict[str, Any] = json.loads(self.borealis("status", "--json", "--app", APP))
        return found

    def ready(self, name: ProcessName, pid: int) -> bool:
        """Whether the process of that name is another than this one and all its replicas have caught up."""
        process = self.processes.running().get(name)
        note = self.processes.directory / f"{name.stem}.ready"
        return process is not None and process.pid != pid and note.exists()

    def end(self) -> None:
        """Publishers say END; the rest goes on."""
        for feeder in self.feeders.values():
            feeder.may_end = True
            feeder.popen.terminate()
        for feeder in self.feeders.values():
            feeder.popen.wait(120)

    def close(self) -> None:
        """Whatever runs, ends."""
        for feeder in self.feeders.values():
            feeder.kill()
        for arguments in (("down", "--app", APP), ("broker", "down")):
            with suppress(CommandFailed, subprocess.TimeoutExpired):
                self.borealis(*arguments)

    def left(self) -> list[str]:
        """Processes of this soak that run although everything was stopped."""
        found = []
        for process in inheriting(MARK, os.environ[MARK]):
            with suppress(psutil.Error):
                found.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
        return found


def kill(site: Site, dice: random.Random) -> tuple[str, ProcessName | None, int]:
    """kill -9 of something. Returns what it was, the replica process if it was one, and the pid."""
    kind = dice.choices(("replica", "rest", "supervisor", "publisher"), (6, 2, 1, 1))[0]
    running = site.processes.running()
    if kind == "supervisor":
        supervisor = site.supervisor
        assert supervisor is not None, "no supervisor runs"
        supervisor.kill()
        supervisor.wait(10)
        return kind, None, supervisor.pid
    if kind == "publisher":
        source = dice.choice(sorted(site.feeders))
        feeder = site.feeders[source]
        feeder.kill()
        site.feed(source, take_over=True)
        return f"publisher {source}", None, feeder.popen.pid
    name = dice.choice(sorted(running))
    process = running[name]
    if kind == "rest":  # with all that is below it, as the out-of-memory killer may
        for child in process.children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
    process.kill()
    return f"{name}", name, process.pid
