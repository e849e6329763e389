"""Follows an app's settings and statuses, for `borealis top`.

A broker that does not answer for a while, or an app that is begun anew, does not end it: the view reports that and
keeps what was seen last. Blocking; works on any log.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from borealis_py.app.state import (
    RECENT_MS,
    AppState,
    IngressStatuses,
    NoSuchApp,
    ReplicaKey,
    Statuses,
    StatusReader,
    read_all_statuses,
    read_app,
    read_settings,
)
from borealis_py.log.base import Log, LogError
from borealis_py.log.messages import Status
from borealis_py.observe.ingress_overview import not_before
from borealis_py.observe.rates import Rates

SETTINGS_S = 3.0
"""Maximum age of the known settings: they change seldom and cost more to read than statuses."""
EVENTS = 100
"""How many of the newest events are kept."""


@dataclass(frozen=True, slots=True)
class AppSnapshot:
    """The view at wall time `now_us`: the app's settings (`state`) and each replica's newest status (`statuses`).
    `events`: oldest first. `problem`: why it is outdated; else "". `rates`: tuples per second of each input of a
    replica, where known. `ingresses`: each ingress's newest status."""

    state: AppState
    statuses: Statuses
    now_us: int
    events: tuple[Status, ...] = ()
    problem: str = ""
    rates: Mapping[ReplicaKey, tuple[float, ...]] = field(default_factory=dict)
    ingresses: IngressStatuses = field(default_factory=dict)


class Follower:
    """Follows one app.

    Args:
        name: None: the only app on the broker.

    Raises:
        NoSuchApp, LogError: there is nothing to follow yet.
    """

    def __init__(self, log: Log, name: str | None) -> None:
        self._log = log
        self._reader: StatusReader | None = None
        self._events: deque[Status] = deque(maxlen=EVENTS)
        self._rates = Rates()
        self._settings_at = time.monotonic()
        state = read_app(log, name)
        statuses, ingresses = read_all_statuses(log, state, _now_us() // 1000)
        self.view = AppSnapshot(state, statuses, _now_us(), ingresses=ingresses)

    def look(self) -> AppSnapshot:
        """The current view; takes as long as the broker takes to answer."""
        try:
            self.view = self._look()
        except (LogError, NoSuchApp) as exc:
            self.close()
            self.view = replace(self.view, now_us=_now_us(), problem=str(exc))
        return self.view

    def _look(self) -> AppSnapshot:
        before, state = self.view, self._settings()
        anew = state.description.origin != before.state.origin or state.hash != before.state.hash
        if anew:
            self.close()
            self._events.clear()
            self._rates = Rates()
        if self._reader is None:
            self._reader = StatusReader(self._log, state.name, _now_us() // 1000 - RECENT_MS)
            self._events.clear()
        said = self._reader.poll()
        self._events.extend(s for s in said if s.event)
        self._rates.add_statuses(said)
        statuses = {**({} if anew else before.statuses), **self._reader.newest}
        ingresses = {**({} if anew else before.ingresses), **self._reader.ingresses}
        now_us = not_before(_now_us(), statuses, ingresses)
        rates = self._rates.per_second()
        return AppSnapshot(state, statuses, now_us, tuple(self._events), rates=rates, ingresses=ingresses)

    def _settings(self) -> AppState:
        known = self.view.state
        if time.monotonic() - self._settings_at < SETTINGS_S and not self.view.problem:
            return known
        state = read_settings(self._log, known.name)
        if state is None:
            raise NoSuchApp(f"app {known.name!r} is gone from the broker")
        self._settings_at = time.monotonic()
        return state

    def close(self) -> None:
        """Close the log's client; `look` opens another."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _now_us() -> int:
    return time.time_ns() // 1000
