"""Tasks that go wrong, for Spark's workers to import."""

from __future__ import annotations

import os
import time
from pathlib import Path


def failing(work: bytes, job: bytes) -> bytes:
    raise ValueError("this task always fails")


def dying(work: bytes, job: bytes) -> bytes:
    os._exit(3)


class Hanging:
    """Says in `directory` that it runs, then does nothing for a long time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, work: bytes, job: bytes) -> bytes:
        (self.directory / str(os.getpid())).touch()
        time.sleep(600)
        return b""

    def await_running(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(list(self.directory.iterdir())) < count:
            assert time.monotonic() < deadline, "the task never started"
            time.sleep(0.02)
