"""Changing a query's threshold and policies while it runs: what may be asked, writing it, waiting until it is in force.

A replica obeys a setting from when it reads it (B19) and says in its status what it obeys. Blocking; for
commands. Works on any log, knows no terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from borealis_py.app.check import check_threshold
from borealis_py.app.state import (
    GONE_S,
    RECENT_MS,
    AppState,
    NoSuchApp,
    ReplicaKey,
    StatusReader,
    put_settings,
    read_settings,
)
from borealis_py.log.base import Log
from borealis_py.log.messages import Policy, Status, Threshold
from borealis_py.node.dynamic_settings import as_configured, declared
from borealis_py.protocol.settings import DelayPolicy, Delays, SettingsError, budget
from borealis_py.query import format_duration

LOOK_S = 0.1
REREAD_S = 1.0
"""How often a wait looks whether somebody else has changed the settings."""
MOST_US = 365 * 86_400_000_000
"""Beyond a year a threshold is a slip of the keyboard."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """What is to be different about a query; None stays as it is."""

    threshold_us: int | None = None
    failure: DelayPolicy | None = None
    stabilization: DelayPolicy | None = None

    def applied(self, before: Delays) -> Delays:
        return Delays(
            before.threshold_us if self.threshold_us is None else self.threshold_us,
            self.failure or before.failure,
            self.stabilization or before.stabilization,
        )


@dataclass(frozen=True, slots=True)
class Obeys:
    """One replica of a node that serves the query.

    `wanted`: what its status is to say, `says`: what its newest one says (None: there is none), as configured.
    `since_wall_us`: when its status first showed what is wanted; None: not yet.
    """

    node: str
    replica: int
    running: bool
    wanted: Delays
    says: Delays | None
    since_wall_us: int | None

    @property
    def pending(self) -> bool:
        """It runs and has not said yet that it obeys."""
        return self.running and self.since_wall_us is None


@dataclass(frozen=True, slots=True)
class Changed:
    """The outcome. `written`: False when all of it was set already. `overtaken`: what the query has now, if somebody
    set something else meanwhile.
    """

    query: str
    before: Delays
    after: Delays
    written: bool
    replicas: tuple[Obeys, ...]
    overtaken: Delays | None = None

    @property
    def pending(self) -> tuple[Obeys, ...]:
        """Replicas that run and do not obey yet."""
        return tuple(r for r in self.replicas if r.pending)


def in_force(state: AppState, query: str) -> Delays:
    """Threshold and policies as the replicas have them: the settings, where they make sense, else the app's file.

    Raises:
        QueryError: unknown query.
        NoSuchApp: a node of that name, or a query that is gone.
    """
    refuse_unknown(state, query)
    delays = declared(state.spec.query(query))
    try:
        budget(state.timing, state.threshold_us(query), depth=state.spec.position(query))
        delays = replace(delays, threshold_us=state.threshold_us(query))
    except SettingsError:  # somebody wrote it past us; replicas ignore it with a warning
        pass
    policy = state.policies.get(query)
    try:
        if policy is not None:
            both = DelayPolicy(policy.failure), DelayPolicy(policy.stabilization)
            delays = Delays(delays.threshold_us, *both)
    except ValueError:  # likewise
        pass
    return delays


def refuse_unknown(state: AppState, query: str) -> None:
    """Raises NoSuchApp for what is no query but has a reason for that; leaves mere slips to `AppSpec.query`."""
    if query in state.spec.nodes:
        served = ", ".join(s.query for s in state.spec.serves(query))
        raise NoSuchApp(
            f"{query!r} is a node of app {state.name!r}, not a query: it obeys the queries it serves: {served}"
        )
    if query not in state.spec.queries and query in {*state.thresholds, *state.policies}:
        raise NoSuchApp(
            f"app {state.name!r} has no query {query!r} any more; queries: {', '.join(state.spec.queries) or 'none'}"
        )


def checked(state: AppState, query: str, threshold_us: int) -> None:
    """Raises SettingsError with the query's name and the least, or the most, that would do."""
    if threshold_us > MOST_US:
        raise SettingsError(f"query {query!r}: a delay threshold of more than {format_duration(MOST_US)} holds nothing")
    check_threshold(state.timing, query, threshold_us, state.spec.position(query))


