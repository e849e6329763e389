"""Changes an app's settings while it runs: validation, writing, and waiting until thresholds and policies are in force.

A replica obeys a setting from when it reads it (B19), and its status reports which settings it obeys. Blocking; for
commands. Works on any log, knows no terminal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

import msgspec

from borealis_py.app.recovery_allowed import check_recovery
from borealis_py.app.state import (
    GONE_S,
    RECENT_MS,
    AppState,
    NoSuchApp,
    ReplicaKey,
    StatusReader,
    UnknownName,
    put_settings,
    read_all_statuses,
    read_settings,
)
from borealis_py.app.waits import check_query_threshold, check_waits
from borealis_py.log.acks import forget_record, read_acks
from borealis_py.log.base import Log, LogError
from borealis_py.log.description import Life
from borealis_py.log.messages import Policy, RecoverySetting, RetainSetting, Status, Threshold
from borealis_py.node.delays import as_configured
from borealis_py.protocol.settings import DelayPolicy, Delays, SettingsError
from borealis_py.protocol.trimming import ReplicaName
from borealis_py.query import format_duration
from borealis_py.query.errors import did_you_mean
from borealis_py.query.names import base_name
from borealis_py.query.partitions import parts_of
from borealis_py.query.recovery import RecoveryPlan
from borealis_py.query.retention import AUDITED, Keep, kept_too_short
from borealis_py.query.units import DURATION_MAX_US

LOOK_S = 0.1
REREAD_S = 1.0
"""How often a wait checks whether someone else has changed the settings."""
MOST_US = DURATION_MAX_US
"""A threshold of more than a year is taken for a typing error."""
SILENT_US = 10_000_000
"""A replica without a status for so long does not run."""
WRITTEN_S = 15.0
_REPLICA = re.compile(r"(.+)\.r(0|[1-9][0-9]?)")


@dataclass(frozen=True, slots=True)
class SettingChange:
    """The changes to make to a query: its delay threshold (`threshold_us`), and its policies while an input is missing
    (`failure`) and while replicas correct (`stabilization`); None: leave unchanged."""

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
    """Replica `replica` of `node`, which serves the query. `running`: a status of it came within the last 5 s.

    `wanted`: what its status should report; `says`: what its newest status reports (None: there is none), as
    configured. `since_wall_us`: when its status first reported what is wanted; None: not yet.
    """

    node: str
    replica: int
    running: bool
    wanted: Delays
    says: Delays | None
    since_wall_us: int | None

    @property
    def pending(self) -> bool:
        """Whether it runs but has not yet reported that it obeys."""
        return self.running and self.since_wall_us is None


@dataclass(frozen=True, slots=True)
class Changed:
    """The outcome of a change: what was in force `before` it, and what is in force `after` it.

    `written`: False if everything was already set. `replicas`: all that serve the query, and whether they obey.
    `overtaken`: the query's settings now, if someone else changed them meanwhile; None: nobody did.
    """

    query: str
    before: Delays
    after: Delays
    written: bool
    replicas: tuple[Obeys, ...]
    overtaken: Delays | None = None

    @property
    def pending(self) -> tuple[Obeys, ...]:
        """Replicas that run but do not obey yet."""
        return tuple(r for r in self.replicas if r.pending)


def in_force(state: AppState, query: str) -> Delays:
    """The threshold and policies in force: the settings if they are valid, else the app's file.

    Raises:
        QueryError: unknown query.
        NoSuchApp: a node of that name, or a query that no longer exists.
    """
    refuse_unknown(state, query)
    return state.delays(query)


def refuse_unknown(state: AppState, query: str) -> None:
    """Raises NoSuchApp for a name that has a reason for not being a query; leaves misspellings to `AppSpec.query`."""
    if query in state.spec.nodes:
        served = ", ".join(s.query for s in state.spec.serves(query))
        raise UnknownName(
            f"{query!r} is a node of app {state.name!r}, not a query: it obeys the queries it serves: {served}"
        )
    if query not in state.spec.queries and query in {*state.thresholds, *state.policies}:
        raise UnknownName(
            f"app {state.name!r} has no query {query!r} any more; queries: {', '.join(state.spec.queries) or 'none'}"
        )


def checked(state: AppState, query: str, threshold_us: int) -> None:
    """Raises SettingsError with the query's name and the smallest, or largest, valid threshold, or if less of its
    streams is kept; QueryError if the query would not wait longer than a silent foreign topic is given
    (`app.waits.check_waits`)."""
    if threshold_us > MOST_US:
        raise SettingsError(f"query {query!r}: delay threshold of more than {format_duration(MOST_US)} is not allowed")
    check_query_threshold(state.timing, query, threshold_us, state.spec.position(query))
    if threshold_us > state.threshold_us(query) and (why := kept_too_short(query, state.keeps(query), threshold_us)):
        raise SettingsError(f"{why}. Keep more of it first: `borealis retain {query} {format_duration(threshold_us)}`")
    spec = state.in_force()
    changed = spec.queries[query].model_copy(update={"threshold_us": threshold_us})
    check_waits(spec.model_copy(update={"queries": {**spec.queries, query: changed}}), state.timing, [query])


def kept_too_short_now(state: AppState) -> dict[str, str]:
    """The queries of which that is true now, and why: a file and what was set while the app runs may add up to it."""
    found = {q: kept_too_short(q, state.keeps(q), state.threshold_us(q)) for q in state.spec.queries}
    return {query: why for query, why in found.items() if why}


def change(
    log: Log,
    state: AppState,
    query: str,
    asked: SettingChange,
    timeout_s: float,
    tell: Callable[[Changed], None] = lambda so_far: None,
) -> Changed:
    """Write the changes, then wait until every running replica reports that it obeys. Changes that someone else makes
    meanwhile count as `before` unless they contradict this one, which ends the wait.

    Args:
        timeout_s: limit of the wait; what was written stays.
        tell: called repeatedly with the progress so far.

    Raises:
        QueryError, NoSuchApp: unknown query, or one that disappears meanwhile; or see `checked`.
        SettingsError: a threshold that cannot hold.
        LogError: the settings could not be written, or the app is gone.
    """
    before = in_force(state, query)
    after = asked.applied(before)
    checked(state, query, after.threshold_us)
    watch = _SettingWatch(log, state, _wanted(state, query, after))
    try:
        watch.look()
        values = _values(query, before, after, state.app_uid)
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


def _values(query: str, before: Delays, after: Delays, app_uid: str) -> dict[str, msgspec.Struct]:
    values: dict[str, msgspec.Struct] = {}
    if after.threshold_us != before.threshold_us:
        values[f"threshold/{query}"] = Threshold(after.threshold_us, app_uid)
    if (after.failure, after.stabilization) != (before.failure, before.stabilization):
        values[f"policy/{query}"] = Policy(after.failure.value, after.stabilization.value, app_uid)
    return values


def _wanted(state: AppState, query: str, after: Delays) -> dict[ReplicaKey, Delays]:
    """What each replica of each node that serves the query should obey, given all queries it serves."""
    spec = state.runs
    wanted: dict[ReplicaKey, Delays] = {}
    for name, node in spec.all_nodes.items():
        serves = spec.serves(name)
        if any(s.query == query for s in serves):
            delays = {s.query: after if s.query == query else in_force(state, s.query) for s in serves}
            wanted |= {(name, k): as_configured(name, delays) for k in range(node.replicas)}
    return wanted


class _SettingWatch:
    """Tracks which settings the replicas obey, from their statuses."""

    def __init__(self, log: Log, state: AppState, wanted: dict[ReplicaKey, Delays]) -> None:
        self._wanted = wanted
        self._reader = StatusReader(log, state.name, time.time_ns() // 1_000_000 - RECENT_MS)
        self._since: dict[ReplicaKey, int] = {}
        self._heard: dict[ReplicaKey, float] = {}
        self._first = True

    def look(self) -> None:
        """Read the statuses since the last call."""
        now, wall_us = time.monotonic(), time.time_ns() // 1000
        for status in self._reader.poll():
            key = status.node, status.replica
            if key not in self._wanted:
                continue
            # The age of a status that was already there is known only by its own clock; later ones are as old as our
            # polls.
            age_s = max(0.0, (wall_us - status.at_wall_us) / 1e6) if self._first else 0.0
            self._heard[key] = now - (age_s if status.event != "STOPPED" else GONE_S)
            if _says(status) == self._wanted[key]:
                self._since.setdefault(key, status.at_wall_us)
            else:
                self._since.pop(key, None)
        self._first = False

    def expect(self, wanted: dict[ReplicaKey, Delays]) -> None:
        """Set what the replicas should report from now on."""
        for key in wanted:
            if wanted[key] != self._wanted.get(key):
                self._since.pop(key, None)
        self._wanted = wanted

    def forget(self) -> None:
        """Forget statuses from before the setting was written: they prove nothing."""
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
    except ValueError:  # written by another version
        return None
    return Delays(status.threshold_us, *both)


def set_retain(log: Log, state: AppState, name: str, kept: Keep) -> None:
    """Write how much of a source's or node's stream is kept; replicas obey as they read it.

    Args:
        kept: "audited" is for sources only.

    Raises:
        NoSuchApp: the app has no such stream. SettingsError: shorter than the query's delay threshold, or not for a
            stream of replicas.
        LogError: it could not be written.
    """
    known = (*state.spec.sources, *state.spec.all_nodes)
    if name not in known:
        hint = did_you_mean(name, known) or ";"
        raise UnknownName(f"app {state.name!r} has no source, node or query {name!r}{hint} it has {', '.join(known)}")
    least_us = state.threshold_us(name) if name in state.spec.queries else 0
    if kept == AUDITED and name not in state.spec.sources:
        raise SettingsError(f"{name}: audited is for sources, since audits read nothing else")
    if why := kept_too_short(name, kept, least_us):
        raise SettingsError(f'{why}. Choose a longer one, or "needed"')
    put_settings(log, state.name, {f"retain/{name}": RetainSetting.of(state.app_uid, kept)})


def set_recovery(log: Log, state: AppState, name: str, plan: RecoveryPlan) -> None:
    """Write how a node or query recovers, or one of its partitions; replicas obey as they read it.

    Args:
        name: as written, for all partitions that it has, or as it runs ("clean.0"), for one.

    Raises:
        NoSuchApp: the app has no such node. QueryError: nobody would take over, or the way promises less than the
            app's file asks (`app.recovery_allowed.check_recovery`).
        LogError: it could not be written.
    """
    nodes = recovering_nodes(state, name)
    check_recovery(state.spec, base_name(name), plan)
    put_settings(log, state.name, {f"recovery/{node}": RecoverySetting.of(state.app_uid, plan) for node in nodes})


def recovering_nodes(state: AppState, name: str) -> list[str]:
    """The nodes as they run that this name means: all partitions of a node or query, or one. Raises NoSuchApp."""
    if name in state.spec.all_nodes:
        return parts_of(state.spec, name)
    if name in state.runs.all_nodes:
        return [name]
    known = list(dict.fromkeys((*state.spec.all_nodes, *state.runs.all_nodes)))
    hint = did_you_mean(name, known) or ";"
    raise UnknownName(f"app {state.name!r} has no node or query {name!r}{hint} it has {', '.join(known)}")


def give_up_replica(log: Log, state: AppState, replica: str) -> None:
    """Give a replica up: while a peer lives, nothing is kept for it any more, until it speaks again.

    Args:
        replica: its name, such as "clean.r1".

    Raises:
        NoSuchApp: the app has no such replica, and none of that name has ever said what it needs.
        SettingsError: the replica runs.
        LogError: it could not be written, or what replicas have said cannot be read.
    """
    match, known = _REPLICA.fullmatch(replica), [ReplicaName(*one) for one in state.replicas()]
    name = ReplicaName(match[1], int(match[2])) if match is not None else None
    if name is None or name not in known:
        with closing(log.lookup()) as lookup:  # one that its node no longer has may have said what it needs
            said = {name for name, _ in read_acks(lookup, state.name, Life(state.app_uid))}
        known += [one for one in sorted(said - set(known)) if one.node in state.runs.all_nodes]
    if name is None or name not in known:
        there = [str(one) for one in known]
        hint = did_you_mean(replica, there) or ";"
        raise UnknownName(f"app {state.name!r} has no replica {replica!r}{hint} it has {', '.join(there)}")
    now_us = time.time_ns() // 1000
    statuses, _ = read_all_statuses(log, state, now_us // 1000)
    last = statuses.get((name.node, name.index))
    if last is not None and last.event != "STOPPED" and now_us - last.at_wall_us < SILENT_US:
        raise SettingsError(f"replica {replica} runs: it reported {(now_us - last.at_wall_us) / 1e6:.1f} s ago")
    with closing(log.appender(lambda: None)) as appender:
        appender.append(forget_record(state.name, state.app_uid, name), replica)
        written = appender.flush(WRITTEN_S)
        refused = [delivery.error for delivery in appender.deliveries() if delivery.error is not None]
    if refused or not written:
        raise LogError(f"{replica} was not given up: {refused[0] if refused else 'the log did not answer'}")
