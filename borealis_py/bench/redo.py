"""One redo job, three ways: from memory, reading the log again in this process, and as a warm Spark job. All give the
same outputs, which is checked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

from borealis_py.bench import events
from borealis_py.bench.catchup import Prepared
from borealis_py.bench.figures import BenchError, RedoFigures, redo_figures
from borealis_py.bench.stage import Running, Stage
from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from borealis_py.log.base import Wake
from borealis_py.log.codec import RowCodec
from borealis_py.log.description import Life
from borealis_py.log.source_records import decode_source
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoResult, SourceRange
from borealis_py.protocol.settings import Timing
from borealis_py.query.spec import AppSpec
from borealis_py.runtime.spark.session import ReplicaSession
from reconcile.redo_client import RedoRunner
from reconcile.redo_job import pack_job, unpack_result
from reconcile.replay_context import ReplayContext, node_context
from reconcile.spark_executor import SparkExecutor
from reconcile.thread_redo import ThreadRedo
from sunion.bucket import Buckets
from sunion.model import Output
from sunion.source import SourceFold
from sunion.union import SUnion
from sunion.units import Bucket, Offset

DEADLINE_S = 60.0
Bits = dict[int, str]
"""Bucket -> hash of its rows."""


def bits(outputs: Mapping[int, Output]) -> Bits:
    """A hash of each bucket's rows."""
    return {bucket: canonical_hash(o.rows) for bucket, o in outputs.items() if o.rows is not None}


class ExecutorRedo:
    """`reconcile.redo_client.RedoRunner` of one node that packs a job, has Spark run it and unpacks the result.

    Args:
        context: a SparkContext that is warm. codec: encodes states and decodes rows.
        deadline_s: time limit of a job once it runs.
    """

    def __init__(self, context: Any, work: ReplayContext, codec: RowCodec, wake: Wake, deadline_s: float) -> None:
        self._node = work.node
        self._codec = codec
        self._deadline_s = deadline_s
        self._executor = SparkExecutor(context, {work.node: work.pack()}, wake)
        self._began: dict[int, float] = {}

    def submit_job(self, job: RedoJob) -> None:
        self._began[job.id] = time.monotonic()
        self._executor.execute(job.id, self._node, pack_job(job, self._codec, self._deadline_s))

    def poll_results(self) -> list[RedoResult]:
        finished = [(job_id, end, self._began.pop(job_id, None)) for job_id, end in self._executor.take_finished()]
        return [self._result(job_id, end, began) for job_id, end, began in finished if began is not None]

    def _result(self, job_id: int, end: bytes | str, began: float) -> RedoResult:
        if isinstance(end, str):
            return RedoFailed(job_id, end)
        return unpack_result(end, self._codec, "spark", time.monotonic() - began)

    def cancel_job(self, job_id: int) -> None:
        if self._began.pop(job_id, None) is not None:
            self._executor.cancel(job_id)

    def close(self) -> None:
        for job_id in list(self._began):
            self.cancel_job(job_id)


RUNS = 3


class Bell:
    """A wake function that can be waited for."""

    def __init__(self) -> None:
        self._rung = threading.Semaphore(0)

    def __call__(self) -> None:
        self._rung.release()

    def wait(self) -> None:
        """Until it rings, at most as long as a redo may take."""
        self._rung.acquire(timeout=DEADLINE_S)


@dataclass(frozen=True, slots=True)
class RedoCase:
    """A job without its ranges, and the query it is of. `records`: how many of each source it needs; None: all."""

    what: str
    app: AppSpec
    app_uid: str
    job: RedoJob
    records: int | None = None


