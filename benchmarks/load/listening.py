"""Two readers of a running query that note only when its streams advanced. Each is a thread; all times are of one
clock.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from borealis_py.app.state import AppState
from borealis_py.client.subscriber import CorrectedSubscription
from borealis_py.log.base import Log, LogError
from borealis_py.log.clock import SystemClock
from borealis_py.observe.live_view import open_live
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Kind

LOOK_S = 0.1
"""Maximum sleep of a listener, so that it notices a stop."""


class Listener(threading.Thread, ABC):
    """Follows a stream until `stop`. `times`: arrivals, monotonic microseconds; `error`: why it ended before."""

    def __init__(self, name: str, log: Log, state: AppState, query: str, stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.times: list[int] = []
        self.error: str | None = None
        self._log = log
        self._state = state
        self._query = query
        self._halt = stop
        self._woken = threading.Event()

    def run(self) -> None:
        try:
            self._follow()
        except (LogError, RetentionLost) as exc:
            self.error = f"{self.name}: {exc}"

    @abstractmethod
    def _follow(self) -> None:
        """Note arrivals until `stop`."""

    def _arrived(self) -> None:
        self.times.append(SystemClock().now_us())


class LiveListener(Listener):
    """The live view, new buckets only: a correction is no news of how far the stream has got.

    `tentative`: how many buckets came tentative first.
    """

    tentative = 0

    def _follow(self) -> None:
        (subscription,) = open_live(self._log, self._state, self._query, False, self._woken.set)
        clock, furthest = SystemClock(), 0
        try:
            while not self._halt.is_set():
                self._woken.clear()
                said = [c for c in subscription.poll() if c.kind not in (Kind.UNDO, Kind.REC_DONE) and c.end > furthest]
                self.tentative += sum(c.kind is Kind.TENTATIVE for c in said)
                if said:
                    furthest = max(c.end for c in said)
                    self._arrived()
                due = subscription.next_wakeup()
                self._woken.wait(LOOK_S if due is None else min(LOOK_S, max(0.0, (due - clock.now_us()) / 1e6)))
        finally:
            subscription.close()


class CorrectedListener(Listener):
    """The corrected stream as any Kafka client has it: rows, once their transaction is committed."""

    def _follow(self) -> None:
        buckets = Buckets(self._state.spec.bucket_us)
        of = self._state.name, self._state.app_uid, self._query
        subscription = CorrectedSubscription(self._log, *of, buckets, False, self._woken.set)
        try:
            while not self._halt.is_set():
                self._woken.clear()
                if subscription.poll():
                    self._arrived()
                self._woken.wait(LOOK_S)
        finally:
            subscription.close()
