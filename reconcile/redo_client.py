"""A redo by letter: a replica that runs as a Spark task asks the driver of its application for a job.

Whatever becomes of the driver (dead, hung, without a free slot, a newer one), a job that it has not taken in time ends
as a `RedoFailed`, and one that it took and never answers is forgotten by the replica at its own deadline (R4); either
way it runs inline. Not thread-safe: this belongs to the replica's loop, which polls `results` in every turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import structlog

from borealis_py.log.base import Feed, Log, LogError, Record, Wake
from borealis_py.log.clock import Clock
from borealis_py.log.codec import RowCodec
from borealis_py.protocol.redo import RedoFailed, RedoJob, RedoResult
from reconcile import rpc
from reconcile.redo_job import pack_job, unpack_result

log = structlog.get_logger("borealis.redo")

TAKE_US = 1_300_000
"""A job that was not taken by then will not be: the driver says "no free slot" a little earlier."""
AGAIN_S = 1.0
"""Between two attempts to hear the driver again."""


@dataclass(frozen=True, slots=True)
class TaskAddress:
    """Whom a task writes to. `session`: of its driver's application; `uid`: the asking incarnation."""

    session: str
    uid: str
    ask: Feed
    answer: Feed


@dataclass(slots=True)
class _PendingJob:
    began_us: int
    taken: bool = False


class _ResultReader:
    """The driver's letters from now on. When some are lost (a process that slept outlives retention), again from their
    end, which a thread asks for: `poll` never waits.

    Raises:
        LogError: they cannot be read.
    """

    def __init__(self, log_: Log, feed: Feed, wake: Wake) -> None:
        self._log, self._feed, self._wake = log_, feed, wake
        self._closed = threading.Event()
        self._again: int | None = None
        self.deaf = ""
        """Why nothing is heard now."""
        end = self._end()
        self._reader = log_.reader(wake)
        self._reader.open(feed, end)

    def poll(self) -> list[Record]:
        if self.deaf and self._again is None:
            return []
        try:
            if self._again is not None:
                end, self._again, self.deaf = self._again, None, ""
                self._reader.open(self._feed, end)
            return self._reader.poll()
        except LogError as exc:
            self.deaf = f"the driver's answers cannot be read: {exc}"
            log.warning("redos run inline until the driver is heard again", why=self.deaf)
            threading.Thread(target=self._find, name="hear the driver again", daemon=True).start()
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
    """`reconcile.redo_router.RedoRunner` that asks the driver.

    Args:
        codec: encodes states and decodes rows.
        deadline_s: what a job has once it runs; the replica's own deadline comes a little later.
        on_stop: called when the driver wants the task to end.

    Raises:
        LogError: the answers cannot be read.
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
    ) -> None:
        self._address = address
        self._codec = codec
        self._clock = clock
        self._budget_s = 0.9 * deadline_s
        self._on_stop = on_stop
        self._take_us = take_us
        self._asked: dict[int, _PendingJob] = {}
        self._ready: list[RedoResult] = []
        self._assembly = rpc.Reassembler()
        self._wake = wake
        self.why_inline = ""
        """Why the last job was not run by the driver; empty once it took one again."""
        self._inbox = _ResultReader(log_, address.answer, wake)
        self._appender = log_.appender(lambda: None)

    def start(self, job: RedoJob) -> None:
        if job.id in self._asked:
            raise ValueError(f"redo job {job.id} is running already")
        self._asked[job.id] = _PendingJob(self._clock.now_us())
        if self._inbox.deaf:
            self._fail(job.id, self._inbox.deaf)
            return
        packed = pack_job(job, self._codec, self._budget_s)
        if len(packed) > rpc.JOB_BYTES_MAX:
            self._fail(job.id, f"a state of {len(packed) >> 20} MB is too large to be sent to the driver")
        else:
            for letter in rpc.split(rpc.SubmitJob, self._address.session, (self._address.uid, job.id), packed):
                self._send(letter)

    def results(self) -> list[RedoResult]:
        self._read()
        self._check_taken()
        ready, self._ready = self._ready, []
        return ready

    def cancel(self, job_id: int) -> None:
        self._ready = [r for r in self._ready if r.id != job_id]
        if self._asked.pop(job_id, None) is not None:
            self._cancel(job_id)

    def tell(self, body: bytes) -> None:
        """Have the driver show this."""
        self._send(rpc.StatusReport(self._address.session, self._address.uid, body))

    def close(self) -> None:
        for job_id in list(self._asked):
            self.cancel(job_id)
        self._inbox.close()
        self._appender.close()

    def _read(self) -> None:
        records = self._inbox.poll()
        if self._inbox.deaf:
            for job_id in list(self._asked):
                self._fail(job_id, self._inbox.deaf)
        for _, letter in rpc.decode_all(records, self._address.session):
            self._take(letter)

    def _take(self, letter: rpc.RpcMessage) -> None:
        if isinstance(letter, rpc.Shutdown):
            self._on_stop()
        elif isinstance(letter, rpc.StatusReport) or letter.uid != self._address.uid or letter.id not in self._asked:
            return
        elif isinstance(letter, rpc.JobAccepted):
            self._asked[letter.id].taken = True
            self.why_inline = ""
        elif isinstance(letter, rpc.JobResult):
            body = self._assembly.add(letter)
            if body is not None:
                self._answered(letter.id, body)

    def _answered(self, job_id: int, body: bytes) -> None:
        asked = self._asked[job_id]
        seconds = (self._clock.now_us() - asked.began_us) / 1e6
        try:
            result = unpack_result(body, self._codec, "spark", seconds)
        except Exception as exc:  # not an answer at all: as good as none
            self._fail(job_id, f"the driver's answer cannot be read: {type(exc).__name__}: {exc}")
            return
        if not asked.taken and isinstance(result, RedoFailed):
            self.why_inline = result.reason
        del self._asked[job_id]
        self._ready.append(result)

    def _check_taken(self) -> None:
        now = self._clock.now_us()
        for job_id, asked in list(self._asked.items()):
            if not asked.taken and now - asked.began_us >= self._take_us:
                self._cancel(job_id)
                self._fail(job_id, f"the driver did not take the redo within {self._take_us / 1e6:g} s")

    def _fail(self, job_id: int, reason: str) -> None:
        del self._asked[job_id]
        self.why_inline = reason
        self._ready.append(RedoFailed(job_id, reason))
        self._wake()

    def _cancel(self, job_id: int) -> None:
        self._send(rpc.CancelJob(self._address.session, self._address.uid, job_id))

    def _send(self, letter: rpc.RpcMessage) -> None:
        self._appender.append(rpc.to_record(self._address.ask, letter))
