"""A Spark task: one incarnation of one replica, by the same `run_replica` as in a process.

A task receives everything as a value and returns how its incarnation ended. The driver decides whether there will be
another (`application.py`), so that every reason is in the driver's log.
"""

from __future__ import annotations

import os
import pickle
import platform
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec
import structlog

from borealis_py.app.replica_health import idles
from borealis_py.config.logs import configure_logs
from borealis_py.log.base import Appender, Log, LogError, Wake
from borealis_py.log.clock import SystemClock
from borealis_py.log.kernel import Kernel
from borealis_py.log.topics import redo_feeds
from borealis_py.log.unreadable import total
from borealis_py.node.reporter import StatusSnapshot
from borealis_py.node.run import LostWhileRunning, run_replica
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.redo import MEASURED, RedoJob, SourceRange
from borealis_py.runtime.ends import ENDS, KernelDiffers
from borealis_py.runtime.spark.parent_watchdog import ended_with_host
from borealis_py.runtime.specs import kernel_of, new_uid, work_of
from reconcile.redo_client import RedoRouter, RedoRunner, RemoteRedo, TaskAddress
from reconcile.redo_job import evict_all
from reconcile.rpc import IncarnationEnd, StatusReport, to_record
from reconcile.thread_redo import ThreadRedo
from sunion.bucket import Buckets
from sunion.source import SourceFold
from sunion.units import Bucket, Offset

log = structlog.get_logger(__package__)

_ENDS: dict[str, type[Exception]] = {"lost": LostWhileRunning, **{end.kind: end.type for end in ENDS}}


class TaskEnd(IncarnationEnd, frozen=True):
    """How an incarnation ended; `kind`: "", "failed", or a key of `_ENDS`."""

    def reraise(self) -> None:
        """Raise in the driver the error that ended the incarnation."""
        if self.kind in _ENDS:
            raise _ENDS[self.kind](self.why)
        if self.kind:
            raise LogError(self.why)


@dataclass(frozen=True, slots=True)
class NodeTask:
    """One replica of one node, or of one of its partitions, which run as nodes of their own.

    Args:
        spec: what the replica needs, as without Spark. session: of the driver's application.
        fingerprints: kernels that may run the app.
        rpc_log: the log for messages to its driver (the data's, with longer polls).
        log_file: where the driver writes its log on this machine; empty, or gone: the worker's standard error is used.
        log_bounded: whether that file is rotated when it is too large, by any process that notices.
        moves: its replica has an incarnation elsewhere, whose place this one is to take.
    """

    spec: ReplicaSpec
    session: str
    fingerprints: tuple[str, ...]
    rpc_log: Log
    log_file: str = ""
    log_bounded: bool = False
    moves: bool = False

    @property
    def name(self) -> str:
        return self.spec.name

    def pack(self) -> bytes:
        return pickle.dumps(self)

    def run(self) -> TaskEnd:
        """Run one incarnation in this thread, which is the worker's main one."""
        stop = threading.Event()
        with ended_with_host(stop):
            return self.run_until(stop)

    def run_until(self, stop: threading.Event, shared: str = "") -> TaskEnd:
        """Run one incarnation in this thread, which may be any.

        Args:
            shared: what it shares its worker with, for the log; empty: it has one of its own.
        """
        from borealis_py.engine.fingerprint import ingredients  # here: drivers load no engine
        from borealis_py.runtime.kernel_check import check_kernel

        try:
            check_kernel(self.spec, self.fingerprints)
            self._run(stop, shared)
        except KernelDiffers as exc:
            return TaskEnd("kernel", f"{exc}. {different(self.spec.made_of, ingredients(), platform.node())}")
        except Exception as exc:
            return _end_of(exc)
        return TaskEnd()

    def _run(self, stop: threading.Event, shared: str) -> None:
        spec, uid = self.spec, new_uid(self.spec)
        line, beside = log.bind(node=spec.node, replica=spec.replica), {"shared": shared} if shared else {}
        line.info("replica runs as a Spark task", worker_pid=os.getpid(), **beside)
        with closing(_Link(self, uid)) as link:
            redos = partial(self._make_redos, link, uid, stop)
            run_replica(spec, kernel_of(spec), redos, stop, uid, seen=link.tell, moves=self.moves)

    def _make_redos(
        self, link: _Link, uid: str, stop: threading.Event, kernel: Kernel, wake: Wake, peer: RedoRunner
    ) -> RedoRouter:
        spec = self.spec
        ask, answer = redo_feeds(spec.app, spec.node, spec.replica)
        deadline_s = spec.timing.redo_deadline_us / 1e6
        address = TaskAddress(self.session, uid, ask, answer)
        link.asking = asking = RemoteRedo(
            self.rpc_log, address, kernel, wake, SystemClock(), deadline_s, stop.set, measure=_empty_job(spec, kernel)
        )
        local = ThreadRedo(work_of(spec), wake)
        return RedoRouter(asking, local, peer, why_inline=lambda: asking.why_inline)


