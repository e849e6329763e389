"""What outlives simulated replicas, and who redoes their buckets: checkpoints on a disk, and a Spark that may hang."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from borealis_py.log.base import LogError, Wake
from borealis_py.log.codec import RowCodec
from borealis_py.node.checkpoints import LoadedCheckpoint
from borealis_py.node.peers import Peers
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoPlace, RedoResult
from borealis_py.protocol.trimming import KeptCheckpoint
from borealis_py.protocol.turn import SaveCheckpoint
from borealis_py.simulation.cluster.clock import Scheduler
from borealis_py.simulation.log.client import MemoryClient
from borealis_py.simulation.log.latency import Delay, between
from reconcile.redo_job import describe, failed, run_job
from reconcile.replay import RangeGone, ReplayError
from reconcile.replay_context import OpenReplayContext
from sunion.union import Mark
from sunion.units import NOWHERE, Offset

_WRITE: Delay = between(1_000, 60_000)
_JOB: Delay = between(100_000, 900_000)
_SLOW: Delay = between(1_500_000, 6_000_000)
_LOCAL: Delay = between(20_000, 300_000)
_PEER: Delay = between(10_000, 200_000)
KEEP = 3


@dataclass(frozen=True, slots=True)
class File:
    """The content of one checkpoint; `torn`: it fails verification."""

    state: bytes
    marks: tuple[Mark, ...]
    said: int = NOWHERE
    torn: bool = False


@dataclass
class Disk:
    """The checkpoints of one replica index, as files by bucket; survives its processes. `broken`: writes fail."""

    files: dict[int, File] = field(default_factory=dict)
    broken: int = 0

    def tear(self) -> None:
        """The newest checkpoint turns out to be truncated."""
        if self.files:
            newest = max(self.files)
            self.files[newest] = File(b"", (), torn=True)

    def put(self, bucket: int, file: File) -> None:
        self.files[bucket] = file
        for old in sorted(self.files)[:-KEEP]:
            del self.files[old]


class MemoryCheckpoints:
    """Implements `node.checkpoints.CheckpointStore` for one process. `disks`: by replica index of the node."""

    def __init__(
        self,
        disks: dict[int, Disk],
        replica: int,
        codec: RowCodec,
        scheduler: Scheduler,
        rng: random.Random,
        writing: Callable[[], object],
    ) -> None:
        self.written_bucket: int | None = None
        self.kept: tuple[KeptCheckpoint, ...] | None = None
        self.failures = 0
        self._disks, self._replica = disks, replica
        self._codec, self._scheduler, self._rng = codec, scheduler, rng
        self._known: dict[int, KeptCheckpoint] = {}
        self._alive = True
        self._busy = False
        self._writing = writing

    def save(self, checkpoint: SaveCheckpoint) -> None:
        if self._busy:
            return
        self._busy = True
        state = self._codec.encode_state(checkpoint.state)
        self._scheduler.after(_WRITE(self._rng), lambda: self._land(checkpoint, state))
        self._writing()

    def newest(self) -> LoadedCheckpoint | None:
        files = self._disks[self._replica].files
        found = (self._load(files[bucket], bucket) for bucket in sorted(files, reverse=True))
        return next((loaded for loaded in found if loaded is not None), None)

    def of_peers(self, whole: bool = True) -> Iterator[tuple[int, LoadedCheckpoint]]:
        found = [(bucket, k) for k, disk in self._disks.items() if k != self._replica for bucket in disk.files]
        for bucket, k in sorted(found, reverse=True):
            loaded = self._load(self._disks[k].files[bucket], bucket)
            if loaded is not None and (loaded.whole or not whole):
                yield k, loaded

    def of_peer(self, replica: int, bucket: int) -> LoadedCheckpoint | None:
        file = self._disks[replica].files.get(bucket)
        loaded = None if file is None else self._load(file, bucket)
        return loaded if loaded is not None and loaded.whole else None

    def close(self) -> None:
        pass

    def die(self) -> None:
        """The process is gone: what is being written is lost, sometimes leaving half a file."""
        if self._busy and self._rng.random() < 0.3:
            self._disks[self._replica].files.setdefault(0, File(b"", (), torn=True))
        self._alive = False

    def _load(self, file: File, bucket: int) -> LoadedCheckpoint | None:
        if file.torn:
            return None
        return LoadedCheckpoint(bucket, self._codec.decode_state(file.state), file.marks, file.said)

    def _land(self, checkpoint: SaveCheckpoint, state: bytes) -> None:
        if not self._alive:
            return
        self._busy = False
        disk = self._disks[self._replica]
        if disk.broken:
            self.failures += 1
            return
        self.written_bucket = checkpoint.bucket
        disk.put(checkpoint.bucket, File(state, checkpoint.marks, checkpoint.said))
        self._known[checkpoint.bucket] = KeptCheckpoint(
            checkpoint.bucket, tuple(Offset(mark.offset) for mark in checkpoint.marks)
        )
        if all(bucket in self._known for bucket in disk.files) and len(disk.files) == KEEP:
            self.kept = tuple(self._known[bucket] for bucket in sorted(disk.files))


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


class SimRedos:
    """Implements `reconcile.redo_client.RedoRouter`: the correct result after a while, or what `spark` makes of it.

    Modes: "ok"; "slow" (past the deadline now and then); "late" (slow, and answers even when cancelled, like an answer
    that was already in flight); "fail"; "memory" (fails after a while); "hang"; "gone" (fails at once, running jobs
    included). Local jobs only fail, in mode "fail". Jobs with a peer adopt its checkpoint.
    """

    def __init__(
        self, opened: OpenReplayContext, client: MemoryClient, spark: Spark, rng: random.Random, on_spark: bool = True
    ) -> None:
        self.on_spark = on_spark
        self.disagreements: list[str] = []
        self.peers: Peers | None = None
        self.adopted = 0
        self.wake: Wake = _asleep
        self.rows_us: Callable[[int], int] = _at_once
        self._opened, self._client, self._spark, self._rng = opened, client, spark, rng
        self._scheduler: Scheduler = client.log.scheduler
        self._expected: set[int] = set()
        self._ready: list[RedoResult] = []

    def submit_job(self, job: RedoJob, place: RedoPlace) -> None:
        mode, local = self._spark.mode, place is RedoPlace.LOG
        self._expected.add(job.id)
        if place is RedoPlace.PEER:
            self._scheduler.after(_PEER(self._rng), lambda: self._adopt(job))
            return
        if mode == "hang" and not local:
            return
        delay = _LOCAL if local else _SLOW if mode in ("slow", "late") else _JOB
        after = 5_000 if mode == "gone" and not local else delay(self._rng) + self.rows_us(job.rows)
        fails = (mode == "fail" and self._rng.random() < 0.5) if local else mode in ("fail", "gone", "memory")
        stubborn = mode == "late" and not local
        self._scheduler.after(after, lambda: self._answer(job, local, fails, stubborn, after / 1e6))

    def poll_results(self) -> list[RedoResult]:
        ready, self._ready = self._ready, []
        return ready

    def cancel_job(self, job_id: int) -> None:
        self._expected.discard(job_id)

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


def _asleep() -> None:
    pass


def _at_once(rows: int) -> int:
    return 0
