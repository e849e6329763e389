"""Redo jobs on Spark without a driver in between: what the executor itself takes."""

from __future__ import annotations

import time
from typing import Any

from borealis_py.log.base import Wake
from borealis_py.log.codec import RowCodec
from borealis_py.protocol.redo import RedoFailed, RedoJob, RedoResult
from reconcile.redo_job import pack_job, unpack_result
from reconcile.replay_context import ReplayContext
from reconcile.spark_executor import SparkExecutor


class ExecutorRedo:
    """`reconcile.redo_client.RedoRunner` of one node that packs a job, has Spark run it and unpacks the result.

    Args:
        context: a SparkContext that is warm. codec: encodes states and decodes rows.
        deadline_s: time limit of a job once it runs.
    """

    def __init__(self, context: Any, work: ReplayContext, codec: RowCodec, wake: Wake, deadline_s: float) -> None:
        self._node, self._codec, self._deadline_s = work.node, codec, deadline_s
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
