"""Redo jobs on Spark: an RDD of one element a job, bytes in and bytes out, in a job group of its own.

The driver thread of a job does nothing but wait, so whatever happens to Spark (exception, dead JVM, a task that hangs
until it is cancelled) stays out of the replica's turn and ends as a sentence in a `RedoFailed`.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from borealis_py.log.base import Wake
from borealis_py.log.codec import RowCodec
from borealis_py.protocol.redo import RedoFailed, RedoJob, RedoResult
from reconcile.redo_job import pack_job, run_packed, unpack_result
from reconcile.redo_router import ResultQueue
from reconcile.replay_context import ReplayContext

STUCK_MAX = 2
"""Cancelled jobs that Spark has not let go of; beyond that it is called busy at once instead of after a deadline."""

Task = Callable[[bytes, bytes], bytes]


def run_partition(work: bytes, task: Task, jobs: Iterable[bytes]) -> Iterator[bytes]:
    """In the worker: run each packed job of a partition."""
    for job in jobs:
        yield task(work, job)


class SparkRedo:
    """Runs each job as a Spark job.

    Args:
        context: a SparkContext that is warm (`borealis_py.runtime.spark.session`).
        codec: encodes state and decodes rows in this process.
        deadline_s: the task gives up by itself after this long; the replica's own deadline comes a little later.
        after_cancel: called when a cancelled job is gone; its worker was killed, so this is when to warm a new one.
        task: what workers run; tests put hanging ones here.
    """

    def __init__(
        self,
        context: Any,
        work: ReplayContext,
        codec: RowCodec,
        wake: Wake,
        deadline_s: float,
        after_cancel: Callable[[], None] | None = None,
        task: Task = run_packed,
    ) -> None:
        self._context = context
        self._packed = work.pack()
        self._query = work.query
        self._codec = codec
        self._deadline_s = deadline_s
        self._after_cancel = after_cancel
        self._task = task
        self._results = ResultQueue(wake)
        self._prefix = f"redo {work.query} {uuid.uuid4().hex[:8]}"
        self._lock = threading.Lock()
        self._running: set[int] = set()

    def start(self, job: RedoJob) -> None:
        self._results.expect(job.id)
        with self._lock:
            stuck = sum(not self._results.expects(i) for i in self._running)
            self._running.add(job.id)
        if stuck >= STUCK_MAX:
            self._end(RedoFailed(job.id, f"Spark is busy: it has not let go of {stuck} cancelled jobs"))
            return
        threading.Thread(target=self._run, args=(job,), name=self._group(job.id), daemon=True).start()

    def results(self) -> list[RedoResult]:
        return self._results.take()

    def cancel(self, job_id: int) -> None:
        if not self._results.drop(job_id):
            return
        self._cancel_aside(job_id)

    def close(self, timeout_s: float = 2.0) -> None:
        """Cancel everything. Waits for Spark to take note, not for workers to be gone; a hung JVM is left behind."""
        asides = [self._cancel_aside(job_id) for job_id in self._results.clear()]
        deadline = time.monotonic() + timeout_s
        for aside in asides:
            aside.join(max(0.0, deadline - time.monotonic()))

    def _cancel_aside(self, job_id: int) -> threading.Thread:
        name = "cancel " + self._group(job_id)
        thread = threading.Thread(target=self._cancel, args=(job_id,), name=name, daemon=True)
        thread.start()
        return thread

    def _group(self, job_id: int) -> str:
        return f"{self._prefix} {job_id}"

    def _run(self, job: RedoJob) -> None:
        started = time.monotonic()
        try:
            packed = pack_job(job, self._codec, self._deadline_s)
            answer = self._collect(job, packed)
            result = unpack_result(answer, self._codec, "spark", time.monotonic() - started)
        except Exception as exc:
            result = RedoFailed(job.id, explain(exc))
        if not self._end(result) and self._after_cancel is not None:
            self._after_cancel()

    def _end(self, result: RedoResult) -> bool:
        wanted = self._results.expects(result.id)
        with self._lock:
            self._running.discard(result.id)
        self._results.put(result)
        return wanted

    def _collect(self, job: RedoJob, packed: bytes) -> bytes:
        context = self._context
        what = f"{self._query}: redo of buckets {job.first} to {job.end}, {job.rows} rows"
        context.setJobGroup(self._group(job.id), what, True)
        if not self._results.expects(job.id):
            raise RuntimeError("cancelled before it was submitted")
        task = partial(run_partition, self._packed, self._task)
        (answer,) = context.parallelize([packed], 1).mapPartitions(task).collect()
        return bytes(answer)

    def _cancel(self, job_id: int) -> None:
        with suppress(Exception):  # a dead JVM runs nothing
            self._context.cancelJobGroup(self._group(job_id))


def explain(exc: Exception) -> str:
    """What Spark or its bridge threw, in one line for people."""
    java = getattr(exc, "java_exception", None)
    if java is not None:
        return f"Spark job failed: {_first_line(str(exc.args[-1] if exc.args else exc), java)}"
    names = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "EOFError")
    if type(exc).__name__ in names or "does not exist in the JVM" in str(exc):
        return "Spark's JVM does not answer: it has ended or was killed"
    if isinstance(exc, AttributeError) and "NoneType" in str(exc):
        return "the Spark session has been stopped"
    text = " ".join(str(exc).split())
    return f"Spark job failed: {type(exc).__name__}: {text}"[:500]


def _first_line(text: str, java: Any) -> str:
    try:
        text = str(java.getMessage()) or text
    except Exception:
        logging.getLogger(__name__).debug("no message from a dead JVM")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Python's own exception, where there is one, is the last line that looks like "Name: message".
    python = [x for x in lines if x.split(":")[0].endswith(("Error", "Exception")) and " " not in x.split(":")[0]]
    return (python[-1] if python else lines[0] if lines else "no message")[:500]
