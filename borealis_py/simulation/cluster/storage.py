"""Who redoes the buckets of simulated replicas: a Spark that may hang; and their kernels' engine, which may fail."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from borealis_py.log.base import LogError, Wake
from borealis_py.node.peers import Peers
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoPlace, RedoResult
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.latency import Delay, between
from borealis_py.simulation.log.client import MemoryClient
from reconcile.redo_client import RedoRunner
from reconcile.redo_job import describe, failed, run_job
from reconcile.replay import RangeGone, ReplayError
from reconcile.replay_context import OpenReplayContext

_JOB: Delay = between(100_000, 900_000)
_SLOW: Delay = between(1_500_000, 6_000_000)
_LOCAL: Delay = between(20_000, 300_000)
_PEER: Delay = between(10_000, 200_000)


@dataclass
class Spark:
    """Runs one replica index's redo jobs, subject to faults. `gone`: its JVM has died."""

    modes: list[str] = field(default_factory=list)
    gone: int = 0

    @property
    def mode(self) -> str:
        return "gone" if self.gone else self.modes[-1] if self.modes else "ok"


@dataclass
class FlakyEngine:
    """The engine of a replica's kernel. `shares`: fractions of steps that fail, one for each active fault."""

    shares: list[float] = field(default_factory=list)

    def fails(self, rng: random.Random) -> bool:
        return bool(self.shares) and rng.random() < max(self.shares)


def spark_takes_us(mode: str, rng: random.Random) -> int:
    """How long a job takes on a Spark in this mode, apart from its rows."""
    return 5_000 if mode == "gone" else (_SLOW if mode in ("slow", "late") else _JOB)(rng)


class SimRedos:
    """Implements `reconcile.redo_client.RedoRouter`: the correct result after a while, or what `spark` makes of it.

    Modes: "ok"; "slow" (past the deadline now and then); "late" (slow, and answers even when cancelled, like an answer
    that was already in flight); "fail"; "memory" (fails after a while); "hang"; "gone" (fails at once, running jobs
    included). Local jobs only fail, in mode "fail". Jobs with a peer adopt its checkpoint.

    Attributes:
        remote: by which jobs go to Spark as in production; None: this does what `spark` makes of them.
    """

    def __init__(
        self, opened: OpenReplayContext, client: MemoryClient, spark: Spark, rng: random.Random, on_spark: bool = True
    ) -> None:
        self.on_spark = on_spark
        self.disagreements: list[str] = []
        self.peers: Peers | None = None
        self.remote: RedoRunner | None = None
        self.adopted = 0
        self.wake: Wake = asleep
        self.rows_us: Callable[[int], int] = _at_once
        self._opened = opened
        self._client = client
        self._spark = spark
        self._rng = rng
        self._scheduler: Scheduler = client.log.scheduler
        self._expected: set[int] = set()
        self._ready: list[RedoResult] = []

    def submit_job(self, job: RedoJob, place: RedoPlace) -> None:
        if place is RedoPlace.SPARK and self.remote is not None:
            self.remote.submit_job(job)
            return
        mode, local = self._spark.mode, place is RedoPlace.LOG
        self._expected.add(job.id)
        if place is RedoPlace.PEER:
            self._scheduler.after(_PEER(self._rng), lambda: self._adopt(job))
            return
        if mode == "hang" and not local:
            return
        after = _LOCAL(self._rng) if local else spark_takes_us(mode, self._rng)
        after += self.rows_us(job.rows) if local or mode != "gone" else 0
        fails = (mode == "fail" and self._rng.random() < 0.5) if local else mode in ("fail", "gone", "memory")
        stubborn = mode == "late" and not local
        self._scheduler.after(after, lambda: self._answer(job, local, fails, stubborn, after / 1e6))

    def poll_results(self) -> list[RedoResult]:
        ready, self._ready = self._ready, []
        return ready if self.remote is None else [*ready, *self.remote.poll_results()]

    def cancel_job(self, job_id: int) -> None:
        self._expected.discard(job_id)
        if self.remote is not None:
            self.remote.cancel_job(job_id)

    def close(self) -> None:
        self._expected.clear()
        self._ready.clear()

    def _adopt(self, job: RedoJob) -> None:
        if job.id not in self._expected or self.peers is None or not self._client.alive:
            return
        self._expected.discard(job.id)
        result = self.peers.adopt(job, self._client.lookup())
        if isinstance(result, RedoDone):
            self.adopted += 1
        self._ready.append(result)
        self.wake()

    def _answer(self, job: RedoJob, local: bool, fails: bool, stubborn: bool, seconds: float) -> None:
        if job.id not in self._expected and not stubborn:
            return
        self._expected.discard(job.id)
        fails = fails or (self._spark.mode == "gone" and not local)
        self._ready.append(RedoFailed(job.id, "simulated failure") if fails else self._run(job, local, seconds))
        self.wake()

    def _run(self, job: RedoJob, local: bool, seconds: float) -> RedoResult:
        try:
            state, outputs = run_job(job, self._opened)
        except RangeGone as exc:
            return failed(job.id, exc)
        except ReplayError as exc:
            self.disagreements.append(describe(exc))
            return failed(job.id, exc)
        except LogError as exc:
            return failed(job.id, exc)
        return RedoDone(job.id, state, outputs, "inline" if local else "spark", seconds)


def asleep() -> None:
    pass


def _at_once(rows: int) -> int:
    return 0
