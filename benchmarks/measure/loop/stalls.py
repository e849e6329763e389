"""What checkpoints cost a replica, by the size of its state: how they delay its loop, and when they are durable.

    python -m benchmarks.measure.loop.stalls BOOTSTRAP APP DATA_DIR BUCKET SECONDS OUT

A process like a replica's, with one loop that records its turns. Once it has reached BUCKET, and has said so by a file
beside OUT, it is watched for SECONDS, until a checkpoint is durable, and until what is stable then is published; then
OUT holds a `Watched` as JSON. The state is that of a window that stays open and has each key once.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import msgspec

from borealis_py import App
from borealis_py.app.state import AppState, read_app
from borealis_py.bench.console import Bars
from borealis_py.bench.events import BUCKET_US, START_US
from borealis_py.bench.figures import BenchError, percentiles
from borealis_py.bench.stage import Stage
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import NewRecord
from borealis_py.log.clock import SystemClock
from borealis_py.log.codec import RowCodec
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, pack_stimes
from borealis_py.node.checkpoint_storage import SUFFIX, LocalLocation
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.peers import PeerRedo, Peers
from borealis_py.node.pulse import repeating
from borealis_py.node.replica import Replica
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import SaveCheckpoint
from borealis_py.runtime.lean_imports import load_engine
from borealis_py.runtime.process.threads import make_redos
from borealis_py.runtime.specs import kernel_of, new_uid, replica_spec
from sunion.bucket import Buckets
from sunion.units import Bucket

SOURCE, QUERY = "s0", "kept"
PER_BUCKET = 5_000
CHECKPOINT_US = 500_000
"""Oftener than by default, so that there are more to measure."""
TIMEOUT_S = 120.0
MS = 1_000.0


class Turned(msgspec.Struct, frozen=True, array_like=True):
    """A turn, monotonic seconds: when it was due or the loop was woken, when it ended, and when it really began.
    `wall_us`: when it ended, wall microseconds. `stable`, `published`: the first bucket that then was not."""

    due: float
    ended: float
    began: float = 0.0
    wall_us: int = 0
    stable: int = 0
    published: int = 0

    @property
    def took_us(self) -> int:
        return round((self.ended - self.due) * 1e6)


class Durable(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint, monotonic seconds: handed over, encoded, durable; and its size."""

    handed: float
    encoded: float
    durable: float
    bytes: int


