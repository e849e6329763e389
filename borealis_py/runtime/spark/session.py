"""The Spark application of a replica index, an audit or a bench: started, warmed, kept warm, stopped.

A process has one: Spark allows no more, and replicas must fail independently. Everything that the JVM and its workers
print goes to a file, whose end is quoted if the session does not start.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from borealis_py.config import logfile
from borealis_py.kafka.errors import BrokerError
from borealis_py.kafka.java import find_java
from borealis_py.observe.process_tree import DAEMON
from borealis_py.runtime.spark import class_archive, scratch
from reconcile.spark_executor import explain

KEEP_WARM_S = 20.0
"""Interval of warming: Spark ends a Python worker that was idle for a minute."""
FIRST_WARM_S = 2.0
"""How long replicas are left alone before what redos need is opened: they have enough to do when they start."""

AILING_FAILURES = 2
"""A session that failed to be kept warm this many times in a row has failed, whatever its JVM does."""

JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms64m", "-Xmn16m", "-Xss512k")
"""A driver's JVM does little work: half of what it would otherwise compile, and keep, never pays off."""
ARENAS = "2"
"""glibc's default, eight for each core, keeps some MB in each process for threads that seldom allocate."""
STOP_S = 10.0
EXIT_S = 3.0
"""How long a JVM may take to end when told to."""
_NOISE = ("incubator modules", "default log4j profile", "log level", "native-hadoop")


class SparkUnavailable(Exception):
    """There is no Spark session; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start a replica's application.

    Args:
        master: Spark's own setting, `local[n]` or `spark://HOST:PORT`.
        workers: Python workers to keep warm; with `local[n]` this many tasks run at once.
        heap: of the driver's JVM. A redo needs 512m with the serial collector (460 MB resident).
        java: more options of the driver's JVM.
        extra: more Spark properties; they take precedence.
    """

    master: str = "local[2]"
    workers: int = 2
    heap: str = "512m"
    java: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()

    def properties(self, app_name: str, own: Path | None = None) -> dict[str, str]:
        """The Spark properties. `own`: directory for temporary files of the driver's JVM; None: the machine's."""
        local = self.master.startswith("local")
        here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if local else {}
        java = " ".join((*JVM, *self.java))
        if own is not None:
            java += f' "-Djava.io.tmpdir={own}"'
            here |= {"spark.local.dir": str(own)} if local else {}  # a cluster's executors have their own directories
        return {
            "spark.app.name": app_name,
            "spark.master": self.master,
            "spark.driver.memory": self.heap,
            "spark.driver.extraJavaOptions": java,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.ui.liveUpdate.period": "0",  # otherwise a running task may count as waiting until the next heartbeat
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": str(self.workers),
            "spark.python.worker.reuse": "true",
            "spark.python.daemon.module": DAEMON,
            "spark.python.task.killTimeout": "200ms",
            **here,
            **dict(self.extra),
        }


class ReplicaSession:
    """A running Spark application. Create one with `start`.

    `context` is the SparkContext, for RDD jobs; there is no SQL session, since its workers would form another pool.
    """

    def __init__(self, context: Any, process: Any, output: Path, workers: int, own: Path | None = None) -> None:
        self.context = context
        self.output = output
        self._own = own
        self._process = process
        self._workers = workers
        self._works: tuple[bytes, ...] = ()
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._cold = ""

    @classmethod
    def start_spark(
        cls, app_name: str, settings: SparkSettings | None = None, output: Path | None = None
    ) -> ReplicaSession:
        """Start Spark; blocks for about 4 s.

        Args:
            output: file for Spark's output, next to which its temporary files are kept; None: a temporary file.

        Raises:
            SparkUnavailable: no Java, or the JVM ended.
        """
        settings = settings or SparkSettings()
        try:
            settings = replace(settings, java=settings.java or class_archive.options(find_java()))
        except BrokerError as exc:
            raise SparkUnavailable(f"Spark cannot start. {exc}") from exc
        base = None if output is None else output.with_suffix(".tmp").absolute()
        output, own = output or _temporary_output(), None
        try:
            own = None if base is None else scratch.taken(base)
            context, process = _launch(settings.properties(app_name, own), output)
        except Exception as exc:
            if own is not None:
                scratch.given_back(own)
            raise SparkUnavailable(_why_not(exc, output)) from exc
        return cls(context, process, output, settings.workers, own)

    def warm(self, work: bytes | None = None) -> None:
        """Run a small job on every worker: imports, and with `work` the query's kernel and log clients.

        Args:
            work: from `reconcile.replay_context.ReplayContext.pack()`. It is kept warm from then on.

        Raises:
            SparkUnavailable: Spark does not run Python jobs.
        """
        works = self._works if work is None or work in self._works else (*self._works, work)
        try:
            self.context.setJobGroup("warm", "warming Python workers", True)
            task = partial(_warm_worker, works)
            for _ in range(1 if work is None else 2):  # the second time warms the JVM, too
                self.context.parallelize(range(self._workers), self._workers).mapPartitions(task).collect()
        except Exception as exc:
            raise SparkUnavailable(f"Spark runs no Python jobs. {explain(exc)}. {_tail(self.output)}") from exc
        self._works = works

    def keep_warm(self, every_s: float = KEEP_WARM_S, workers: int | None = None, works: Iterable[bytes] = ()) -> None:
        """Keep warming in a thread until `stop`.

        Args:
            workers: how many to warm from now on; None: all.
            works: as for `warm`, first opened after `FIRST_WARM_S`.
        """
        self._workers = workers or self._workers
        self._works = tuple(dict.fromkeys((*self._works, *works)))
        first_s = FIRST_WARM_S if works else every_s
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._keep_warm, args=(every_s, first_s), name="keep warm", daemon=True
            )
            self._thread.start()

    def warm_soon(self) -> None:
        """Make the thread of `keep_warm` warm now, because a worker was killed. Does not block."""
        self._hurry.set()

    @property
    def alive(self) -> bool:
        """Whether the JVM runs and the session was not stopped."""
        return not self._stop.is_set() and (self._process is None or self._process.poll() is None)

    @property
    def ailing(self) -> str | None:
        """Why another session should replace it: its JVM ended, or it failed several jobs in a row. None: it works."""
        if self._process is not None and self._process.poll() is not None:
            return "Spark's JVM has ended or was killed"
        return self._cold if self._failures >= AILING_FAILURES else None

    @property
    def jvm_pid(self) -> int | None:
        return None if self._process is None else int(self._process.pid)

    def stop(self, exit_s: float = EXIT_S) -> None:
        """End the application and its JVM. May be called twice, and after the JVM died.

        Args:
            exit_s: how long the JVM may take to end.
        """
        self._stop.set()
        self._hurry.set()
        _end(self.context, self._process, exit_s)
        if self._thread is not None:
            self._thread.join(5)
        if self._own is not None:
            own, self._own = self._own, None  # a later session of this process uses the same
            scratch.given_back(own)

    def _keep_warm(self, every_s: float, next_s: float) -> None:
        while not self._stop.is_set():
            self._hurry.wait(next_s)
            self._hurry.clear()
            next_s = every_s
            if not self.alive:
                return
            try:
                self.warm()
                self._failures = 0
            except SparkUnavailable as exc:
                self._failures, self._cold = self._failures + 1, str(exc)


