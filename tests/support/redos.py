"""Redo jobs that fail, as when Spark is missing or dies."""

from __future__ import annotations

from borealis_py.log.base import Wake
from borealis_py.protocol.redo import RedoFailed, RedoJob, RedoResult


class FailingRedo:
    """Accepts each job, and answers at once that it has failed."""

    def __init__(self, reason: str, wake: Wake) -> None:
        self._reason, self._wake = reason, wake
        self._failed: list[RedoResult] = []

    def submit_job(self, job: RedoJob) -> None:
        self._failed.append(RedoFailed(job.id, self._reason))
        self._wake()

    def poll_results(self) -> list[RedoResult]:
        failed, self._failed = self._failed, []
        return failed

    def cancel_job(self, job_id: int) -> None:
        self._failed = [result for result in self._failed if result.id != job_id]

    def close(self) -> None: ...
