"""One Spark session for all tests of this folder: a process has one, and starting it takes seconds.

Tests that start one themselves are elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings

ROOT = Path(__file__).parents[2]
SETTINGS = SparkSettings(extra=(("spark.executorEnv.PYTHONPATH", str(ROOT)),))
"""Workers also find the tests' own modules."""


@pytest.fixture(scope="package")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSession]:
    """A running session, its workers not yet warm."""
    started = ReplicaSession.start("tests", SETTINGS, tmp_path_factory.mktemp("spark") / "spark.log")
    yield started
    started.stop()


class Bell:
    """A wake function that can be waited for."""

    def __init__(self) -> None:
        self._rung = threading.Semaphore(0)

    def __call__(self) -> None:
        self._rung.release()

    def wait(self, timeout_s: float = 60) -> None:
        assert self._rung.acquire(timeout=timeout_s), "nobody rang"


@pytest.fixture
def bell() -> Bell:
    return Bell()
