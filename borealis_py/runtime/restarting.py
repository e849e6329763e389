"""Runs one replica, restarting it from its last checkpoint until it ends for good. The same for every host."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from borealis_py.log.base import LogError
from borealis_py.log.record_size import RecordTooLarge
from borealis_py.node.run import LostWhileRunning
from borealis_py.node.spec import ReplicaSpec
from borealis_py.runtime.ends import end_of

log = structlog.get_logger(__package__)

RESTART_S = 1.0
"""Pause before a failed loop is restarted."""


class TaskDied(Exception):
    """The host of a replica ended, not the replica: a worker, an executor, a Spark application. The
    message says why.
    """


def supervise(run: Callable[[], None], spec: ReplicaSpec, stop: threading.Event) -> int:
    """Run incarnations until `stop` is set or the replica cannot continue.

    Args:
        run: one incarnation from start to end; blocks.

    Returns:
        0, or the exit code that says why it cannot continue (`exit_codes.py`, by `ends.py`).
    """
    line, refused = log.bind(node=spec.node, replica=spec.replica), ""
    while not stop.is_set():
        try:
            run()
        except LostWhileRunning as exc:
            line.warning(
                "needed records are gone: replica starts again, perhaps from a peer's checkpoint", why=str(exc)
            )
            stop.wait(RESTART_S)
        except Exception as exc:
            if stop.is_set() and isinstance(exc, TaskDied):
                return 0  # stopped on request
            end = end_of(exc)
            if isinstance(exc, RecordTooLarge) and exc.record != refused:
                refused, end = exc.record, None  # once more: the refusal may have had a reason that is gone
            if end is not None:
                (line.warning if end.usual else line.error)(end.said, why=str(exc), exit=end.exit.name)
                return end.exit.code
            line.error(
                "replica failed: restarting from its last checkpoint",
                why=str(exc) if isinstance(exc, TaskDied) else f"{type(exc).__name__}: {exc}",
                exc_info=not isinstance(exc, LogError | TaskDied),
            )
            stop.wait(RESTART_S)
    return 0
