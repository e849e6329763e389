"""Readers of a running query, each a thread as in a user's program: some keep all that comes, others note only when.

A reader ends when its stream does, or its app's other readers are told to stop.
"""

from __future__ import annotations

import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from borealis_py.api import ViewName, corrected, live, subscribe
from borealis_py.app.state import AppState
from borealis_py.bench.figures import BenchError
from borealis_py.client.subscriber import CorrectedSubscription, LiveChange, Row
from borealis_py.demo.watch import StatusFollower, Story
from borealis_py.log.base import Log, LogError
from borealis_py.log.clock import SystemClock
from borealis_py.observe.live_view import open_live
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Kind

GRACE_S = 40.0
"""Everything must be stable this long after the last row."""
LOOK_S = 0.2
LISTEN_S = 0.1
"""Maximum sleep of a listener, so that it notices a stop."""

Tick = Callable[[float], None]
"""Called with how many seconds have been published."""
Heard = list[tuple[int, LiveChange]]
"""Changes of the live view and when they came, wall microseconds."""
Got = list[tuple[int, Row]]
"""Rows of the corrected stream and when they came, wall microseconds."""


class Results:
    """Follows a query until it is closed. `seen`: everything, in order; `Row`s, or `LiveChange`s of a live view."""

    def __init__(self, query: str, app: str, bootstrap: str, view: ViewName = "corrected") -> None:
        self.seen: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(query, view, app, bootstrap))
        self._thread.start()

    def _follow(self, query: str, view: ViewName, app: str, bootstrap: str) -> None:
        for change in subscribe(query, view, app=app, bootstrap=bootstrap, stop=self._stop):
            self.seen.append(change)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class Reader(threading.Thread, ABC):
    """Reads a stream until it ends, or `stop`. `error`: why it ended before."""

    def __init__(self, name: str, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.error: str | None = None
        self._log, self._state, self._query, self._halt = log, state, query, stop
        self._clock = SystemClock()

    def run(self) -> None:
        try:
            self._read()
        except (LogError, RetentionLost) as exc:
            self.error = f"{self.name}: {exc}"

    @abstractmethod
    def _read(self) -> None:
        """Keep what comes, or when it came."""


class _Live(Reader):
    """The live view, empty buckets too: they speak for time that has passed."""

    def __init__(self, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__("live view", log, state, query, stop)
        self.heard: Heard = []

    def _read(self) -> None:
        for change in live(self._log, self._state, self._query, True, self._halt, empty=True):
            self.heard.append((self._clock.wall_us(), change))


class _Corrected(Reader):
    """The corrected stream as any Kafka client has it: rows, once their transaction is committed."""

    def __init__(self, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__("corrected stream", log, state, query, stop)
        self.got: Got = []

    def _read(self) -> None:
        for row in corrected(self._log, self._state, self._query, True, self._halt):
            if isinstance(row, Row):
                self.got.append((self._clock.wall_us(), row))


class Listener(Reader):
    """Notes only when its stream advanced. `times`: arrivals, monotonic microseconds, all of one clock."""

    def __init__(self, name: str, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__(name, log, state, query, stop)
        self.times: list[int] = []
        self._woken = threading.Event()

    def _arrived(self) -> None:
        self.times.append(self._clock.now_us())


class LiveListener(Listener):
    """The live view, new buckets only: a correction is no news of how far the stream has got.

    `tentative`: how many buckets came tentative first.
    """

    tentative = 0

    def _read(self) -> None:
        (subscription,) = open_live(self._log, self._state, self._query, False, self._woken.set)
        furthest = 0
        try:
            while not self._halt.is_set():
                self._woken.clear()
                said = [c for c in subscription.poll() if c.kind not in (Kind.UNDO, Kind.REC_DONE) and c.end > furthest]
                self.tentative += sum(c.kind is Kind.TENTATIVE for c in said)
                if said:
                    furthest = max(c.end for c in said)
                    self._arrived()
                due = subscription.next_wakeup()
                left_s = LISTEN_S if due is None else (due - self._clock.now_us()) / 1e6
                self._woken.wait(min(LISTEN_S, max(0.0, left_s)))
        finally:
            subscription.close()


class CorrectedListener(Listener):
    """The corrected stream as any Kafka client has it: rows, once their transaction is committed."""

    def _read(self) -> None:
        buckets = Buckets(self._state.spec.bucket_us)
        of = self._state.name, self._state.app_uid, self._query
        subscription = CorrectedSubscription(self._log, *of, buckets, False, self._woken.set)
        try:
            while not self._halt.is_set():
                self._woken.clear()
                if subscription.poll():
                    self._arrived()
                self._woken.wait(LISTEN_S)
        finally:
            subscription.close()


class Hearing:
    """The readers at once: `with Hearing(log, state, query) as hearing`. `statuses`: of replicas, too; it asks the
    broker ten times a second.
    """

    def __init__(self, log: Log, state: AppState, query: str, statuses: bool = True) -> None:
        self._stop = threading.Event()
        self._live = _Live(log, state, query, self._stop)
        self._corrected = _Corrected(log, state, query, self._stop)
        self._statuses = StatusFollower(log, state.name, self._stop) if statuses else None
        self._threads = [each for each in (self._live, self._corrected, self._statuses) if each is not None]

    @property
    def heard(self) -> Heard:
        return self._live.heard

    @property
    def got(self) -> Got:
        return self._corrected.got

    @property
    def story(self) -> Story:
        """The replicas' statuses, if they are read."""
        return Story() if self._statuses is None else self._statuses.story

    def __enter__(self) -> Hearing:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def to_the_end(
        self, helpers: Mapping[str, subprocess.Popen[bytes]], t0_us: int, length_s: float, tick: Tick
    ) -> None:
        """Read until both streams have ended and all helpers have.

        Args:
            helpers: processes that publish or measure, by the name of their log file.
            t0_us: wall time of the first row. length_s: until the last one.

        Raises:
            BenchError: a helper failed, a reader stopped, or the end did not come in time.
        """
        deadline = t0_us / 1e6 + length_s + GRACE_S
        while True:
            going = [r for r in (self._live, self._corrected) if r.is_alive()]
            running = [name for name, process in helpers.items() if process.poll() is None]
            self._refuse_failed(helpers)
            if not going and not running:
                return
            if time.time() > deadline:
                late = ", ".join([r.name for r in going] + running)
                raise BenchError(f"not at its end {GRACE_S:g} s after the last row: {late}")
            tick(min(length_s, max(0.0, time.time() - t0_us / 1e6)))
            if going:
                going[0].join(LOOK_S)
            else:
                time.sleep(LOOK_S)

    def check(self) -> None:
        """Raises BenchError: a reader has stopped."""
        for reader in (self._live, self._corrected):
            if reader.error is not None:
                raise BenchError(reader.error)

    def _refuse_failed(self, helpers: Mapping[str, subprocess.Popen[bytes]]) -> None:
        self.check()
        for name, process in helpers.items():
            if process.poll():
                raise BenchError(f"{name} ended with code {process.returncode}; see {name}.log")
