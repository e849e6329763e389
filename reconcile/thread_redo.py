"""Redo jobs in a thread of the replica's own process, without Spark (R4, R6)."""

from __future__ import annotations

import threading
import time
from collections import deque

from borealis_py.log.base import Wake
from borealis_py.protocol.redo import RedoDone, RedoJob, RedoResult
from reconcile.redo_job import failed, run_job
from reconcile.replay_context import OpenReplayContext, ReplayContext

LOCAL_DEADLINE_S = 600.0
"""Limit of a job in a thread. It is long: no other way to run the job is left."""


class ResultQueue:
    """A thread-safe queue of results for the turn. It drops results of jobs that are not expected (any more)."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._expected: set[int] = set()
        self._ready: deque[RedoResult] = deque()

    def expect(self, job_id: int) -> None:
        with self._lock:
            if job_id in self._expected:
                raise ValueError(f"redo job {job_id} is running already")
            self._expected.add(job_id)

    def drop(self, job_id: int) -> bool:
        """Forget a job. Returns whether its result was still awaited."""
        with self._lock:
            waiting = job_id in self._expected
            self._expected.discard(job_id)
            self._ready = deque(r for r in self._ready if r.id != job_id)
            return waiting

    def put(self, result: RedoResult) -> None:
        with self._lock:
            if result.id not in self._expected:
                return
            self._expected.discard(result.id)
            self._ready.append(result)
        self._wake()

    def expects(self, job_id: int) -> bool:
        with self._lock:
            return job_id in self._expected

    def drain(self) -> list[RedoResult]:
        with self._lock:
            taken = list(self._ready)
            self._ready.clear()
            return taken

    def clear(self) -> list[int]:
        """Forget all jobs. Returns those whose results were still awaited."""
        with self._lock:
            waiting = sorted(self._expected)
            self._expected.clear()
            self._ready.clear()
            return waiting


class ThreadRedo:
    """Runs jobs one after the other in a thread of this process, with a kernel and log clients of its own.

    It serves rows that left a replica's memory if the replica has no Spark, or Spark does not answer. The first job
    starts the thread and opens its clients.

    Args:
        deadline_s: a job that takes longer fails (RedoFailed).
    """

    def __init__(self, work: ReplayContext, wake: Wake, deadline_s: float = LOCAL_DEADLINE_S) -> None:
        self._work = work
        self._deadline_s = deadline_s
        self._results = ResultQueue(wake)
        self._jobs: deque[RedoJob] = deque()
        self._news = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit_job(self, job: RedoJob) -> None:
        self._results.expect(job.id)
        with self._news:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=f"redo {self._work.node}", daemon=True)
                self._thread.start()
            self._news.notify()

    def poll_results(self) -> list[RedoResult]:
        return self._results.drain()

    def cancel_job(self, job_id: int) -> None:
        self._results.drop(job_id)

    def close(self, timeout_s: float = 5.0) -> None:
        """Cancel all jobs and wait up to `timeout_s` for the thread to close its clients."""
        self._results.clear()
        with self._news:
            self._closed = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _loop(self) -> None:
        on: OpenReplayContext | None = None
        while (job := self._wait()) is not None:
            if not self._results.expects(job.id):
                continue
            started = time.monotonic()
            try:
                on = on or self._work.open()
                state, outputs = run_job(job, on, started + self._deadline_s)
                self._results.put(RedoDone(job.id, state, outputs, "inline", time.monotonic() - started))
            except Exception as exc:
                self._results.put(failed(job.id, exc))
                if on is not None:
                    on.close()
                    on = None
        if on is not None:
            on.close()

    def _wait(self) -> RedoJob | None:
        with self._news:
            self._news.wait_for(lambda: self._jobs or self._closed)
            return None if self._closed else self._jobs.popleft()