def change(
    log: Log,
    state: AppState,
    query: str,
    asked: SettingChange,
    timeout_s: float,
    tell: Callable[[Changed], None] = lambda so_far: None,
) -> Changed:
    """Write what is different, then wait until every replica that runs says that it obeys. What somebody else changes
    meanwhile counts as `before` unless it contradicts what was asked; that ends the wait.

    Args:
        timeout_s: after which the wait ends; what was written stays.
        tell: sees how far it has got, all the time.

    Raises:
        QueryError, NoSuchApp: unknown query, or one that goes meanwhile. SettingsError: a threshold that cannot hold.
        LogError: it could not be written, or the app is gone.
    """
    before = in_force(state, query)
    after = asked.applied(before)
    checked(state, query, after.threshold_us)
    watch = _SettingWatch(log, state, _wanted(state, query, after))
    try:
        watch.look()
        values = _values(query, before, after)
        if values:
            put_settings(log, state.name, values)
            watch.forget()
        deadline, again = time.monotonic() + timeout_s, time.monotonic() + REREAD_S
        while True:
            watch.look()
            found = Changed(query, before, after, bool(values), watch.found())
            tell(found)
            over = time.monotonic() > deadline
            if not found.pending:
                return found
            if over or time.monotonic() > again:
                state, again = _read_again(log, state), time.monotonic() + REREAD_S
                now = in_force(state, query)
                if asked.applied(now) != now:
                    return replace(found, overtaken=now)
                after = now
                watch.expect(_wanted(state, query, after))
            if over:
                return found
            time.sleep(LOOK_S)
    finally:
        watch.close()


def _read_again(log: Log, state: AppState) -> AppState:
    found = read_settings(log, state.name)
    if found is None:
        raise NoSuchApp(f"app {state.name!r} is gone from the broker")
    return found


def _values(query: str, before: Delays, after: Delays) -> dict[str, msgspec.Struct]:
    values: dict[str, msgspec.Struct] = {}
    if after.threshold_us != before.threshold_us:
        values[f"threshold/{query}"] = Threshold(after.threshold_us)
    if (after.failure, after.stabilization) != (before.failure, before.stabilization):
        values[f"policy/{query}"] = Policy(after.failure.value, after.stabilization.value)
    return values


def _wanted(state: AppState, query: str, after: Delays) -> dict[ReplicaKey, Delays]:
    """What each replica of each node that serves the query is to obey, all its queries considered."""
    spec = state.runs
    wanted: dict[ReplicaKey, Delays] = {}
    for name, node in spec.all_nodes.items():
        serves = spec.serves(name)
        if any(s.query == query for s in serves):
            delays = {s.query: after if s.query == query else in_force(state, s.query) for s in serves}
            wanted |= {(name, k): as_configured(name, delays) for k in range(node.replicas)}
    return wanted


class _SettingWatch:
    """What the statuses say about what the replicas obey."""

    def __init__(self, log: Log, state: AppState, wanted: dict[ReplicaKey, Delays]) -> None:
        self._wanted = wanted
        self._reader = StatusReader(log, state.name, time.time_ns() // 1_000_000 - RECENT_MS)
        self._since: dict[ReplicaKey, int] = {}
        self._heard: dict[ReplicaKey, float] = {}
        self._first = True

    def look(self) -> None:
        """Read what has been said since the last look."""
        now, wall_us = time.monotonic(), time.time_ns() // 1000
        for status in self._reader.poll():
            key = status.node, status.replica
            if key not in self._wanted:
                continue
            # How old a status is that lay there already only its own clock tells; later ones are as old as our looks.
            age_s = max(0.0, (wall_us - status.at_wall_us) / 1e6) if self._first else 0.0
            self._heard[key] = now - (age_s if status.event != "STOPPED" else GONE_S)
            if _says(status) == self._wanted[key]:
                self._since.setdefault(key, status.at_wall_us)
            else:
                self._since.pop(key, None)
        self._first = False

    def expect(self, wanted: dict[ReplicaKey, Delays]) -> None:
        """What replicas are to say is another now."""
        for key in wanted:
            if wanted[key] != self._wanted.get(key):
                self._since.pop(key, None)
        self._wanted = wanted

    def forget(self) -> None:
        """What was said before the setting was written proves nothing."""
        self._since.clear()

    def found(self) -> tuple[Obeys, ...]:
        now = time.monotonic()
        return tuple(
            Obeys(
                node=key[0],
                replica=key[1],
                running=now - self._heard.get(key, -GONE_S) < GONE_S,
                wanted=wanted,
                says=_says(self._reader.newest[key]) if key in self._reader.newest else None,
                since_wall_us=self._since.get(key),
            )
            for key, wanted in self._wanted.items()
        )

    def close(self) -> None:
        self._reader.close()


def _says(status: Status) -> Delays | None:
    try:
        both = DelayPolicy(status.failure_policy), DelayPolicy(status.stabilization_policy)
    except ValueError:  # another version's
        return None
    return Delays(status.threshold_us, *both)
