"""One redo job, as a function of (job, context), and as bytes in, bytes out for a Spark worker.

The bytes form turns a job's failure into a result of one sentence: Spark's own report of an exception is a page in two
languages.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import OrderedDict

import msgspec

from borealis_py.log.base import LogError, OffsetGone
from borealis_py.log.codec import RowCodec
from borealis_py.log.records import RecordPart
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoResult, SourceRange
from reconcile.replay import RangeGone, Replay, ReplayError
from reconcile.replay_context import OpenReplayContext, ReplayContext
from sunion.model import Output, State
from sunion.units import Bucket


class PackedJob(msgspec.Struct, array_like=True, frozen=True):
    """A `RedoJob` as sent: `id`, `first`, `end`, `ranges`, `rows` as there. `state`: as the codec encodes it.
    `budget_s`: how long it may run, in seconds."""

    id: int
    first: Bucket
    end: Bucket
    state: bytes
    ranges: tuple[SourceRange, ...]
    rows: int
    budget_s: float


class PackedOutput(msgspec.Struct, array_like=True, frozen=True):
    """A bucket's `Output` as sent. `rows`: as the codec encodes them; None: it has none. `rejects`: dead letters of
    `bucket`."""

    bucket: int
    rows: bytes | None
    rejects: tuple[RecordPart, ...]


class PackedDone(msgspec.Struct, array_like=True, frozen=True, tag="done"):
    """A `RedoDone` as sent: `state` after job `id`, as the codec encodes it, and `outputs` of the buckets that have
    any."""

    id: int
    state: bytes
    outputs: list[PackedOutput]


class PackedFailed(msgspec.Struct, array_like=True, frozen=True, tag="failed"):
    """A `RedoFailed` as sent: the `reason` why job `id` failed, in words. `lost`: the log no longer holds what it
    needs."""

    id: int
    reason: str
    lost: bool = False


def run_job(job: RedoJob, on: OpenReplayContext, deadline: float | None = None) -> tuple[State, dict[int, Output]]:
    """The state after the job's buckets and the outputs of those that have any.

    Args:
        deadline: on the clock of `time.monotonic()`, in seconds; None: no deadline.

    Raises:
        ReplayError: out of time, or the log disagrees with what the replica had read.
        LogError: the log cannot be read.
    """
    replay = Replay(on, job.first, job.state, job.ranges, deadline)
    outputs: dict[int, Output] = {}
    for chunk in replay.run(job.end):
        outputs.update(chunk.outputs)
    if replay.rows != job.rows:
        raise ReplayError(
            f"{on.work.node}: buckets {job.first} to {job.end} have {replay.rows} rows in the log, "
            f"the replica had read {job.rows}"
        )
    return replay.state, outputs


def describe(exc: BaseException) -> str:
    """An exception as one human-readable line."""
    text = " ".join(str(exc).split())
    return text if isinstance(exc, ReplayError | LogError) else f"{type(exc).__name__}: {text}"[:500]


def failed(job_id: int, exc: BaseException) -> RedoFailed:
    """The result of a job that ended with this exception."""
    return RedoFailed(job_id, describe(exc), isinstance(exc, OffsetGone | RangeGone))


def pack_job(job: RedoJob, codec: RowCodec, budget_s: float) -> bytes:
    state = codec.encode_state(job.state)
    return msgspec.msgpack.encode(PackedJob(job.id, job.first, job.end, state, job.ranges, job.rows, budget_s))


def run_packed(work: bytes, packed: bytes) -> bytes:
    """Run one packed job in a Spark worker. The job's own failures are not raised, but returned."""
    started = time.monotonic()
    try:
        return run_on(get_cached(work), packed, started)
    except Exception as exc:
        evict(work)
        return pack_failure(packed, exc)


def run_on(on: OpenReplayContext, packed: bytes, started: float | None = None) -> bytes:
    """Run one packed job. Raises what `run_job` raises.

    Args:
        started: when its time began, as `time.monotonic()` has it, in seconds; None: it may take any time.
    """
    job = msgspec.msgpack.decode(packed, type=PackedJob)
    state = on.kernel.decode_state(job.state)
    plain = RedoJob(id=job.id, first=job.first, end=job.end, state=state, ranges=job.ranges, rows=job.rows)
    after, outputs = run_job(plain, on, None if started is None else started + job.budget_s)
    parts = [_pack_output(on.kernel, bucket, output) for bucket, output in outputs.items()]
    return msgspec.msgpack.encode(PackedDone(job.id, on.kernel.encode_state(after), parts))


def pack_failure(packed: bytes, exc: BaseException) -> bytes:
    """The result of a packed job that ended with this exception."""
    why = failed(msgspec.msgpack.decode(packed, type=PackedJob).id, exc)
    return msgspec.msgpack.encode(PackedFailed(why.id, why.reason, why.lost))


def unpack_result(packed: bytes, codec: RowCodec, engine: str, seconds: float) -> RedoResult:
    """The result that `run_packed` returned."""
    answer = msgspec.msgpack.decode(packed, type=PackedDone | PackedFailed)
    if isinstance(answer, PackedFailed):
        return RedoFailed(answer.id, answer.reason, answer.lost)
    outputs = {part.bucket: _unpack_output(codec, part) for part in answer.outputs}
    return RedoDone(answer.id, codec.decode_state(answer.state), outputs, engine, seconds)


def _pack_output(codec: RowCodec, bucket: int, output: Output) -> PackedOutput:
    rows = None if output.rows is None else codec.encode(output.rows)
    return PackedOutput(bucket, rows, tuple(map(RecordPart.of, output.rejects)))


def _unpack_output(codec: RowCodec, part: PackedOutput) -> Output:
    rows = None if part.rows is None else codec.decode(part.rows)
    return Output(rows, tuple(letter.reject for letter in part.rejects))


_OPENED_MAX = 32
_opened: OrderedDict[bytes, OpenReplayContext] = OrderedDict()


def get_cached(packed: bytes) -> OpenReplayContext:
    """The `ReplayContext` of these bytes, opened and touched once per process. For Spark's workers, with one thread.

    Raises:
        LogError: the log cannot be read.
        OtherKernel: this process might compute other bits.
        QueryError: the query does not compile.
    """
    key = hashlib.sha256(packed).digest()
    found = _opened.get(key)
    if found is None:
        work: ReplayContext = pickle.loads(packed)
        found = work.open()
        try:
            found.touch()
        except BaseException:
            found.close()
            raise
        _opened[key] = found
        while len(_opened) > _OPENED_MAX:
            _opened.popitem(last=False)[1].close()
    _opened.move_to_end(key)
    return found


def evict(packed: bytes) -> None:
    """Close and forget a context, as its clients may be the reason of a failure: the next use opens it anew."""
    found = _opened.pop(hashlib.sha256(packed).digest(), None)
    if found is not None:
        found.close()


def evict_all() -> None:
    """Close and forget all contexts of this process."""
    while _opened:
        _opened.popitem()[1].close()
