"""Packed redo jobs as Spark jobs: an RDD of one element per job, bytes in and bytes out, each in its own job group.

A job's thread only waits, so whatever happens to Spark (an exception, a dead JVM, a task that hangs until it is
cancelled) stays out of the driver's turn and ends as one sentence.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from borealis_py.log.base import Wake
from reconcile.redo_job import run_packed

Task = Callable[[bytes, bytes], bytes]
"""What a worker runs: (packed `ReplayContext`, packed job) to the packed result."""


class SparkExecutor:
    """`reconcile.redo_server.JobExecutor` on a SparkContext.

    Args:
        context: a SparkContext that is warm (`borealis_py.runtime.spark.session`).
        packed_contexts: of each node, its `ReplayContext.pack()`.
        wake: called when `take_finished` has something new.
        after_cancel: called when a cancelled job is gone. Spark has killed its worker, so it is time to warm a new one.
        task: what workers run; tests put hanging ones here.
    """

    def __init__(
        self,
        context: Any,
        packed_contexts: Mapping[str, bytes],
        wake: Wake,
        after_cancel: Callable[[], None] = lambda: None,
        task: Task = run_packed,
    ) -> None:
        self._context = context
        self._packed_contexts = packed_contexts
        self._wake = wake
        self._after_cancel = after_cancel
        self._task = task
        self._prefix = f"redo {uuid.uuid4().hex[:8]}"
        self._finished: deque[tuple[int, bytes | str]] = deque()
        self._cancelled: set[int] = set()

    def execute(self, handle: int, node: str, packed: bytes) -> None:
        name = f"redo {node} {handle}"
        threading.Thread(target=self._run, args=(handle, node, packed), name=name, daemon=True).start()

    def take_finished(self) -> list[tuple[int, bytes | str]]:
        taken = []
        while self._finished:
            taken.append(self._finished.popleft())
        return taken

    def cancel(self, handle: int) -> None:
        self._cancelled.add(handle)
        threading.Thread(target=self._cancel, args=(handle,), name=f"cancel redo {handle}", daemon=True).start()

    def _run(self, handle: int, node: str, packed: bytes) -> None:
        result: bytes | str
        try:
            result = self._collect(handle, node, packed)
        except Exception as exc:
            result = explain(exc)
        self._finished.append((handle, result))
        self._wake()
        if handle in self._cancelled:
            self._after_cancel()

    def _collect(self, handle: int, node: str, packed: bytes) -> bytes:
        context = self._context
        context.setJobGroup(self._group(handle), f"{node}: redo", True)
        if handle in self._cancelled:
            raise RuntimeError("cancelled before it was submitted")
        task = partial(self._task, self._packed_contexts[node])
        (result,) = context.parallelize([packed], 1).map(task).collect()
        return bytes(result)

    def _cancel(self, handle: int) -> None:
        with suppress(Exception):  # a dead JVM runs nothing
            self._context.cancelJobGroup(self._group(handle))

    def _group(self, handle: int) -> str:
        return f"{self._prefix} {handle}"


def explain(exc: Exception) -> str:
    """An exception of Spark or of its bridge, as one readable line."""
    java = getattr(exc, "java_exception", None)
    if java is not None:
        return f"Spark job failed: {_first_line(str(exc.args[-1] if exc.args else exc), java)}"
    names = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "EOFError")
    if type(exc).__name__ in names or "does not exist in the JVM" in str(exc):
        return "Spark's JVM does not answer: it has ended or was killed"
    if isinstance(exc, AttributeError) and "NoneType" in str(exc):
        return "the Spark session has been stopped"
    text = " ".join(str(exc).split())
    return f"Spark job failed: {type(exc).__name__}: {text}"[:500]


def _first_line(text: str, java: Any) -> str:
    try:
        text = str(java.getMessage()) or text
    except Exception:
        logging.getLogger(__package__).debug("no message from a dead JVM")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Python's own exception, where there is one, is the last line that looks like "Name: message".
    python = [x for x in lines if x.split(":")[0].endswith(("Error", "Exception")) and " " not in x.split(":")[0]]
    return (python[-1] if python else lines[0] if lines else "no message")[:500]
