"""The driver of a simulated replica's redos: production's server, reader and messages, on an executor that may fail."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from borealis_py.log.base import Feed, LogError
from borealis_py.log.clock import Clock
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.storage import Spark, asleep, spark_takes_us
from borealis_py.simulation.log.client import MemoryClient
from reconcile.redo_client import TaskAddress
from reconcile.redo_job import PackedJob, describe, pack_failure, run_on
from reconcile.redo_server import RedoServer, TaskChannel
from reconcile.replay import RangeGone, ReplayError
from reconcile.replay_context import OpenReplayContext

SESSION = "the driver's"
SLOTS = 2
TURN_US = (1_000, 20_000)
WAITS_US = 100_000


@dataclass
class SimExecutor:
    """Implements `reconcile.redo_server.JobExecutor`, subject to the faults of `spark` (see `SimRedos`).

    Attributes:
        rows_us: how long so many rows take. disagreements: why jobs found that the log disagrees with what the replica
            had read. wake: called when a job has finished.
    """

    opened: OpenReplayContext
    spark: Spark
    scheduler: Scheduler
    rng: random.Random
    rows_us: Callable[[int], int]
    disagreements: list[str] = field(default_factory=list)
    wake: Callable[[], object] = asleep
    finished: list[tuple[int, bytes | str]] = field(default_factory=list)
    _stubborn: dict[int, bool] = field(default_factory=dict)
    """Running jobs, and whether each goes on when it is cancelled."""

    def execute(self, handle: int, node: str, packed: bytes) -> None:
        mode = self.spark.mode
        self._stubborn[handle] = mode == "late"
        if mode != "hang":
            rows = 0 if mode == "gone" else msgspec.msgpack.decode(packed, type=PackedJob).rows
            takes_us = spark_takes_us(mode, self.rng) + self.rows_us(rows)
            self.scheduler.after(takes_us, lambda: self._end(handle, mode, packed))

    def take_finished(self) -> list[tuple[int, bytes | str]]:
        found, self.finished = self.finished, []
        return found

    def cancel(self, handle: int) -> None:
        if self._stubborn.get(handle) is False:
            self._finish(handle, "cancelled")

    def _end(self, handle: int, mode: str, packed: bytes) -> None:
        if mode in ("fail", "memory", "gone") or self.spark.mode == "gone":
            self._finish(handle, "simulated failure")
        elif handle in self._stubborn:
            self._finish(handle, self._run(packed))

    def _finish(self, handle: int, end: bytes | str) -> None:
        if self._stubborn.pop(handle, None) is not None:
            self.finished.append((handle, end))
            self.wake()

    def _run(self, packed: bytes) -> bytes:
        try:
            return run_on(self.opened, packed)
        except (LogError, RangeGone) as exc:
            return pack_failure(packed, exc)
        except ReplayError as exc:
            self.disagreements.append(describe(exc))
            return pack_failure(packed, exc)


class SimDriver:
    """The driver of one replica index, in a process that no fault reaches. `requests`, `responses`: its feeds."""

    def __init__(
        self, client: MemoryClient, clock: Clock, executor: SimExecutor, node: str, requests: Feed, responses: Feed
    ) -> None:
        self._rng = executor.rng
        self._scheduler = executor.scheduler
        self._due = False
        self.requests = requests
        self.responses = responses
        channel = TaskChannel(node, requests, responses)
        executor.wake = self.wake
        self._server = RedoServer(client, [channel], SESSION, executor, SLOTS, self.wake, clock)

    def address(self, uid: str) -> TaskAddress:
        """Where a replica's process submits its jobs."""
        return TaskAddress(SESSION, uid, self.requests, self.responses)

    def wake(self) -> None:
        if not self._due:
            self._due = True
            self._scheduler.after(self._rng.randint(*TURN_US), self._turn)

    def _turn(self) -> None:
        self._due = False
        self._server.turn()
        if self._server.waits:
            self._scheduler.after(WAITS_US, self.wake)