class Watched(msgspec.Struct, frozen=True):
    """What a loop did while it was watched."""

    turns: list[Turned]
    saved: list[Durable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Checkpoints of one state; medians. `durable_ms`: from the turn that gave one away, `written_ms`: the last part of
    it, which the place takes. `beside_ms`: of the longest turn, from when it was due, until one was durable;
    `worst_ms`: the longest of all of those. `turn_ms`, `turn_p99_ms`: of turns without one.
    """

    keys: int
    count: int
    bytes: float
    durable_ms: float
    written_ms: float
    beside_ms: float
    worst_ms: float
    turn_ms: float
    turn_p99_ms: float


def app(keys: int) -> App:
    """Count and sum by key, in a window that does not end meanwhile."""
    built = App(f"overhead-keys-{keys}", bucket="100ms")
    source = built.source(SOURCE, schema={"key": "int64", "amount": "double"})
    kept = source.window("1h").group_by("key").agg(n="count(*)", total="sum(amount)")
    built.query(QUERY, kept, delay_threshold="3s", replicas=1)
    return built


class Written:
    """A source's log: the claim, then a record a bucket. `bucket`: the next one."""

    def __init__(self, app: str, app_uid: str) -> None:
        self._feed = topics.source(app, SOURCE)
        self._uid = app_uid
        self._buckets = Buckets(BUCKET_US)
        self.bucket = self._buckets.of(START_US)
        self._seq = 0

    def claim(self) -> NewRecord:
        return NewRecord(self._feed, pack(ClaimHeader(self._uid, 1, "bench")), timestamp_ms=START_US // 1000)

    def next(self, keys: Sequence[int]) -> NewRecord:
        """A bucket's rows, and its boundary."""
        stimes = pack_stimes([self._buckets.start(self.bucket)] * len(keys))
        header = BatchHeader(self._uid, 1, "bench", self._seq, stimes, self._buckets.end(self.bucket), "json")
        rows = b",".join(b'{"key":%d,"amount":%d.25}' % (key, key % 100) for key in keys)
        stamp = self._buckets.timestamp_ms(self.bucket)
        self.bucket, self._seq = Bucket(self.bucket + 1), self._seq + len(keys)
        return NewRecord(self._feed, pack(header, b"[" + rows + b"]" if keys else b""), timestamp_ms=stamp)

    def all(self, keys: int) -> Iterator[NewRecord]:
        """Each key once, and a bucket at least."""
        yield self.claim()
        for first in range(0, max(1, keys), PER_BUCKET):
            yield self.next(range(first, min(keys, first + PER_BUCKET)))


def measure(stage: Stage, keys: int, seconds: float, bars: Bars) -> Held:
    """One state, in an app and a process of its own.

    Raises:
        BenchError: the process failed, or made no checkpoint.
    """
    what = f"checkpoints of {keys:,} keys"
    bars.say(f"{what}: filling")
    state = stage.describe(app(keys), str(START_US), replace(Timing(), checkpoint_us=CHECKPOINT_US))
    source = Written(state.name, state.app_uid)
    stage.fill(source.all(keys))
    bars.say(what)
    watched = beside(stage, state, source, seconds, range(min(1, keys)), what)
    stage.forget(state)
    return judge(keys, watched)


def beside(
    stage: Stage,
    state: AppState,
    source: Written,
    seconds: float,
    keys: Sequence[int],
    what: str,
    sent: Callable[[int], None] = lambda bucket: None,
) -> Watched:
    """Watch a loop for so many seconds, in a process of its own. A bucket with these keys comes every 100 ms, from when
    it has reached what is in the log.

    Args:
        what: is measured, for messages. sent: called after each bucket with its number.

    Raises:
        BenchError: the process failed, or it takes too long.
    """
    out = stage.work / f"{state.name}.json"
    arguments = stage.log.bootstrap, state.name, str(stage.work), str(source.bucket), str(seconds), str(out)
    ready_file(out).unlink(missing_ok=True)
    loop = stage.module(state.name, __name__, *arguments)
    appender = stage.log.appender(lambda: None)
    due = deadline = time.monotonic()
    deadline += TIMEOUT_S
    try:
        while loop.poll() is None:
            if time.monotonic() > deadline:
                raise BenchError(f"{what}: not done after {TIMEOUT_S:g} s; see {state.name}.log")
            if ready_file(out).exists():
                appender.append(source.next(keys))
                appender.deliveries()
                sent(source.bucket - 1)
            due = max(due + BUCKET_US / 1e6, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))
    finally:
        appender.close()
    if loop.returncode:
        raise BenchError(f"{what}: the loop ended with code {loop.returncode}; see {state.name}.log")
    return msgspec.json.decode(out.read_bytes(), type=Watched)


def ready_file(out: Path) -> Path:
    """Is there once the loop that will write `out` has reached its bucket."""
    return out.with_suffix(".ready")


def judge(keys: int, watched: Watched) -> Held:
    """Raises BenchError: there was no checkpoint, or nothing but checkpoints."""
    saved, all_ = watched.saved, watched.turns
    beside = [[turn for turn in all_ if turn.due < one.durable and turn.ended > one.handed] for one in saved]
    with_one = {turn for turns in beside for turn in turns}
    alone = [turn.took_us for turn in all_ if turn not in with_one]
    if not all(beside) or not beside or not alone:
        raise BenchError(f"{keys:,} keys: {len(saved)} checkpoints and {len(alone)} turns without: too few to judge")
    longest = [max(turn.took_us for turn in turns) / MS for turns in beside]
    return Held(
        keys=keys,
        count=len(saved),
        bytes=median(one.bytes for one in saved),
        durable_ms=median(one.durable - one.handed for one in saved) * MS,
        written_ms=median(one.durable - one.encoded for one in saved) * MS,
        beside_ms=median(longest),
        worst_ms=max(longest),
        turn_ms=median(alone) / MS,
        turn_p99_ms=percentiles(alone).p99_ms,
    )


class _Noting(LocalLocation):
    """A place that notes when it was given something and when it had it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.taken: list[tuple[str, float, float, int]] = []

    def write(self, name: str, content: bytes) -> None:
        began = time.monotonic()
        super().write(name, content)
        self.taken.append((name, began, time.monotonic(), len(content)))


class _Store(CheckpointStore):
    """A store that notes when it was handed a checkpoint, by its name."""

    def __init__(self, place: _Noting, query_hash: str, codec: RowCodec) -> None:
        super().__init__(place, query_hash, codec)
        self.noting = place
        self.handed: dict[str, float] = {}

    def save(self, checkpoint: SaveCheckpoint) -> None:
        self.handed[f"{checkpoint.bucket:020d}{SUFFIX}"] = time.monotonic()
        super().save(checkpoint)

    def saved(self, since: float) -> list[Durable]:
        """Those that are durable, handed over after a time."""
        each = [Durable(self.handed[name], began, ended, size) for name, began, ended, size in self.noting.taken]
        return [one for one in each if one.handed >= since]


class Loop:
    """A replica's loop, as `run_replica` has it, that notes its turns. `close` it."""

    def __init__(self, spec: ReplicaSpec) -> None:
        self._clock = SystemClock()
        self._bell = threading.Event()
        self._woken = 0.0
        self._turns: list[Turned] = []
        self._opened = ExitStack()
        kernel = kernel_of(spec)()
        self._opened.callback(kernel.close)
        self._store = _Store(_Noting(spec.data_dir / "checkpoints" / spec.name), spec.query_hash, kernel)
        redos = make_redos(spec, kernel, self._wake, PeerRedo(Peers(spec, self._store, kernel), spec.log, self._wake))
        self._opened.callback(redos.close)
        self._replica = Replica(
            spec=spec,
            log_=spec.log,
            clock=self._clock,
            kernel=kernel,
            redos=redos,
            store=self._store,
            uid=new_uid(spec),
            wake=self._wake,
            why_inline=redos.why_inline,
        )
        self._opened.callback(self._replica.close)
        self._opened.enter_context(repeating(self._replica.pulse, spec.timing.heartbeat_us, "pulse"))

    def _wake(self) -> None:
        if not self._bell.is_set():
            self._woken = time.monotonic()
        self._bell.set()

    def watch(self, bucket: int, seconds: float, ready: Path) -> Watched:
        """Turn until everything below `bucket` is stable and make the file `ready`, then record turns for the given
        time, until a checkpoint is durable, and until what is stable then is published."""
        since = self._until(lambda: self._replica.manager.f_s >= bucket)
        ready.touch()
        self._turns.clear()
        self._until(lambda: time.monotonic() >= since + seconds and self._store.saved(since) != [])
        stable = self._replica.manager.f_s
        self._until(lambda: self._published >= stable)
        return Watched(self._turns, self._store.saved(since))

    @property
    def _published(self) -> int:
        return self._replica.manager.publishing.frontier

    def _until(self, done: Callable[[], bool]) -> float:
        while not done():
            wait_s = max(0.0, (self._replica.next_wakeup() - self._clock.now_us()) / 1e6)
            alone = time.monotonic() + wait_s
            rung = self._bell.wait(wait_s)
            due = min(self._woken, alone) if rung else alone
            self._bell.clear()
            began = time.monotonic()
            self._replica.turn()
            ended, stable = time.monotonic(), self._replica.manager.f_s
            self._turns.append(Turned(due, ended, began, self._clock.wall_us(), stable, self._published))
        return time.monotonic()

    def close(self) -> None:
        """End the replica."""
        self._opened.close()


def main() -> None:
    bootstrap, name, data_dir, bucket, seconds, out = sys.argv[1:]
    load_engine()
    kafka = KafkaLog(bootstrap)
    loop = Loop(replica_spec(read_app(kafka, name), QUERY, 0, kafka, Path(data_dir)))
    try:
        watched = loop.watch(int(bucket), float(seconds), ready_file(Path(out)))
    finally:
        loop.close()
    Path(out).write_bytes(msgspec.json.encode(watched))


if __name__ == "__main__":
    main()
