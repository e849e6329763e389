"""One redo of a part of the backlog, three ways: from memory, reading the log again in this process, and as a warm
Spark job. All give the same outputs, which is checked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from borealis_py.bench import events
from borealis_py.bench.figures import BenchError, RedoFigures, redo_figures
from borealis_py.bench.stage import Stage
from borealis_py.bench.throughput import Prepared
from borealis_py.engine import Kernel, canonical_hash, compile_query
from borealis_py.host.spark import ReplicaSession
from borealis_py.log.base import Feed, Record
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, SourceRange
from borealis_py.protocol.settings import Timing
from reconcile.decode import decode_source
from reconcile.runner import Redo, ThreadRedo
from reconcile.spark import SparkRedo
from reconcile.work import Work, query_work
from sunion.bucket import Buckets
from sunion.model import Output
from sunion.source import SourceFold
from sunion.union import SUnion

RUNS = 3
DEADLINE_S = 60.0

Bits = dict[int, str]


class _Bell:
    """A wake function that can be waited for."""

    def __init__(self) -> None:
        self._rung = threading.Semaphore(0)

    def __call__(self) -> None:
        self._rung.release()

    def wait(self) -> None:
        self._rung.acquire(timeout=DEADLINE_S)


def measure(stage: Stage, prepared: Prepared, rows: int, spark: bool) -> RedoFigures:
    """Redo the first `rows` rows of the backlog, which fill whole buckets.

    Raises:
        BenchError: a redo failed, or the ways disagree.
        SparkUnavailable: no Java, or Spark did not start.
    """
    spec = prepared.state.spec
    work = query_work(spec, events.QUERY, stage.log, Timing().ahead_max_us)
    with closing(compile_query(spec, events.QUERY)) as kernel:
        job = _job(prepared, kernel, rows)
        records = _records(stage, work.feeds[0], job)
        memory_s, expected = _from_memory(work, kernel, job, records)
        bell = _Bell()
        thread_s = _timed(ThreadRedo(work, bell, DEADLINE_S), bell, job, expected)
        spark_s = _on_spark(stage.work / "spark-bench.log", work, kernel, job, expected) if spark else []
    return redo_figures(rows, job.end - job.first, memory_s, thread_s, spark_s)


def _job(prepared: Prepared, kernel: Kernel, rows: int) -> RedoJob:
    backlog = prepared.backlog
    count = rows // backlog.per_bucket
    if rows % backlog.per_bucket or not 0 < count <= backlog.buckets:
        raise BenchError(f"a redo of {rows} rows is not whole buckets of the backlog ({backlog.per_bucket} rows each)")
    fold = SourceFold(Buckets(events.BUCKET_US).start(backlog.origin))
    whole = SourceRange(0, 0, 1 + count, fold)  # the claim, then one record a bucket
    return RedoJob(0, backlog.origin, backlog.origin + count, kernel.initial(), (whole,), rows)


def _records(stage: Stage, feed: Feed, job: RedoJob) -> list[Record]:
    lookup = stage.log.lookup()
    try:
        return list(lookup.read(feed, job.ranges[0].first, job.ranges[0].end))
    finally:
        lookup.close()


def _from_memory(work: Work, kernel: Kernel, job: RedoJob, records: Sequence[Record]) -> tuple[list[float], Bits]:
    """Decoding is not in it: these rows were decoded when they came."""
    buckets, codec = Buckets(work.width_us), kernel.source_codec(work.sources[0])
    union = SUnion(work.sources, job.first, buckets, kernel, work.ahead_max_us)
    for record in records:
        union.feed(0, decode_source(record, codec, work.sources[0]))
    seconds = []
    for _ in range(RUNS + 1):  # the first one warms up
        started = time.monotonic()
        _, outputs = kernel.step(job.state, job.first, job.end, union.ordered(job.first, job.end))
        seconds.append(time.monotonic() - started)
    return seconds[1:], _bits(outputs)


def _on_spark(log_file: Path, work: Work, kernel: Kernel, job: RedoJob, expected: Bits) -> list[float]:
    session = ReplicaSession.start("borealis bench", output=log_file)
    try:
        session.warm(work.pack())
        bell = _Bell()
        return _timed(SparkRedo(session.context, work, kernel, bell, DEADLINE_S), bell, job, expected)
    finally:
        session.stop()


def _timed(redo: Redo, bell: _Bell, job: RedoJob, expected: Bits) -> list[float]:
    seconds = []
    try:
        for n in range(RUNS + 1):  # the first one warms up
            started = time.monotonic()
            redo.start(RedoJob(n, job.first, job.end, job.state, job.ranges, job.rows))
            bell.wait()
            seconds.append(time.monotonic() - started)
            _check(redo, expected)
    finally:
        redo.close()
    return seconds[1:]


def _check(redo: Redo, expected: Bits) -> None:
    answers = redo.results()
    if len(answers) != 1:
        raise BenchError(f"a redo did not answer within {DEADLINE_S:g} s")
    (answer,) = answers
    if isinstance(answer, RedoFailed):
        raise BenchError(f"a redo failed: {answer.reason}")
    assert isinstance(answer, RedoDone)
    if _bits(answer.outputs) != expected:
        raise BenchError(f"the redo by {answer.engine} gave other results than the step from memory")


def _bits(outputs: Mapping[int, Output]) -> Bits:
    return {bucket: canonical_hash(o.rows) for bucket, o in outputs.items() if o.rows is not None}
