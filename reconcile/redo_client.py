"""The replica's side of redos: `RedoRouter` sends a job to its runner, `RemoteRedo` submits it to the Spark driver.

A driver may be dead, hung, without a free slot or replaced by a newer one. A job that it does not accept in time ends
as `RedoFailed`; the replica forgets an accepted job without a result at its own deadline (R4.4). Either way the
buckets run inline. Not thread-safe: the replica's loop owns these objects and polls `results` in every turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Protocol

import structlog

from borealis_py.log.base import Feed, Log, LogError, Record, Wake
from borealis_py.log.clock import Clock
from borealis_py.log.codec import RowCodec
from borealis_py.protocol.job_time import SPARE
from borealis_py.protocol.redo import MEASURED, RedoFailed, RedoJob, RedoPlace, RedoResult
from reconcile import rpc
from reconcile.redo_job import pack_job, unpack_result
from sunion.errors import IllegalTransition

log = structlog.get_logger(__package__)

TAKE_US = 1_300_000
"""A driver accepts or refuses a job sooner than this where nothing is busy; a job without either reply fails."""
TAKE_MOST_US = 4_000_000
"""It is waited for up to this long where earlier ones took long to be accepted."""
MEASURE_US = 5_000_000
"""How long after its start, and after a failure, a task measures what a job takes: its worker is warm by then."""
AGAIN_S = 1.0
"""Pause between two attempts to look up the end of the driver's replies."""


MEASURE_MOST_US = 15_000_000
"""A measurement is given up after this long, and begun again."""


class RedoRunner(Protocol):
    """Runs jobs. No method blocks; a runner calls the `wake` it was made with when `poll_results` has something new."""

    def submit_job(self, job: RedoJob) -> None:
        """Begin a job. It yields exactly one result unless it is cancelled before."""

    def poll_results(self) -> list[RedoResult]:
        """The results since the last call."""

    def cancel_job(self, job_id: int) -> None:
        """Drop the job's result, now or when it comes."""

    def close(self) -> None:
        """Cancel every job."""


