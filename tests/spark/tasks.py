"""Tasks that go wrong, for Spark's workers to import."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


def failing(work: bytes, job: bytes) -> bytes:
    raise ValueError("this task always fails")


def dying(work: bytes, job: bytes) -> bytes:
    os._exit(3)


@dataclass(frozen=True)
class Meeting:
    """Tasks that go on when `count` of them run at once, which takes as many workers.

    Each gives the process that it runs in, and whether that has a query's kernel open already.
    """

    directory: Path
    count: int = 2

    def __call__(self, number: int, items: Iterator[int]) -> Iterator[tuple[int, bool]]:
        from reconcile import redo_job

        (self.directory / str(number)).touch()
        _await_files(self.directory, self.count, "the tasks never ran at once")
        yield os.getpid(), bool(redo_job._opened)


def _await_files(directory: Path, count: int, otherwise: str) -> None:
    deadline = time.monotonic() + 60
    while len(list(directory.iterdir())) < count:
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


class Hanging:
    """Says in `directory` that it runs, then does nothing for a long time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, work: bytes, job: bytes) -> bytes:
        (self.directory / str(os.getpid())).touch()
        time.sleep(600)
        return b""

    def await_running(self, count: int) -> None:
        _await_files(self.directory, count, "the task never started")
