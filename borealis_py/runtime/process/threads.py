"""Replicas as threads of one plain process, without Spark: one supervised loop per thread."""

from __future__ import annotations

import threading
from functools import partial

from borealis_py.log.base import Wake
from borealis_py.log.kernel import Kernel
from borealis_py.node.reporter import StatusListener, ignore_status
from borealis_py.node.run import run_replica
from borealis_py.node.spec import ReplicaSpec
from borealis_py.runtime.ends import ALONE
from borealis_py.runtime.restarting import supervise
from borealis_py.runtime.specs import kernel_of, new_uid, work_of
from reconcile.redo_client import RedoRouter, RedoRunner
from reconcile.thread_redo import ThreadRedo


def make_redos(spec: ReplicaSpec, kernel: Kernel, wake: Wake, peer: RedoRunner) -> RedoRouter:
    """A router without Spark: redos run from memory, and a thread reads back rows that left it."""
    return RedoRouter(None, ThreadRedo(work_of(spec), wake), peer)


class ThreadHost:
    """All loops of one replica index, each in a thread. `seen`: called with each status."""

    def __init__(self, specs: list[ReplicaSpec], seen: StatusListener = ignore_status) -> None:
        self.stop = threading.Event()
        self.code = 0
        self._specs = specs
        self._seen = seen

    def run(self) -> int:
        """Run until stopped; returns the exit code."""
        threads = [threading.Thread(target=self._supervise, args=(s,), name=s.name) for s in self._specs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.code

    def _supervise(self, spec: ReplicaSpec) -> None:
        """Run a replica until it ends for good; an end that concerns the whole process ends the others, too."""
        code = supervise(partial(self._run, spec), spec, self.stop)
        self.code = code or self.code
        if code and code not in ALONE:
            self.stop.set()

    def _run(self, spec: ReplicaSpec) -> None:
        """Run one incarnation."""
        run_replica(spec, kernel_of(spec), partial(make_redos, spec), self.stop, new_uid(spec), seen=self._seen)
