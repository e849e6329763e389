"""Processes that a drill starts: their output, their end, and what a subscriber wrote down."""

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

ROOT = Path(__file__).parents[2]


@dataclass
class Process:
    """One that we started, and its output. `may_end`: it is not an error of its own if it does."""

    popen: subprocess.Popen[bytes]
    output: Path
    may_end: bool = False

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """kill -9, children too."""
        self.may_end = True
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.popen.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        self.popen.kill()
        self.popen.wait()

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")


class Watcher:
    """A subscriber process and the file it writes. `partitions`: how many the query has."""

    def __init__(self, process: Process, history: Path, partitions: int = 1) -> None:
        self.process, self.history = process, history
        self.ended: set[str] = set()
        self._stable = [0] * partitions
        self._corrected = [0] * partitions
        self.live_until = [0] * partitions
        self.tentative: dict[int, tuple[str, ...]] = {}
        """What each tentative bucket lacked."""
        self._at = 0

    @property
    def stable_until(self) -> int:
        """All partitions' buckets below it were shown as stable."""
        return min(self._stable)

    @property
    def corrected_until(self) -> int:
        """Rows up to this bucket came of every partition."""
        return min(self._corrected)

    def look(self) -> None:
        """Read what it wrote since the last look."""
        if not self.history.exists():
            return
        with self.history.open("rb") as file:
            file.seek(self._at)
            whole, _, _ = file.read().rpartition(b"\n")
        self._at += len(whole) + bool(whole)
        for line in map(json.loads, whole.splitlines()):
            if "ended" in line:
                self.ended.add(line["ended"])
                continue
            saw = line["saw"]
            of = saw["partition"]
            if saw["kind"] == "TENTATIVE":
                self.tentative[saw["bucket"]] = tuple(saw["missing_sources"])
                self.live_until[of] = max(self.live_until[of], saw["end"])
            elif saw["kind"] in ("STABLE", "BOUNDARY"):
                self._stable[of] = max(self._stable[of], saw["end"])
                self.live_until[of] = max(self.live_until[of], saw["end"])
            elif saw["kind"] == "ROW":
                self._corrected[of] = max(self._corrected[of], saw["bucket"])


def spawn(module: str, arguments: Sequence[str], output: Path, environment: Mapping[str, str] | None = None) -> Process:
    """`python -m module arguments`, in a session of its own; what it says goes into `output`.

    `environment`: added to that of this process.
    """
    with output.open("wb") as file:
        popen = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        )
    return Process(popen, output)
