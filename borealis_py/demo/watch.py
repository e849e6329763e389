"""Watching the demo's queries from outside, as a subscriber does: live changes and status records, with wall times."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from borealis_py.api import live
from borealis_py.app.state import AppState, StatusReader
from borealis_py.demo.measure import Arrival
from borealis_py.log.base import Log, LogError
from borealis_py.log.clock import SystemClock
from borealis_py.log.messages import RedoStatus, Status
from sunion.errors import RetentionLost

SPAN_MAX = 100_000
"""A stretch of empty buckets longer than this is END's: it speaks for nothing that was published."""


class QueryWatcher(threading.Thread):
    """Follows one query's live view to its end.

    `arrivals`: first word about each bucket; `stable`: rows that will not change any more; `error`: why it stopped.
    """

    def __init__(self, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__(name=f"follow {query}", daemon=True)
        self.query = query
        self.arrivals: list[Arrival] = []
        self.stable: list[dict[str, Any]] = []
        self.tentative_rows = 0
        self.ended = False
        self.error: str | None = None
        self._log = log
        self._state = state
        self._stop_event = stop

    @property
    def stable_rows(self) -> int:
        """How many there are."""
        return len(self.stable)

    def run(self) -> None:
        clock = SystemClock()
        try:
            for change in live(self._log, self._state, self.query, True, self._stop_event, empty=True):
                wall = clock.wall_us()
                if change.kind == "TENTATIVE":
                    self.tentative_rows += len(change.rows)
                    self.arrivals.append(Arrival(change.bucket, wall, change.kind))
                elif change.kind in ("STABLE", "BOUNDARY"):
                    self.stable += change.rows
                    end = min(change.end, change.bucket + SPAN_MAX)
                    self.arrivals += [Arrival(b, wall, "STABLE") for b in range(change.bucket, end)]
            self.ended = not self._stop_event.is_set()
        except (LogError, RetentionLost) as exc:
            self.error = str(exc)


@dataclass(slots=True)
class ObservedReconciliation:
    """One replica's way through STABILIZATION, or what it took over from a peer. Times are wall microseconds.

    `failed`: why jobs on Spark failed; what was left ran inline.
    """

    query: str
    replica: int
    start_us: int
    end_us: int = 0
    rows: int = 0
    buckets: int = 0
    jobs: list[Status] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def engine(self) -> str:
        """ "spark" if any part of it ran there, else "peer" if any was taken over, else "inline"."""
        engines = {j.redo.engine for j in self.jobs if j.redo is not None}
        return next((e for e in ("spark", "peer") if e in engines), "inline")

    @property
    def spark_jobs(self) -> int:
        return sum(1 for j in self.jobs if j.redo is not None and j.redo.engine == "spark")


Key = tuple[str, int]


@dataclass(slots=True)
class Story:
    """What the status records told: time lines of the states, reconciliations, newest status of each replica."""

    newest: dict[Key, Status] = field(default_factory=dict)
    states: dict[Key, list[tuple[int, str]]] = field(default_factory=dict)
    reconciliations: list[ObservedReconciliation] = field(default_factory=list)
    _open: dict[Key, ObservedReconciliation] = field(default_factory=dict)

    def add_status(self, status: Status) -> None:
        """One status record, in the log's order."""
        key = status.node, status.replica
        self.newest[key] = status
        line = self.states.setdefault(key, [])
        if not line or line[-1][1] != status.state:
            line.append((status.at_wall_us, status.state))
        if status.event == "STABILIZATION":
            self._open[key] = ObservedReconciliation(status.node, status.replica, status.at_wall_us)
            self.reconciliations.append(self._open[key])
        current = self._open.get(key)
        if current is None:
            if status.redo is not None and status.redo.engine == "peer":  # needs no grant
                self._adopted(status, status.redo)
            return
        if status.redo is not None:
            current.rows += status.redo.rows
            current.buckets += status.redo.end - status.redo.first
            current.jobs.append(status)
        if status.event == "REDO_FAILED":
            current.failed.append(status.detail)
        if status.event in ("STABLE", "UPSTREAM_FAILURE"):
            current.end_us = status.at_wall_us
            del self._open[key]

    def _adopted(self, status: Status, redo: RedoStatus) -> None:
        start_us = status.at_wall_us - int(redo.seconds * 1e6)
        buckets = redo.end - redo.first
        self.reconciliations.append(
            ObservedReconciliation(
                status.node, status.replica, start_us, status.at_wall_us, redo.rows, buckets, [status]
            )
        )

    def overlap_us(self) -> int:
        """How long two replicas of one query reconciled at once; taking over a peer's work is no work."""
        total = 0
        done = [r for r in self.reconciliations if r.end_us and r.engine != "peer"]
        for i, a in enumerate(done):
            for b in done[i + 1 :]:
                if a.query == b.query and a.replica != b.replica:
                    total += max(0, min(a.end_us, b.end_us) - max(a.start_us, b.start_us))
        return total


class StatusFollower(threading.Thread):
    """Reads the status topic all the time; `fresh` hands new records to whoever shows them."""

    def __init__(self, log: Log, app: str, stop: threading.Event) -> None:
        super().__init__(name="follow status", daemon=True)
        self.story = Story()
        self._fresh: list[Status] = []
        self._lock = threading.Lock()
        self._log = log
        self._app = app
        self._stop_event = stop

    def run(self) -> None:
        reader = StatusReader(self._log, self._app)
        try:
            while not self._stop_event.wait(0.1):
                try:
                    found = reader.poll()
                except LogError:
                    continue
                with self._lock:
                    for status in found:
                        self.story.add_status(status)
                    self._fresh += found
        finally:
            reader.close()

    def fresh(self) -> list[Status]:
        """What came since the last call."""
        with self._lock:
            fresh, self._fresh = self._fresh, []
            return fresh