def _launch(properties: dict[str, str], output: Path) -> tuple[Any, Any]:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if properties["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("MALLOC_ARENA_MAX", ARENAS)
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(properties.items()))
    with os.fdopen(logfile.opened(str(output)), "ab") as file:
        gateway = launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
    process = getattr(gateway, "proc", None)
    try:
        with _own_interrupt():
            context = SparkContext(conf=conf, gateway=gateway)
        _hush(context)
        return context, process
    except BaseException:
        _end(None, process)
        raise


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Undo PySpark's Ctrl-C handler, which cancels all jobs and raises; our host handles Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _hush(context: Any) -> None:
    """Keep PySpark from printing a traceback for every call to a dead JVM: the job's failure has the reason."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()  # py4j logs some of it there
    if _not_py4j not in root.filters:
        root.addFilter(_not_py4j)
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _end(context: Any, process: Any, exit_s: float = EXIT_S) -> None:
    """Stop Spark as far as it still answers, then make sure that its JVM is gone."""
    if context is not None and (process is None or process.poll() is None):
        # In a thread, since a hanging JVM would never answer.
        aside = threading.Thread(target=_stop_context, args=(context,), name="stop Spark", daemon=True)
        aside.start()
        aside.join(STOP_S)
    elif context is not None:
        with suppress(Exception):  # also ends what this process holds of a JVM that died
            context._accumulatorServer.shutdown()
    if process is not None:
        with suppress(Exception):
            process.stdin.close()  # the JVM ends when its standard input does
        with suppress(Exception):
            process.wait(exit_s)
        if process.poll() is None:
            process.kill()
            process.wait(5)
    _forget_context()


def _stop_context(context: Any) -> None:
    with suppress(Exception):  # what it did not end is killed
        context.stop()


def _forget_context() -> None:
    """Allow this process to start another session: PySpark keeps the gateway and context in class attributes."""
    from pyspark import SparkContext

    with SparkContext._lock:
        SparkContext._active_spark_context = None
        SparkContext._gateway = None
        SparkContext._jvm = None


def _warm_worker(works: tuple[bytes, ...], parts: Iterable[int]) -> Iterator[int]:
    """Runs in the worker: opens what a redo will need, then waits a moment so that every worker gets one such task."""
    import time

    import reconcile.redo_job  # noqa: F401  a job imports it
    from borealis_py.log.base import LogError
    from reconcile.redo_job import get_cached
    from reconcile.replay_context import OtherKernel

    for work in works:
        with suppress(OtherKernel, LogError):  # redos are refused with the reason; an unreachable log comes back
            get_cached(work)
    time.sleep(0.05)
    yield from parts


def _temporary_output() -> Path:
    handle, name = tempfile.mkstemp(prefix="borealis-spark-", suffix=".log")
    os.close(handle)
    return Path(name)


def _why_not(exc: Exception, output: Path) -> str:
    return f"Spark cannot start: {type(exc).__name__}: {' '.join(str(exc).split())[:300].rstrip('.')}. {_tail(output)}"


def _tail(output: Path, lines: int = 3) -> str:
    with suppress(OSError):
        printed = output.read_text(errors="replace").splitlines()
        said = [line for line in printed if line.strip() and not any(noise in line for noise in _NOISE)]
        if said:
            return f"It said (all of it is in {output}): " + " / ".join(said[-lines:])
    return f"It said nothing ({output})."