def lived(running: Running, rows: int) -> RedoCase:
    """Everything that an app has read whose sources have ended: small records, as they come in life."""
    spec, first = running.state.spec, running.state.origin
    now = Buckets(spec.bucket_us).of(time.time_ns() // 1000)
    return RedoCase(
        "as lived",
        spec,
        running.state.app_uid,
        RedoJob(id=0, first=Bucket(first), end=now, state=None, ranges=(), rows=rows),
    )


def backlog(prepared: Prepared, rows: int) -> RedoCase:
    """The first `rows` rows of the backlog, which fill whole buckets: large records."""
    first, count = prepared.backlog.origin, rows // prepared.backlog.per_bucket
    job = RedoJob(id=0, first=Bucket(first), end=Bucket(first + count), state=None, ranges=(), rows=rows)
    return RedoCase(
        "backlog", prepared.state.spec, prepared.state.app_uid, job, 1 + count
    )  # the claim, then one record a bucket


def measure(stage: Stage, cases: Sequence[RedoCase], spark: bool) -> list[RedoFigures]:
    """Each case, one after the other.

    Raises:
        BenchError: a redo failed, or the ways disagree.
        SparkUnavailable: no Java, or Spark did not start.
    """
    with ExitStack() as stack:
        session = None
        if spark:
            session = ReplicaSession.start_spark("borealis bench", output=stage.work / "spark-bench.log")
            stack.callback(session.stop)
        return [_measure(stage, case, session) for case in cases]


def _measure(stage: Stage, case: RedoCase, session: ReplicaSession | None) -> RedoFigures:
    work = node_context(case.app, events.QUERY, stage.log, Timing().ahead_max_us, case.app_uid)
    with closing(compile_query(case.app, events.QUERY)) as kernel:
        job = replace(case.job, state=kernel.initial(), ranges=_ranges(stage, work, case))
        memory_s, expected, buckets = _from_memory(stage, work, kernel, job)
        bell = Bell()
        thread_s = _timed(ThreadRedo(work, bell, DEADLINE_S), bell, job, expected)
        spark_s = []
        if session is not None:
            session.warm(work.pack())
            spark_s = _timed(ExecutorRedo(session.context, work, kernel, bell, DEADLINE_S), bell, job, expected)
    return redo_figures(case.what, job.rows, buckets, memory_s, thread_s, spark_s)


def _ranges(stage: Stage, work: ReplayContext, case: RedoCase) -> tuple[SourceRange, ...]:
    """Every source from its beginning."""
    fold = SourceFold(Buckets(work.width_us).start(case.job.first))
    lookup = stage.log.lookup()
    try:
        ends = [case.records or lookup.bounds(feed)[1] for (feed,) in work.feeds]
    finally:
        lookup.close()
    return tuple(SourceRange(i, Offset(0), Offset(end), fold) for i, end in enumerate(ends))


def _from_memory(stage: Stage, work: ReplayContext, kernel: DuckKernel, job: RedoJob) -> tuple[list[float], Bits, int]:
    """Decoding is not in it: these rows were decoded when they came.

    Returns:
        Seconds of each run, what came out, how many buckets hold rows.
    """
    life = Life(work.app_uid)
    union = SUnion(work.inputs, job.first, Buckets(work.width_us), kernel, ahead_max_us=work.ahead_max_us)
    for i, ((feed,), source) in enumerate(zip(work.feeds, work.inputs, strict=True)):
        codec = kernel.source_codec(source.name)
        for record in stage.read(feed.topic):
            if union.closed(i) < job.end:
                union.feed(i, decode_source(record, codec, source.name, life))
    busy = union.busy(job.first, job.end)
    rows = sum(map(union.count, busy))
    if rows != job.rows:
        raise BenchError(f"a redo of {job.rows} rows was to be measured, there are {rows}")
    seconds = []
    for _ in range(RUNS + 1):  # the first one warms up
        started = time.monotonic()
        _, outputs = kernel.step(job.state, job.first, job.end, union.ordered(job.first, job.end))
        seconds.append(time.monotonic() - started)
    return seconds[1:], bits(outputs), len(busy)


def _timed(redo: RedoRunner, bell: Bell, job: RedoJob, expected: Bits) -> list[float]:
    seconds = []
    try:
        for n in range(RUNS + 1):  # the first one warms up
            started = time.monotonic()
            redo.submit_job(replace(job, id=n))
            bell.wait()
            seconds.append(time.monotonic() - started)
            _check(redo, expected)
    finally:
        redo.close()
    return seconds[1:]


def _check(redo: RedoRunner, expected: Bits) -> None:
    answers = redo.poll_results()
    if len(answers) != 1:
        raise BenchError(f"a redo did not answer within {DEADLINE_S:g} s")
    (answer,) = answers
    if isinstance(answer, RedoFailed):
        raise BenchError(f"a redo failed: {answer.reason}")
    assert isinstance(answer, RedoDone)
    if bits(answer.outputs) != expected:
        raise BenchError(f"the redo by {answer.engine} gave other results than the step from memory")
