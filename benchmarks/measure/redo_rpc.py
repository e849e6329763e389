"""Redo jobs on Spark as replicas of the Spark host request them: by message, from a driver with a given number of
slots.

The driver's side runs in a thread here, the requesting one in the measured loop; in production they are two processes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.load.struck import Struck
from borealis_py.bench.redo import DEADLINE_S
from borealis_py.log.base import Log, Wake
from borealis_py.log.clock import SystemClock
from borealis_py.log.topics import redo_feeds
from borealis_py.runtime.spark.application import TURN_S, new_session
from reconcile.redo_client import RedoRunner, RemoteRedo, TaskAddress
from reconcile.redo_server import RedoServer, TaskChannel
from reconcile.spark_executor import SparkExecutor

SLOTS = 1, 2


class Driver:
    """Serves the nodes of one app with `slots` slots of a SparkContext that is warm, until it is closed."""

    def __init__(self, context: Any, struck: Struck, messages: Log, slots: int) -> None:
        self.name = new_session()
        self._news = threading.Event()
        self._over = threading.Event()
        works = {work.node: work.pack() for work in struck.works}
        channels = [TaskChannel(work.node, *redo_feeds(struck.app.name, work.node, 0)) for work in struck.works]
        run = SparkExecutor(context, works, self._news.set)
        self._server = RedoServer(messages, channels, self.name, run, slots, self._news.set, SystemClock())
        self._thread = threading.Thread(target=self._serve, name=f"redo messages, {slots} slots", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            self._news.wait(TURN_S)
            self._news.clear()
            self._server.turn()

    def close(self) -> None:
        self._over.set()
        self._news.set()
        self._thread.join()
        self._server.close()


class RpcRedos:
    """Whom jobs on `struck` are asked of. `redos`: by the number of slots, one for each of its nodes.

    Args:
        context: a SparkContext that is warm for all of them. messages: has the topics of all redos.
    """

    def __init__(self, context: Any, struck: Struck, messages: Log, wake: Wake) -> None:
        self._opened = ExitStack()
        self.redos: Mapping[int, Sequence[RedoRunner]] = {
            n: self._asking(context, struck, messages, n, wake) for n in SLOTS
        }

    def _asking(self, context: Any, struck: Struck, messages: Log, slots: int, wake: Wake) -> list[RemoteRedo]:
        driver = Driver(context, struck, messages, slots)
        self._opened.callback(driver.close)
        found = []
        for work in struck.works:
            address = TaskAddress(driver.name, f"bench-{work.node}", *redo_feeds(struck.app.name, work.node, 0))
            found.append(RemoteRedo(messages, address, struck.kernel, wake, SystemClock(), DEADLINE_S))
            self._opened.callback(found[-1].close)
        return found

    def close(self) -> None:
        self._opened.close()
