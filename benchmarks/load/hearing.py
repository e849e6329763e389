"""Readers of a running query that keep everything they receive, with its wall time of arrival: a live subscriber, a
reader of the corrected stream, and one of the replicas' statuses. Each is a thread, as in a user's program.
"""

from __future__ import annotations

import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType

from borealis_py.api import corrected, live
from borealis_py.app.state import AppState
from borealis_py.bench.figures import BenchError
from borealis_py.client.subscriber import LiveChange, Row
from borealis_py.demo.watch import StatusFollower, Story
from borealis_py.log.base import Log, LogError
from borealis_py.log.clock import SystemClock
from sunion.errors import RetentionLost

GRACE_S = 40.0
"""Everything must be stable this long after the last row."""
LOOK_S = 0.2

Tick = Callable[[float], None]
"""Called with how many seconds have been published."""
Heard = list[tuple[int, LiveChange]]
"""Changes of the live view and when they came, wall microseconds."""
Got = list[tuple[int, Row]]
"""Rows of the corrected stream and when they came, wall microseconds."""


class _Reader(threading.Thread, ABC):
    """Reads a stream until it ends, or `stop`. `error`: why it ended before."""

    def __init__(self, name: str, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.error: str | None = None
        self._log = log
        self._state = state
        self._query = query
        self._halt = stop
        self._clock = SystemClock()

    def run(self) -> None:
        try:
            self._read()
        except (LogError, RetentionLost) as exc:
            self.error = f"{self.name}: {exc}"

    @abstractmethod
    def _read(self) -> None:
        """Keep what comes."""


class _Live(_Reader):
    """The live view, empty buckets too: they speak for time that has passed."""

    def __init__(self, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__("live view", log, state, query, stop)
        self.heard: Heard = []

    def _read(self) -> None:
        for change in live(self._log, self._state, self._query, True, self._halt, empty=True):
            self.heard.append((self._clock.wall_us(), change))


class _Corrected(_Reader):
    """The corrected stream as any Kafka client has it: rows, once their transaction is committed."""

    def __init__(self, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__("corrected stream", log, state, query, stop)
        self.got: Got = []

    def _read(self) -> None:
        for row in corrected(self._log, self._state, self._query, True, self._halt):
            if isinstance(row, Row):
                self.got.append((self._clock.wall_us(), row))


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
