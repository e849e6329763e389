"""Starts the processes that feed an app's sources (`feeding.py`)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping

import msgspec

from benchmarks.load.feeding import SOURCES, Fed, FeedPlan
from borealis_py.api import Boundary
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.log import topics

READY_S = 60.0
LOOK_S = 0.1


class Feeders:
    """A feeding process for each source of an app. They end with the stage."""

    def __init__(self, stage: Stage, app: str, boundary: Boundary = "data") -> None:
        self._stage = stage
        self._app = app
        self._outs = [stage.work / f"{app}-s{i}.json" for i in range(SOURCES)]
        self.processes = {
            f"{app}-s{i}": stage.module(
                f"{app}-s{i}",
                "benchmarks.load.feeding",
                stage.log.bootstrap,
                app,
                str(i),
                boundary,
                str(out),
                stdin=subprocess.PIPE,
            )
            for i, out in enumerate(self._outs)
        }

    def wait_ready(self) -> None:
        """Wait until each owns its source. Raises BenchError."""
        wait_owned(self._stage, self._app, self.processes)

    def begin(self, plan: FeedPlan) -> None:
        """Make all of them publish. Raises BenchError: one of them has ended."""
        for name, process in self.processes.items():
            assert process.stdin is not None
            try:
                with process.stdin as to:
                    to.write(msgspec.json.encode(plan) + b"\n")
            except BrokenPipeError as exc:
                raise BenchError(f"the publisher has ended; see {name}.log") from exc

    def fed(self) -> list[Fed]:
        """Their reports at the end."""
        return [msgspec.json.decode(out.read_bytes(), type=Fed) for out in self._outs]


def wait_owned(stage: Stage, app: str, publishers: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Wait until the sources s0, s1 and s2 of an app have an owner.

    Args:
        publishers: processes, by the name of their log file.

    Raises:
        BenchError: one of them has ended, or it takes too long.
    """
    deadline = time.monotonic() + READY_S
    lookup = stage.log.lookup()
    try:
        while not all(lookup.bounds(topics.source(app, f"s{i}"))[1] for i in range(SOURCES)):
            ended = [name for name, process in publishers.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise BenchError(f"no publisher owns its source; see {(ended or list(publishers))[0]}.log")
            time.sleep(LOOK_S)
    finally:
        lookup.close()