class RedoRouter:
    """Sends each job where it is to run: Spark, this process, or a peer's checkpoint.

    Args:
        spark: runs jobs on Spark; None: this host has no Spark.
        log: reads the log again in this process, for rows that have left memory where Spark is absent or has failed.
        peer: takes over another replica's checkpoint.
        why_inline: the reason why Spark runs no jobs now, for the status; empty: it does, or the host has no Spark.
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

    def submit_job(self, job: RedoJob, place: RedoPlace) -> None:
        runner = self._of[place]
        if runner is None:
            raise IllegalTransition(f"redo job {job.id} for {place.value}, which this replica does not have")
        runner.submit_job(job)

    def poll_results(self) -> list[RedoResult]:
        return [result for redo in self._all for result in redo.poll_results()]

    def cancel_job(self, job_id: int) -> None:
        for redo in self._all:
            redo.cancel_job(job_id)

    def close(self) -> None:
        for redo in self._all:
            redo.close()

    @property
    def _all(self) -> list[RedoRunner]:
        return [runner for runner in self._of.values() if runner is not None]


@dataclass(frozen=True, slots=True)
class TaskAddress:
    """The partitions of a task's `requests` and of the `responses` to it. `session`: of its driver's
    application; `uid`: of the submitting incarnation."""

    session: str
    uid: str
    requests: Feed
    responses: Feed


@dataclass(slots=True)
class _PendingJob:
    began_us: int
    within_us: int
    """A result that comes later is of no use."""
    taken: bool = False


class ReplyReader:
    """Reads the driver's replies from now on. If records were deleted before they were read (a process that slept
    longer than retention), reading resumes at the log's end, which a thread looks up: `poll` never waits.

    Raises:
        LogError: the replies cannot be read.
    """

    def __init__(self, log_: Log, feed: Feed, wake: Wake) -> None:
        self._log = log_
        self._feed = feed
        self._wake = wake
        self._closed = threading.Event()
        self._again: int | None = None
        self.unreadable_because = ""
        """Why replies cannot be read now; empty: they can."""
        end = self._end()
        with ExitStack() as opened:
            self._reader = opened.enter_context(closing(log_.reader(wake, seldom=True)))
            self._reader.open(feed, end)
            opened.pop_all()

    def poll(self) -> list[Record]:
        if self.unreadable_because and self._again is None:
            return []
        try:
            if self._again is not None:
                end, self._again, self.unreadable_because = self._again, None, ""
                self._reader.open(self._feed, end)
            return self._reader.poll()
        except LogError as exc:
            self.unreadable_because = f"the driver's replies cannot be read: {exc}"
            log.warning("redos run inline until the driver's replies can be read again", why=self.unreadable_because)
            threading.Thread(target=self._find, name="find the replies' end", daemon=True).start()
            return []

    def close(self) -> None:
        self._closed.set()
        self._reader.close()

    def _find(self) -> None:
        while not self._closed.is_set():
            try:
                self._again = self._end()
            except LogError:
                self._closed.wait(AGAIN_S)
            else:
                return self._wake()

    def _end(self) -> int:
        with closing(self._log.lookup()) as lookup:
            return lookup.bounds(self._feed)[1]


class RemoteRedo:
    """`RedoRunner` that submits jobs to the driver.

    Args:
        codec: encodes states and decodes rows.
        deadline_s: time limit of a job once it runs, unless it has a deadline of its own; the replica's own deadline
            comes a little later.
        on_stop: called when the driver asks the task to end.
        measure: a job without buckets, run once to learn what a job takes here (its result has the id `MEASURED`).

    Raises:
        LogError: the replies cannot be read.
    """

    def __init__(
        self,
        log_: Log,
        address: TaskAddress,
        codec: RowCodec,
        wake: Wake,
        clock: Clock,
        deadline_s: float,
        on_stop: Callable[[], None] = lambda: None,
        take_us: int = TAKE_US,
        measure: RedoJob | None = None,
    ) -> None:
        self._address = address
        self._codec = codec
        self._clock = clock
        self._budget_s = 0.9 * deadline_s
        self._on_stop = on_stop
        self._take_us = take_us
        self._take_least_us = take_us
        self._measure = measure
        self._measure_at = clock.now_us() + MEASURE_US
        self._pending: dict[int, _PendingJob] = {}
        self._ready: list[RedoResult] = []
        self._assembly = rpc.Reassembler()
        self._wake = wake
        self.closed = False
        self.why_inline = ""
        """Why the driver did not run the last job; empty once it accepts one again."""
        with ExitStack() as opened:  # a task that fails to begin must leave nothing open: it is started again
            self._appender = opened.enter_context(closing(log_.appender(lambda: None)))
            self._inbox = opened.enter_context(closing(ReplyReader(log_, address.responses, wake)))
            self._opened = opened.pop_all()

    def submit_job(self, job: RedoJob) -> None:
        if job.id in self._pending:
            raise ValueError(f"redo job {job.id} is running already")
        budget_us = round(1e6 * self._budget_s if job.deadline_us is None else 0.9 * job.deadline_us)
        self._pending[job.id] = _PendingJob(self._clock.now_us(), budget_us)
        if self._inbox.unreadable_because:
            self._fail(job.id, self._inbox.unreadable_because)
            return
        packed = pack_job(job, self._codec, budget_us / 1e6)
        if len(packed) > rpc.STATE_BYTES_MAX:
            self._fail(job.id, f"a state of {len(packed) >> 20} MB is too large to be sent to the driver")
        else:
            for message in rpc.split(rpc.SubmitJob, self._address.session, (self._address.uid, job.id), packed):
                self._send(message)

    def poll_results(self) -> list[RedoResult]:
        self._read()
        self._check_taken()
        self._measure_once()
        ready, self._ready = self._ready, []
        return ready

    def cancel_job(self, job_id: int) -> None:
        self._ready = [r for r in self._ready if r.id != job_id]
        if self._pending.pop(job_id, None) is not None:
            self._cancel(job_id)

    def tell(self, body: bytes) -> None:
        """Send a status for the driver's HTTP pages."""
        self._send(rpc.StatusReport(self._address.session, self._address.uid, body))

    def close(self) -> None:
        for job_id in list(self._pending):
            self.cancel_job(job_id)
        self.closed = True
        self._opened.close()

    def _read(self) -> None:
        records = self._inbox.poll()
        if self._inbox.unreadable_because:
            for job_id in list(self._pending):
                self._fail(job_id, self._inbox.unreadable_because)
        for _, message in rpc.decode_all(records, self._address.session):
            self._take(message)

    def _take(self, message: rpc.RpcMessage) -> None:
        if isinstance(message, rpc.Shutdown):
            self._on_stop()
        elif not isinstance(message, rpc.JobAccepted | rpc.JobResult) or (
            message.uid != self._address.uid or message.id not in self._pending
        ):
            return
        elif isinstance(message, rpc.JobAccepted):
            pending = self._pending[message.id]
            pending.taken = True
            self._wait_for_taking(SPARE * (self._clock.now_us() - pending.began_us))
            self.why_inline = ""
        else:
            body = self._assembly.add(message)
            if body is not None:
                self._answered(message.id, body)

    def _answered(self, job_id: int, body: bytes) -> None:
        pending = self._pending[job_id]
        seconds = (self._clock.now_us() - pending.began_us) / 1e6
        try:
            result = unpack_result(body, self._codec, "spark", seconds)
        except Exception as exc:  # no result at all counts as a failure
            self._fail(job_id, f"the driver's answer cannot be read: {type(exc).__name__}: {exc}")
            return
        if isinstance(result, RedoFailed) and (job_id == MEASURED or not pending.taken):
            self._fail(job_id, result.reason)
            return
        del self._pending[job_id]
        if job_id == MEASURED:
            self._measure = None
        self._ready.append(result)

    def _check_taken(self) -> None:
        now = self._clock.now_us()
        for job_id, pending in list(self._pending.items()):
            take_us = min(self._take_us, pending.within_us)  # the replica's own deadline would not tell why
            if not pending.taken and now - pending.began_us >= take_us:
                self._cancel(job_id)
                self._fail(job_id, f"the driver did not accept the redo within {take_us / 1e6:.3g} s")
                self._wait_for_taking(2 * self._take_us)

    def _wait_for_taking(self, us: int) -> None:
        """Wait so long for the next job to be accepted, within bounds."""
        self._take_us = max(self._take_least_us, min(us, TAKE_MOST_US))

    def _measure_once(self) -> None:
        now = self._clock.now_us()
        begun = self._pending.get(MEASURED)
        if begun is not None and now - begun.began_us >= MEASURE_MOST_US:
            self.cancel_job(MEASURED)  # it would hold a slot
        if self._measure is not None and not self._pending and now >= self._measure_at:
            self._measure_at = now + MEASURE_US
            self.submit_job(self._measure)

    def _fail(self, job_id: int, reason: str) -> None:
        del self._pending[job_id]
        if job_id == MEASURED:
            return  # nobody waits for it; it is tried again
        self.why_inline = reason
        self._ready.append(RedoFailed(job_id, reason))
        self._wake()

    def _cancel(self, job_id: int) -> None:
        self._send(rpc.CancelJob(self._address.session, self._address.uid, job_id))

    def _send(self, message: rpc.RpcMessage) -> None:
        self._appender.append(rpc.to_record(self._address.requests, message))
