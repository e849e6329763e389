"""Replicas as threads of one plain process, without Spark: each loop in one, supervised."""

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
from reconcile.redo_router import RedoRouter, RedoRunner, ThreadRedo


def make_redos(spec: ReplicaSpec, kernel: Kernel, wake: Wake, peer: RedoRunner) -> RedoRouter:
    """Without Spark: from memory, and a thread that reads again what left it."""
    return RedoRouter(None, ThreadRedo(work_of(spec), wake), peer)


class ThreadHost:
    """All loops of one replica index, each in a thread. `seen`: is left each status."""

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
        """Run it until it ends for good; what concerns the whole process ends the others too."""
        code = supervise(partial(self._run, spec), spec, self.stop)
        self.code = code or self.code
        if code and code not in ALONE:
            self.stop.set()

    def _run(self, spec: ReplicaSpec) -> None:
        """One incarnation."""
        run_replica(spec, kernel_of(spec), partial(make_redos, spec), self.stop, new_uid(spec), seen=self._seen)
