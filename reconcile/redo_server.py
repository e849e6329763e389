"""The driver's side of redos: accepts the jobs that its application's tasks submit, runs them on free slots, replies.

It holds no state of the data path: a driver that dies loses only the jobs that were running. `turn` never waits; its
host calls it when something arrives and from time to time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from borealis_py.log.base import Feed, Log, LogError, Wake
from borealis_py.log.clock import Clock
from reconcile import rpc
from reconcile.redo_job import PackedDone, PackedFailed

log = structlog.get_logger(__package__)

WAIT_US = 1_000_000
"""A job that has waited this long for a slot is refused: the replica is sooner done inline."""
HELD_US = 2_000_000
"""Spark kills the worker of a cancelled job; the slot counts as taken for this long."""


class JobExecutor(Protocol):
    """Runs packed jobs, each on its own slot. No method blocks."""

    def execute(self, handle: int, node: str, packed: bytes) -> None:
        """Begin the job. Each job finishes exactly once, also if it is cancelled."""

    def take_finished(self) -> list[tuple[int, bytes | str]]:
        """Jobs finished since the last call: handle, and the packed result or the reason why there is none."""

    def cancel(self, handle: int) -> None: ...


@dataclass(frozen=True, slots=True)
class TaskChannel:
    """The partitions of `requests` and `responses` of the task of `node`, or of one of its partitions."""

    node: str
    requests: Feed
    responses: Feed


@dataclass(slots=True)
class _QueuedJob:
    """A job that waits for a slot or runs."""

    channel: TaskChannel
    job: rpc.JobKey
    packed: bytes
    came_us: int
    cancelled: bool = False


class RedoServer:
    """Serves the tasks of one session.

    Args:
        session: of this driver's application. Messages of another session are ignored.
        count: slots that redos may take at a time. 0: every job is refused at once.
        on_status: called with the body of each status report of a task. on_standbys: with each report of the standby
            task.

    Raises:
        LogError: the tasks' requests cannot be read.
    """

    def __init__(
        self,
        log_: Log,
        channels: list[TaskChannel],
        session: str,
        executor: JobExecutor,
        count: int,
        wake: Wake,
        clock: Clock,
        on_status: Callable[[bytes], None] = lambda body: None,
        on_standbys: Callable[[rpc.StandbysReport], None] = lambda report: None,
    ) -> None:
        self._log = log_
        self._channels: Mapping[Feed, TaskChannel] = {channel.requests: channel for channel in channels}
        self._session = session
        self._executor = executor
        self._count = count
        self._clock = clock
        self._on_status = on_status
        self._on_standbys = on_standbys
        self._assemblies = {channel.requests: rpc.Reassembler() for channel in channels}
        self._waiting: deque[_QueuedJob] = deque()
        self._running: dict[int, _QueuedJob] = {}
        self._held_until: list[int] = []
        self._last_handle = 0
        with ExitStack() as opened:  # a driver that fails to begin must leave nothing open: it tries again
            self._appender = opened.enter_context(closing(log_.appender(lambda: None)))
            self._reader = opened.enter_context(closing(log_.reader(wake, seldom=True)))
            self._open()
            self._opened = opened.pop_all()

    def turn(self) -> None:
        """Read requests, collect finished jobs, start waiting ones on free slots, refuse overdue ones. A LogError is
        only logged."""
        now = self._clock.now_us()
        for feed, message in self._messages():
            if isinstance(message, rpc.SubmitJob):
                self._submitted(self._channels[feed], message, now)
            elif isinstance(message, rpc.CancelJob):
                self._cancelled((message.uid, message.id))
            elif isinstance(message, rpc.StatusReport):
                self._on_status(message.body)
            elif isinstance(message, rpc.StandbysReport):
                self._on_standbys(message)
        for handle, end in self._executor.take_finished():
            self._ended(handle, end, now)
        self._dispatch(now)

    @property
    def waits(self) -> bool:
        """Whether a turn is due soon though nothing comes: jobs wait for a slot."""
        return bool(self._waiting)

    def stop_tasks(self, timeout_s: float = 1.0) -> None:
        """Send every task a Shutdown. May be repeated."""
        for channel in self._channels.values():
            self._send(channel, rpc.Shutdown(self._session))
        self._appender.flush(timeout_s)

    def order_standbys(self, channel: TaskChannel, orders: Mapping[str, rpc.IncarnationOrder]) -> None:
        """Tell the standby task, which reads that channel, what to run. May be repeated, in any thread."""
        self._send(channel, rpc.StandbysOrder(self._session, dict(orders)))

    def close(self) -> None:
        """Cancel the running jobs and close the log clients."""
        for handle in self._running:
            self._executor.cancel(handle)
        self._opened.close()

    def _open(self) -> None:
        """Read requests from the log's end on: earlier ones were submitted to an earlier session."""
        with closing(self._log.lookup()) as lookup:
            for feed in self._channels:
                self._reader.open(feed, lookup.bounds(feed)[1])

    def _messages(self) -> list[tuple[Feed, rpc.RpcMessage]]:
        try:
            return rpc.decode_all(self._reader.poll(), self._session)
        except LogError as exc:
            log.warning("requests of the tasks were lost; their redos run inline", why=str(exc))
            try:
                self._open()
            except LogError as again:
                log.warning("cannot read the tasks' requests", why=str(again))
            return []

    def _submitted(self, channel: TaskChannel, message: rpc.SubmitJob, now: int) -> None:
        packed, job = self._assemblies[channel.requests].add(message), (message.uid, message.id)
        known = any(queued.job == job for queued in (*self._waiting, *self._running.values()))
        if packed is not None and not known:
            self._waiting.append(_QueuedJob(channel, job, packed, now))

    def _cancelled(self, job: rpc.JobKey) -> None:
        self._waiting = deque(e for e in self._waiting if e.job != job)
        for handle, queued in self._running.items():
            if queued.job == job and not queued.cancelled:
                queued.cancelled = True
                self._executor.cancel(handle)

    def _ended(self, handle: int, end: bytes | str, now: int) -> None:
        queued = self._running.pop(handle)
        if queued.cancelled:
            self._held_until.append(now + HELD_US)
        elif isinstance(end, bytes) and len(end) > rpc.JOB_BYTES_MAX:
            self._refuse(queued, f"an answer of {len(end) >> 20} MB is too large to be sent")
        elif isinstance(end, bytes):
            self._answer(queued, end)
        else:
            self._refuse(queued, end)

    def _dispatch(self, now: int) -> None:
        self._held_until = [t for t in self._held_until if t > now]
        while self._waiting:
            if not self._count or now - self._waiting[0].came_us >= WAIT_US:
                self._refuse(self._waiting.popleft(), self._why_full())
            elif len(self._running) + len(self._held_until) < self._count:
                self._start(self._waiting.popleft())
            else:
                return

    def _start(self, queued: _QueuedJob) -> None:
        self._last_handle += 1
        self._running[self._last_handle] = queued
        self._executor.execute(self._last_handle, queued.channel.node, queued.packed)
        self._send(queued.channel, rpc.JobAccepted(self._session, *queued.job))

    def _why_full(self) -> str:
        if not self._count:
            return "the application has no slot for redos"
        slots = f"{self._count} slot{'s' if self._count != 1 else ''} for redos"
        return f"no free slot within {WAIT_US / 1e6:g} s: the application has {slots}"

    def _refuse(self, queued: _QueuedJob, reason: str) -> None:
        answer: PackedDone | PackedFailed = PackedFailed(queued.job[1], reason)
        self._answer(queued, msgspec.msgpack.encode(answer))

    def _answer(self, queued: _QueuedJob, body: bytes) -> None:
        for message in rpc.split(rpc.JobResult, self._session, queued.job, body):
            self._send(queued.channel, message)

    def _send(self, channel: TaskChannel, message: rpc.RpcMessage) -> None:
        self._appender.append(rpc.to_record(channel.responses, message))
