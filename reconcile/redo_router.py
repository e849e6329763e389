"""Who runs redo jobs for a replica: started from its turn, answered by polling, never waiting.

`ThreadRedo` runs a job in a thread of this process, `reconcile.spark_redo` as a Spark job; `reconcile.redo_client` asks
another process for it. Redos from memory are the pure core's own and not seen
here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from borealis_py.log.base import Wake
from borealis_py.protocol.redo import RedoDone, RedoJob, RedoPlace, RedoResult
from reconcile.redo_job import failed, run_job
from reconcile.replay_context import OpenReplayContext, ReplayContext

LOCAL_DEADLINE_S = 600.0
"""Of a job in a thread: nothing else is left to try."""


class RedoRunner(Protocol):
    """Runs jobs. No method blocks; `wake` (given when it was made) is called when `results` has something new."""

    def start(self, job: RedoJob) -> None:
        """Begin. Exactly one result comes for it, unless it is cancelled before."""

    def results(self) -> list[RedoResult]:
        """What has been answered since the last call."""

    def cancel(self, job_id: int) -> None:
        """Its result no longer matters: it is dropped, now or when it comes."""

    def close(self) -> None:
        """Cancel everything."""


class ResultQueue:
    """Answers on their way to the turn. Only jobs that are expected get through."""

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
        """Forget a job; True when its answer was still to come."""
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

    def take(self) -> list[RedoResult]:
        with self._lock:
            taken = list(self._ready)
            self._ready.clear()
            return taken

    def clear(self) -> list[int]:
        """Forget all jobs; returns those whose answers were still to come."""
        with self._lock:
            waiting = sorted(self._expected)
            self._expected.clear()
            self._ready.clear()
            return waiting


class ThreadRedo:
    """Runs jobs one after the other in a thread of this process, with a kernel and log clients of its own.

    For rows that left the memory of a replica without Spark, or whose Spark does not answer. The thread and what it
    needs come into being with the first job.

    Args:
        deadline_s: a job that takes longer is given up (RedoFailed).
    """

    def __init__(self, work: ReplayContext, wake: Wake, deadline_s: float = LOCAL_DEADLINE_S) -> None:
        self._work = work
        self._deadline_s = deadline_s
        self._results = ResultQueue(wake)
        self._jobs: deque[RedoJob] = deque()
        self._news = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self, job: RedoJob) -> None:
        self._results.expect(job.id)
        with self._news:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=f"redo {self._work.query}", daemon=True)
                self._thread.start()
            self._news.notify()

    def results(self) -> list[RedoResult]:
        return self._results.take()

    def cancel(self, job_id: int) -> None:
        self._results.drop(job_id)

    def close(self, timeout_s: float = 5.0) -> None:
        """Cancel everything and wait for the thread to let go of its clients."""
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


class RedoRouter:
    """Sends each job where it is to run: Spark, this process, or a peer's checkpoint.

    Args:
        spark: None: this host has no Spark.
        log: reads the log again, where Spark failed or is not to be and rows have left memory.
        peer: takes over another replica's checkpoint.
        why_inline: why Spark runs none now; empty when it does, or is not to. For the status.
    """

    def __init__(
        self, spark: RedoRunner | None, log: RedoRunner, peer: RedoRunner, why_inline: Callable[[], str] = lambda: ""
    ) -> None:
        self._of = {RedoPlace.SPARK: spark, RedoPlace.LOG: log, RedoPlace.PEER: peer}
        self.why_inline = why_inline

    @property
    def on_spark(self) -> bool:
        """Jobs may run on Spark."""
        return self._of[RedoPlace.SPARK] is not None

    def start(self, job: RedoJob, place: RedoPlace) -> None:
        runner = self._of[place]
        assert runner is not None, "the protocol knows whether there is a Spark"
        runner.start(job)

    def results(self) -> list[RedoResult]:
        return [result for redo in self._all for result in redo.results()]

    def cancel(self, job_id: int) -> None:
        for redo in self._all:
            redo.cancel(job_id)

    def close(self) -> None:
        for redo in self._all:
            redo.close()

    @property
    def _all(self) -> list[RedoRunner]:
        return [runner for runner in self._of.values() if runner is not None]
