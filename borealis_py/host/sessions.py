"""The Spark session of a replica process over its whole life: one that died is started again, in the background.

While there is none, redos run inline: a healed query is never left wrong, and never waits for Spark. Knows nothing of
queries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from borealis_py.host.spark import ReplicaSession, SparkUnavailable
from borealis_py.log.base import Wake
from borealis_py.protocol.redo import RedoJob, RedoResult
from reconcile.runner import BrokenRedo, Redo

log = structlog.get_logger("borealis.host")

LOOK_S = 0.5
PAUSE_S = 1.0
PAUSE_MAX_S = 60.0
"""Between two attempts to start again; each pause is twice the one before."""

Session = ReplicaSession | SparkUnavailable


class SessionKeeper:
    """Starts a session, blocking, and then sees to it that there is one.

    A session that could not be started in the first place is not tried again: what it lacks (Java, memory) does not
    come by itself, and redos run inline.

    Args:
        start: a warm session, or why there is none; called again, from a thread, when a session died.
    """

    def __init__(self, start: Callable[[], Session], look_s: float = LOOK_S, pause_s: float = PAUSE_S) -> None:
        self._start = start
        self._look_s = look_s
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._current = start()
        self._thread: threading.Thread | None = None
        if isinstance(self._current, ReplicaSession):
            self._thread = threading.Thread(target=self._watch, name="keep Spark", daemon=True)
            self._thread.start()

    @property
    def current(self) -> Session:
        """The session now, or why there is none."""
        return self._current

    @property
    def why_inline(self) -> str:
        """Why redos run inline now; empty when they run on Spark."""
        return "" if isinstance(self._current, ReplicaSession) else str(self._current)

    def stop(self, timeout_s: float = 12.0) -> None:
        """End the session and start no other."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)  # one that is being started ends itself, and at worst with this process
        if isinstance(self._current, ReplicaSession):
            self._current.stop()

    def _watch(self) -> None:
        while not self._stop.wait(self._look_s):
            session = self._current
            if isinstance(session, ReplicaSession) and (why := session.ailing) is not None:
                self._current = SparkUnavailable(f"{why}; it is being started again")
                log.warning("Spark has died: redos run inline until it is back", why=why)
                session.stop()
                self._restart()

    def _restart(self) -> None:
        began, pause_s = time.monotonic(), self._pause_s
        while not self._stop.is_set():
            found = self._start()
            if isinstance(found, ReplicaSession):
                if self._stop.is_set():
                    found.stop()
                    return
                self._current = found
                log.info("Spark is back", seconds=round(time.monotonic() - began, 1))
                return
            self._current = SparkUnavailable(f"Spark died and does not start again yet. {found}")
            log.warning("Spark does not start again", why=str(found), next_try_s=pause_s)
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)


class KeptRedo:
    """Runs each job on the session there is when it starts; without one it fails at once, and so runs inline.

    Args:
        on: runs jobs on one session.
    """

    def __init__(self, keeper: SessionKeeper, on: Callable[[ReplicaSession], Redo], wake: Wake) -> None:
        self._keeper = keeper
        self._on = on
        self._wake = wake
        self._session: Session | None = None
        self._redos: list[Redo] = []
        """The last one is the present session's; the one before may still have answers to give."""

    def start(self, job: RedoJob) -> None:
        session = self._keeper.current
        if session is not self._session:
            self._session = session
            self._redos.append(
                self._on(session) if isinstance(session, ReplicaSession) else BrokenRedo(str(session), self._wake)
            )
            for old in self._redos[:-2]:
                old.close()
            del self._redos[:-2]
        self._redos[-1].start(job)

    def results(self) -> list[RedoResult]:
        return [result for redo in self._redos for result in redo.results()]

    def cancel(self, job_id: int) -> None:
        for redo in self._redos:
            redo.cancel(job_id)

    def close(self) -> None:
        for redo in self._redos:
            redo.close()
