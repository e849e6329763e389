"""Starts and ends the process that writes a foreign topic (`writing.py`)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from tests.harness.staging import wait

RowKind = Literal["events", "numbered"]
READY_S = 60.0
END_S = 60.0


class TopicWriter:
    """Writes from its creation until `stop`.

    Args:
        rows: which (`writing.py`). rate: how many a second. app: the same rows go to its source s0, too.

    Raises:
        BenchError: it has ended, or does not begin.
    """

    def __init__(self, stage: Stage, topic: str, rows: RowKind, rate: int, app: str = "-") -> None:
        self._name = f"{topic}-writer"
        self._out = stage.work / f"{topic}-written"
        arguments = [stage.log.bootstrap, topic, rows, app, str(rate), str(self._out)]
        self._process = stage.module(self._name, "benchmarks.ingress.writing", *arguments)
        wait(self._out.exists, READY_S, f"nothing is written into {topic}; see {self._name}.log", self.check)

    def check(self) -> None:
        """Raises BenchError: it has ended."""
        if self._process.poll() is not None:
            raise BenchError(f"{self._name} ended with code {self._process.returncode}; see {self._name}.log")

    def stop(self) -> int:
        """Returns how many rows lie in the topic. Raises BenchError: it failed."""
        self.check()
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait(END_S):
            raise BenchError(f"{self._name} ended with code {self._process.returncode}; see {self._name}.log")
        return int(Path(self._out).read_text())
