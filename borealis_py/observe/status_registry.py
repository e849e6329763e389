"""The last status of each loop of one process, for its HTTP pages: health, readiness, status, counts.

A loop stores immutable values and never waits for readers. Knows nothing of HTTP, logs and brokers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from borealis_py.app.state import AppState, ReplicaKey, Statuses
from borealis_py.log.messages import Policy
from borealis_py.node.reporter import StatusSnapshot
from borealis_py.observe.overview import overview

HUNG_S = 10.0
"""A loop reports every second; one that is silent this long hangs."""


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One replica: its last status (`snapshot`) and when it came (`heard_s`: monotonic, in seconds), and sums over all
    its statuses in this process.

    `starts`: incarnations. `events`: name to number. `redos`: engine to (number, seconds in total).
    """

    snapshot: StatusSnapshot
    heard_s: float
    starts: int = 1
    events: Mapping[str, int] = field(default_factory=dict)
    redos: Mapping[str, tuple[int, float]] = field(default_factory=dict)


class StatusRegistry:
    """Each replica's loop writes its own entry; any thread reads.

    Args:
        state: the app when the process started. replicas: (node, index) of those that should run here.
        afar: the loops run in other processes (Spark tasks), so that their silence says nothing about this process.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        state: AppState,
        replicas: Sequence[ReplicaKey],
        afar: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.replicas = tuple(replicas)
        self._started = state
        self._afar = afar
        self._clock = clock
        self._entries: dict[ReplicaKey, RegistryEntry | None] = dict.fromkeys(replicas)

    def tell(self, snapshot: StatusSnapshot) -> None:
        """Store a loop's new status.

        Ignored if the replica should not run here, or if a later incarnation has reported (a task that was cut off
        continues until it hears of its successor).
        """
        key = snapshot.status.node, snapshot.status.replica
        if key not in self._entries:
            return
        before = self._entries[key]
        if before is None or snapshot.status.inc >= before.snapshot.status.inc:
            self._entries[key] = _added(before, snapshot, self._clock())  # no new key: readers may be iterating

    @property
    def entries(self) -> dict[ReplicaKey, RegistryEntry]:
        """The entries of replicas that have reported."""
        return {key: entry for key, entry in self._entries.items() if entry is not None}

    @property
    def state(self) -> AppState:
        """The app with the settings that these replicas obey."""
        state = self._started
        thresholds, policies, failed = dict(state.thresholds), dict(state.policies), dict(state.failed_until)
        for entry in self.entries.values():
            for query, delays in entry.snapshot.delays.items():
                thresholds[query] = delays.threshold_us
                policies[query] = Policy(delays.failure.value, delays.stabilization.value)
            failed.update(entry.snapshot.failed_until)
        return replace(state, thresholds=thresholds, policies=policies, failed_until=failed)

    def overview(self, now_us: int) -> dict[str, Any]:
        """Like `borealis status --json`, for these replicas. `now_us`: wall time."""
        statuses: Statuses = {key: entry.snapshot.status for key, entry in self.entries.items()}
        return overview(self.state, statuses, now_us, self.replicas)

    def hung(self) -> list[str]:
        """The loops of this process that hang, one sentence each. A loop that starts or has ended does not hang."""
        if self._afar:
            return []
        return [
            f"{name(key)} has said nothing for {age_s:.0f} s"
            for key, entry in self.entries.items()
            if (age_s := self._age_s(entry)) > HUNG_S and entry.snapshot.status.event != "STOPPED"
        ]

    def diverged(self) -> list[str]:
        """Those of which nothing is published, since replicas differ, one sentence each."""
        told = {key: entry.snapshot.status.diverged for key, entry in self.entries.items()}
        return [f"DIVERGED: {name(key)} publishes nothing: {why}" for key, why in told.items() if why]

    def unready(self) -> list[str]:
        """The replicas that are not working, one sentence each: not past RECOVERING, stopped, or hung."""
        return [why for key in self.replicas if (why := self._why_unready(key))]

    def _why_unready(self, key: ReplicaKey) -> str:
        entry = self._entries[key]
        if entry is None:
            return f"{name(key)} is starting"
        status = entry.snapshot.status
        if status.event == "STOPPED":
            return f"{name(key)} has stopped{f': {status.detail}' if status.detail else ''}"
        if self._age_s(entry) > HUNG_S:
            return f"{name(key)} has said nothing for {self._age_s(entry):.0f} s"
        return f"{name(key)} is RECOVERING" if status.state == "RECOVERING" else ""

    def _age_s(self, entry: RegistryEntry) -> float:
        return self._clock() - entry.heard_s


def name(key: ReplicaKey) -> str:
    """`sales.r0`."""
    return f"{key[0]}.r{key[1]}"


def _added(before: RegistryEntry | None, snapshot: StatusSnapshot, now_s: float) -> RegistryEntry:
    if before is None:
        before = RegistryEntry(snapshot, now_s)
    status = snapshot.status
    events, redos, starts = before.events, before.redos, before.starts
    if status.inc > before.snapshot.status.inc:
        starts += 1
    if status.event:
        events = {**events, status.event: events.get(status.event, 0) + 1}
    if status.redo is not None:
        count, seconds = redos.get(status.redo.engine, (0, 0.0))
        redos = {**redos, status.redo.engine: (count + 1, seconds + status.redo.seconds)}
    return RegistryEntry(snapshot, now_s, starts, events, redos)
