"""What outlives a simulated replica, and who redoes its buckets: checkpoints on a disk, and a Spark that may hang."""

from __future__ import annotations

import random
from collections.abc import Callable

from borealis_py.log.base import LogError, Wake
from borealis_py.log.codec import RowCodec
from borealis_py.node.checkpoints import Loaded
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoResult
from borealis_py.protocol.turn import SaveCheckpoint
from borealis_py.sim.clock import Scheduler
from borealis_py.sim.delays import Delay, between
from reconcile.replay import ReplayError
from reconcile.task import describe, run_job
from reconcile.work import Opened
from sunion.union import Mark

_WRITE: Delay = between(1_000, 60_000)
_JOB: Delay = between(100_000, 900_000)
_SLOW: Delay = between(1_500_000, 6_000_000)
_LOCAL: Delay = between(20_000, 300_000)


class Disk:
    """Checkpoints of one replica index, as bytes; survives its processes."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, bytes, tuple[Mark, ...]]] = []

    def tear(self) -> None:
        """The newest checkpoint turns out to be cut in half."""
        if self.kept:
            self.kept.remove(max(self.kept, key=lambda kept: kept[0]))


class MemoryCheckpoints:
    """The interface of `node.checkpoints.CheckpointStore` for one process."""

    def __init__(self, disk: Disk, codec: RowCodec, scheduler: Scheduler, rng: random.Random) -> None:
        self.written_bucket: int | None = None
        self._disk, self._codec, self._scheduler, self._rng = disk, codec, scheduler, rng
        self._alive = True
        self._writing = False

    def save(self, checkpoint: SaveCheckpoint) -> None:
        if self._writing:
            return
        self._writing = True
        state = self._codec.encode_state(checkpoint.state)
        self._scheduler.after(_WRITE(self._rng), lambda: self._land(checkpoint, state))

    def newest(self) -> Loaded | None:
        if not self._disk.kept:
            return None
        bucket, state, marks = max(self._disk.kept, key=lambda kept: kept[0])
        return Loaded(bucket, self._codec.decode_state(state), marks)

    def close(self) -> None:
        pass

    def die(self) -> None:
        """The process is gone: what is being written is lost."""
        self._alive = False

    def _land(self, checkpoint: SaveCheckpoint, state: bytes) -> None:
        if self._alive:
            self._writing = False
            self.written_bucket = checkpoint.bucket
            self._disk.kept.append((checkpoint.bucket, state, checkpoint.marks))
            del self._disk.kept[:-3]


class SimRedos:
    """The interface of `reconcile.runner.Redos`: the true answer, after a while, or what `mode` makes of it.

    Modes: "ok"; "slow" (past the deadline now and then); "late" (slow, and answers even when cancelled, as an answer
    does that was on its way already); "fail"; "hang". Local jobs only fail, in mode "fail".
    """

    def __init__(
        self, opened: Opened, scheduler: Scheduler, rng: random.Random, mode: Callable[[], str], wake: Wake
    ) -> None:
        self._opened, self._scheduler, self._rng = opened, scheduler, rng
        self._mode, self.wake = mode, wake
        self.disagreements: list[str] = []
        self._expected: set[int] = set()
        self._ready: list[RedoResult] = []

    def start(self, job: RedoJob, local: bool = False) -> None:
        mode = self._mode()
        self._expected.add(job.id)
        if mode == "hang" and not local:
            return
        delay = _LOCAL if local else _SLOW if mode in ("slow", "late") else _JOB
        after = delay(self._rng)
        fails = mode == "fail" and (not local or self._rng.random() < 0.5)
        stubborn = mode == "late" and not local
        self._scheduler.after(after, lambda: self._answer(job, local, fails, stubborn, after / 1e6))

    def results(self) -> list[RedoResult]:
        ready, self._ready = self._ready, []
        return ready

    def cancel(self, job_id: int) -> None:
        self._expected.discard(job_id)

    def close(self) -> None:
        self._expected.clear()
        self._ready.clear()

    def _answer(self, job: RedoJob, local: bool, fails: bool, stubborn: bool, seconds: float) -> None:
        if job.id not in self._expected and not stubborn:
            return
        self._expected.discard(job.id)
        self._ready.append(RedoFailed(job.id, "simulated failure") if fails else self._run(job, local, seconds))
        self.wake()

    def _run(self, job: RedoJob, local: bool, seconds: float) -> RedoResult:
        try:
            state, outputs = run_job(job, self._opened)
        except ReplayError as exc:
            self.disagreements.append(describe(exc))
            return RedoFailed(job.id, describe(exc))
        except LogError as exc:
            return RedoFailed(job.id, describe(exc))
        return RedoDone(job.id, state, outputs, "inline" if local else "spark", seconds)
