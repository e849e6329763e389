"""Redo jobs that came by letter, as Spark jobs: bytes in, bytes out, each in a thread that does nothing but wait."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from borealis_py.log.base import Wake
from reconcile.redo_job import run_packed
from reconcile.spark_redo import Task, explain, run_partition


class SparkExecutor:
    """`reconcile.redo_server.JobExecutor` on a SparkContext.

    Args:
        works: of each node, packed.
        after_cancel: called when a cancelled job is gone; its worker was killed, so this is when to warm a new one.
        task: what workers run; tests put hanging ones here.
    """

    def __init__(
        self,
        context: Any,
        works: Mapping[str, bytes],
        wake: Wake,
        after_cancel: Callable[[], None] = lambda: None,
        task: Task = run_packed,
    ) -> None:
        self._context = context
        self._works = works
        self._wake = wake
        self._after_cancel = after_cancel
        self._task = task
        self._prefix = f"redo {uuid.uuid4().hex[:8]}"
        self._ended: deque[tuple[int, bytes | str]] = deque()
        self._cancelled: set[int] = set()

    def start(self, ticket: int, node: str, packed: bytes) -> None:
        name = f"redo {node} {ticket}"
        threading.Thread(target=self._run, args=(ticket, node, packed), name=name, daemon=True).start()

    def ended(self) -> list[tuple[int, bytes | str]]:
        out = []
        while self._ended:
            out.append(self._ended.popleft())
        return out

    def cancel(self, ticket: int) -> None:
        self._cancelled.add(ticket)
        threading.Thread(target=self._cancel, args=(ticket,), name=f"cancel redo {ticket}", daemon=True).start()

    def _run(self, ticket: int, node: str, packed: bytes) -> None:
        end: bytes | str
        try:
            end = self._collect(ticket, node, packed)
        except Exception as exc:
            end = explain(exc)
        self._ended.append((ticket, end))
        self._wake()
        if ticket in self._cancelled:
            self._after_cancel()

    def _collect(self, ticket: int, node: str, packed: bytes) -> bytes:
        context = self._context
        context.setJobGroup(self._group(ticket), f"{node}: redo", True)
        if ticket in self._cancelled:
            raise RuntimeError("cancelled before it was submitted")
        task = partial(run_partition, self._works[node], self._task)
        (answer,) = context.parallelize([packed], 1).mapPartitions(task).collect()
        return bytes(answer)

    def _cancel(self, ticket: int) -> None:
        with suppress(Exception):  # a dead JVM runs nothing
            self._context.cancelJobGroup(self._group(ticket))

    def _group(self, ticket: int) -> str:
        return f"{self._prefix} {ticket}"
