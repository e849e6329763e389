"""Whether a task of a real Spark runs or waits, told at once also when it failed and runs again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings
from borealis_py.runtime.spark.slot_plan import waiting
from tests.harness.waiting import until
from tests.spark.settings import SETTINGS

pytestmark = pytest.mark.spark
NO_HEARTBEATS = (("spark.executor.heartbeatInterval", "3600s"), ("spark.network.timeout", "7200s"))
"""Each heartbeat has Spark write down what it knows."""


@dataclass(frozen=True)
class FailsOnce:
    """A task that fails, and then runs until the file `end` is there."""

    directory: Path

    def __call__(self, items: Iterator[int]) -> Iterator[int]:
        if not (self.directory / "failed").exists():
            (self.directory / "failed").touch()
            raise RuntimeError("the first time")
        (self.directory / "again").touch()
        until((self.directory / "end").exists, "the test lets the task end")
        return items


def test_a_task_that_failed_and_runs_again_waits_no_longer(tmp_path: Path) -> None:
    settings = SparkSettings("local[1,4]", 1, extra=(*SETTINGS.extra, *NO_HEARTBEATS))
    session = ReplicaSession.start_spark("waiting", settings, tmp_path / "spark.log")

    def run() -> None:
        session.context.setJobGroup("group", "fails once", False)
        session.context.parallelize([1], 1).mapPartitions(FailsOnce(tmp_path)).collect()

    job = threading.Thread(target=run, daemon=True)
    job.start()
    try:
        until((tmp_path / "again").exists, "the task runs again")
        until(lambda: not waiting(session.context, "group"), "Spark says that it runs")
    finally:
        (tmp_path / "end").touch()
        job.join()
        session.stop()