def _empty_job(spec: ReplicaSpec, kernel: Kernel) -> RedoJob:
    """A job without buckets: all that a job takes but its rows."""
    fold = SourceFold(Buckets(spec.bucket_us).start(spec.origin))
    ranges = [SourceRange(i, Offset(0), Offset(0), fold) for i, of in enumerate(spec.inputs) if not of.replicas]
    origin = Bucket(spec.origin)
    return RedoJob(id=MEASURED, first=origin, end=origin, state=kernel.initial(), ranges=tuple(ranges), rows=0)


class _Link:
    """Forwards the loop's statuses to the driver: with its redos' messages, or without while it stands by and does not
    compute, as it has none."""

    def __init__(self, task: NodeTask, uid: str) -> None:
        self.asking: RemoteRedo | None = None
        self._task = task
        self._uid = uid
        self._appender: Appender | None = None

    def tell(self, snapshot: StatusSnapshot) -> None:
        if self.asking is not None and not self.asking.closed:
            self.asking.tell(pack_snapshot(snapshot))
        elif idles(snapshot.status):
            spec = self._task.spec
            told = StatusReport(self._task.session, self._uid, pack_snapshot(snapshot))
            self._appender = self._appender or self._task.rpc_log.appender(lambda: None)
            self._appender.append(to_record(redo_feeds(spec.app, spec.node, spec.replica)[0], told))

    def close(self) -> None:
        if self._appender is not None:
            self._appender.close()


_snapshot = msgspec.msgpack.Decoder(StatusSnapshot).decode


def pack_snapshot(snapshot: StatusSnapshot) -> bytes:
    return msgspec.msgpack.encode(snapshot)


def unpack_snapshot(body: bytes) -> StatusSnapshot | None:
    """Decode a snapshot; None: written by another version."""
    try:
        return total(_snapshot, body)
    except msgspec.MsgspecError:
        return None


def _end_of(exc: Exception) -> TaskEnd:
    for kind, type_ in _ENDS.items():
        if isinstance(exc, type_):
            return TaskEnd(kind, str(exc))
    if not isinstance(exc, LogError):
        log.error("replica failed", why=f"{type(exc).__name__}: {exc}", exc_info=exc)
    return TaskEnd("failed", str(exc) if isinstance(exc, LogError) else f"{type(exc).__name__}: {exc}")


def different(described: Iterable[tuple[str, str]], worker: Mapping[str, str], host: str) -> str:
    """Which components of two kernels differ."""
    pairs = [(name, there, worker.get(name, "none")) for name, there in described]
    found = [f"{name} {here}, described with {there}" for name, there, here in pairs if here != there]
    if not found:
        return f"The worker on {host} has what the app was described with, but another version of borealis-py"
    return f"The worker on {host} has others: {'; '.join(found)}"


class PackedTask(Protocol):
    """What a Spark partition consists of: a replica, or the standby task."""

    @property
    def log_file(self) -> str: ...

    @property
    def log_bounded(self) -> bool: ...

    def run(self) -> TaskEnd: ...


def run_tasks(packed: Iterable[bytes]) -> Iterator[bytes]:
    """Runs in the worker: the tasks of a Spark partition, of which there is one."""
    for one in packed:
        task: PackedTask = pickle.loads(one)
        _say_where_the_driver_says(task.log_file)
        configure_logs(json=True, file=task.log_file if task.log_bounded else "")
        evict_all()
        yield msgspec.msgpack.encode(task.run())


def _say_where_the_driver_says(log_file: str) -> None:
    with suppress(OSError):
        handle = os.open(log_file, os.O_WRONLY | os.O_APPEND)
        sys.stderr.flush()
        os.dup2(handle, sys.stderr.fileno())
        os.close(handle)
