"""The driver's side of redos by letter: takes what its application's tasks ask for, runs it on free slots, answers.

Holds no state of the data path: a driver that dies takes nothing with it but the jobs that ran. `turn` never waits; its
host calls it when something arrives and from time to time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from borealis_py.log.base import Feed, Log, LogError, Wake
from borealis_py.log.clock import Clock
from reconcile import rpc
from reconcile.redo_job import PackedDone, PackedFailed

log = structlog.get_logger("borealis.redo")

WAIT_US = 1_000_000
"""A job that has no slot by then is refused: running it inline is sooner."""
HELD_US = 2_000_000
"""Spark kills the worker of a cancelled job; its slot is free so much later."""


class JobExecutor(Protocol):
    """Runs packed jobs, each on a slot of its own. No method blocks."""

    def start(self, ticket: int, node: str, packed: bytes) -> None:
        """Begin. Exactly one end comes for it, also when it is cancelled."""

    def ended(self) -> list[tuple[int, bytes | str]]:
        """Since the last call: ticket, and the packed answer or why there is none."""

    def cancel(self, ticket: int) -> None: ...


@dataclass(frozen=True, slots=True)
class TaskChannel:
    """Where the task of one node asks and is answered."""

    node: str
    ask: Feed
    answer: Feed


@dataclass(slots=True)
class _QueuedJob:
    """A job that waits or runs."""

    desk: TaskChannel
    job: rpc.JobKey
    packed: bytes
    came_us: int
    cancelled: bool = False


class RedoServer:
    """Serves the tasks of one session; tells them when to stop.

    Args:
        session: letters of another one are ignored.
        count: slots that redos may take at a time; 0: every job is refused at once.
        on_told: given what tasks tell of themselves.

    Raises:
        LogError: the tasks' letters cannot be read.
    """

    def __init__(
        self,
        log_: Log,
        desks: list[TaskChannel],
        session: str,
        slots: JobExecutor,
        count: int,
        wake: Wake,
        clock: Clock,
        on_told: Callable[[bytes], None] = lambda body: None,
    ) -> None:
        self._log = log_
        self._desks: Mapping[Feed, TaskChannel] = {desk.ask: desk for desk in desks}
        self._session = session
        self._slots = slots
        self._count = count
        self._clock = clock
        self._on_told = on_told
        self._assemblies = {desk.ask: rpc.Reassembler() for desk in desks}
        self._waiting: deque[_QueuedJob] = deque()
        self._running: dict[int, _QueuedJob] = {}
        self._held_until: list[int] = []
        self._tickets = 0
        self._reader, self._appender = log_.reader(wake), log_.appender(lambda: None)
        self._open()

    def turn(self) -> None:
        """Read letters, take ends, give free slots to who waits, refuse who waited too long. Never raises LogError."""
        now = self._clock.now_us()
        for feed, letter in self._letters():
            if isinstance(letter, rpc.SubmitJob):
                self._asked(self._desks[feed], letter, now)
            elif isinstance(letter, rpc.CancelJob):
                self._cancelled((letter.uid, letter.id))
            elif isinstance(letter, rpc.StatusReport):
                self._on_told(letter.body)
        for ticket, end in self._slots.ended():
            self._ended(ticket, end, now)
        self._dispatch(now)

    def stop_tasks(self, timeout_s: float = 1.0) -> None:
        """Tell every task to end in order. May be repeated."""
        for desk in self._desks.values():
            self._send(desk, rpc.Shutdown(self._session))
        self._appender.flush(timeout_s)

    def close(self) -> None:
        """Cancel what runs and let go of the log."""
        for ticket in self._running:
            self._slots.cancel(ticket)
        self._reader.close()
        self._appender.close()

    def _open(self) -> None:
        """From now on: what was asked of an earlier session is nothing to this one."""
        with closing(self._log.lookup()) as lookup:
            for feed in self._desks:
                self._reader.open(feed, lookup.bounds(feed)[1])

    def _letters(self) -> list[tuple[Feed, rpc.RpcMessage]]:
        try:
            return rpc.decode_all(self._reader.poll(), self._session)
        except LogError as exc:
            log.warning("letters of the tasks are lost; what they ask runs inline", why=str(exc))
            try:
                self._open()
            except LogError as again:
                log.warning("cannot read what tasks ask", why=str(again))
            return []

    def _asked(self, desk: TaskChannel, letter: rpc.SubmitJob, now: int) -> None:
        packed, job = self._assemblies[desk.ask].add(letter), (letter.uid, letter.id)
        known = any(errand.job == job for errand in (*self._waiting, *self._running.values()))
        if packed is not None and not known:
            self._waiting.append(_QueuedJob(desk, job, packed, now))

    def _cancelled(self, job: rpc.JobKey) -> None:
        self._waiting = deque(e for e in self._waiting if e.job != job)
        for ticket, errand in self._running.items():
            if errand.job == job and not errand.cancelled:
                errand.cancelled = True
                self._slots.cancel(ticket)

    def _ended(self, ticket: int, end: bytes | str, now: int) -> None:
        errand = self._running.pop(ticket)
        if errand.cancelled:
            self._held_until.append(now + HELD_US)
        elif isinstance(end, bytes) and len(end) > rpc.JOB_BYTES_MAX:
            self._refuse(errand, f"an answer of {len(end) >> 20} MB is too large to be sent")
        elif isinstance(end, bytes):
            self._answer(errand, end)
        else:
            self._refuse(errand, end)

    def _dispatch(self, now: int) -> None:
        self._held_until = [t for t in self._held_until if t > now]
        while self._waiting:
            if not self._count or now - self._waiting[0].came_us >= WAIT_US:
                self._refuse(self._waiting.popleft(), self._why_full())
            elif len(self._running) + len(self._held_until) < self._count:
                self._start(self._waiting.popleft())
            else:
                return

    def _start(self, errand: _QueuedJob) -> None:
        self._tickets += 1
        self._running[self._tickets] = errand
        self._slots.start(self._tickets, errand.desk.node, errand.packed)
        self._send(errand.desk, rpc.JobAccepted(self._session, *errand.job))

    def _why_full(self) -> str:
        if not self._count:
            return "the application has no slot for redos"
        slots = f"{self._count} slot{'s' if self._count != 1 else ''} for redos"
        return f"no free slot within {WAIT_US / 1e6:g} s: the application has {slots}"

    def _refuse(self, errand: _QueuedJob, reason: str) -> None:
        answer: PackedDone | PackedFailed = PackedFailed(errand.job[1], reason)
        self._answer(errand, msgspec.msgpack.encode(answer))

    def _answer(self, errand: _QueuedJob, body: bytes) -> None:
        for letter in rpc.split(rpc.JobResult, self._session, errand.job, body):
            self._send(errand.desk, letter)

    def _send(self, desk: TaskChannel, letter: rpc.RpcMessage) -> None:
        self._appender.append(rpc.to_record(desk.answer, letter))
