"""The apps on a broker: the settings topic of each, folded, and the newest status of each replica.

Blocking; for commands, the demo and a replica process that starts. Works on any log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import msgspec

from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, Lookup, NewRecord
from borealis_py.log.description import APP_KEY, read_description
from borealis_py.log.ingress_status import IngressStatus
from borealis_py.log.messages import (
    Description,
    DisagreementSetting,
    Policy,
    RecoverySetting,
    RetainSetting,
    SourceFailure,
    Status,
    Threshold,
    decode,
    encode,
)
from borealis_py.protocol.settings import Timing
from borealis_py.query.errors import QueryError, did_you_mean
from borealis_py.query.ingress_spec import INGRESSES
from borealis_py.query.names import base_name
from borealis_py.query.partitions import physical, source_parts
from borealis_py.query.recovery import ACTIVE, RecoveryPlan
from borealis_py.query.retention import Keep
from borealis_py.query.spec import AppSpec

T = TypeVar("T")

RECENT_MS = 60_000
"""How far back to search for statuses at first: a replica writes one per second."""
GONE_S = 5.0
"""A replica reports every second; after this much silence it is not running, or cannot reach the broker."""


class NoSuchApp(LogError):
    """An app, query or source does not exist, or an app cannot be read."""


@dataclass(frozen=True)
class AppState:
    """The app `name` according to its settings topic. `spec`: as its `description` has it, partitions not expanded.

    `thresholds` (microseconds) and `policies` are those set since by query; one without an entry has those of `spec`.
    `failed_until`: by source, the wall time in microseconds until which replicas do not read it (`borealis fail
    source`). `diverged`: by query or node, why nothing of it is published (R15). `set_of_sources`: of sources that
    ingresses write, and of which something was set. `retained`: by source, node or query, what was set to be kept.
    `recovering`: by node as it runs, how it was set to recover.
    """

    name: str
    spec: AppSpec
    description: Description
    thresholds: Mapping[str, int] = field(default_factory=dict)
    policies: Mapping[str, Policy] = field(default_factory=dict)
    failed_until: Mapping[str, int] = field(default_factory=dict)
    diverged: Mapping[str, str] = field(default_factory=dict)
    set_of_sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    retained: Mapping[str, Keep] = field(default_factory=dict)
    recovering: Mapping[str, RecoveryPlan] = field(default_factory=dict)

    @cached_property
    def runs(self) -> AppSpec:
        """The app as it runs, with each partition as a node of its own."""
        return physical(self.spec)

    @property
    def origin(self) -> int:
        """The app's first bucket."""
        return self.description.origin

    @property
    def app_uid(self) -> str:
        """Identifies the app's current life."""
        return self.description.app_uid

    @property
    def hash(self) -> str:
        return self.description.hash

    @property
    def timing(self) -> Timing:
        """The timing of its replicas and subscribers."""
        return self.description.timing or Timing()

    def threshold_us(self, query: str) -> int:
        """The threshold in force: the setting if it is valid, else that of the app's file. Raises QueryError."""
        declared_us = self.spec.query(query).threshold_us
        threshold_us = self.thresholds.get(query, declared_us)
        least_us = self.timing.least_threshold_us(self.spec.position(query))
        return threshold_us if threshold_us >= least_us else declared_us  # replicas ignore it, too

    def source_settings(self, source: str) -> SourceSettings:
        """What is in force for a source that an ingress writes: what was set, else what the app's file says."""
        declared = SourceSettings(self.spec.ingresses[source].expect_us)
        return self.set_of_sources.get(source, declared)

    def in_force(self) -> AppSpec:
        """The app with the thresholds and the expected silences that are in force."""
        queries = {
            name: query.model_copy(update={"threshold_us": self.threshold_us(name)})
            for name, query in self.spec.queries.items()
        }
        ingresses = {
            name: one.model_copy(update={"expect_us": self.source_settings(name).expect_us})
            for name, one in self.spec.ingresses.items()
        }
        return self.spec.model_copy(update={"queries": queries, "ingresses": ingresses})

    def keeps(self, name: str) -> Keep:
        """How much of a source's or node's stream is kept: the setting, else what the app's file says."""
        return self.retained[name] if name in self.retained else self.spec.keeps(name)

    def recovery(self, node: str) -> RecoveryPlan:
        """How a node as it runs recovers: the setting, else what the app's file says. Raises QueryError."""
        return self.recovering[node] if node in self.recovering else self.runs.node(node).recovery

    def changed_recovery(self, runs: AppSpec) -> dict[str, RecoveryPlan]:
        """How nodes recover by another file, `runs` as it runs, where this one says something else. Of a node that is
        new a setting may be there, of when it was there before."""
        declared = dict(self.recovering)
        declared |= {name: node.recovery for name, node in self.runs.all_nodes.items()}
        found = {name: node.recovery for name, node in runs.all_nodes.items()}
        return {name: plan for name, plan in found.items() if plan != declared.get(name, ACTIVE)}

    def schema(self, source: str) -> dict[str, str]:
        """The columns of a source, or of one of its partitions. Raises NoSuchApp with the closest names."""
        sources = self.runs.sources
        if source not in sources:
            hint = did_you_mean(source, sources) or ";"
            written = source in self.spec.all_nodes
            kind = f" (it is a {self.spec.label(source).split()[0]}: replicas write its stream)" if written else ""
            raise NoSuchApp(f"app {self.name!r} has no source {source!r}{kind}{hint} sources: {', '.join(sources)}")
        return sources[source]

    def inputs_of(self, source: str) -> tuple[str, ...]:
        """The inputs that a source is: itself, or one for each partition or value of its topic. Raises NoSuchApp."""
        if source in self.spec.sources:
            return tuple(source_parts(self.spec, source))
        self.schema(source)
        return (source,)

    def published_schema(self, source: str) -> dict[str, str]:
        """The columns of a source that a publisher writes. Raises NoSuchApp, also for one that ingresses write."""
        ingress = self.spec.ingresses.get(base_name(source))
        if ingress is not None:
            raise NoSuchApp(
                f"app {self.name!r}: its ingresses write source {source!r}, from topic {ingress.topic!r}: nothing else "
                "may. Send rows to that topic"
            )
        return self.schema(source)

    def replicas(self) -> list[tuple[str, int]]:
        """(node, replica index) of each replica that should run; a query is the node that gives its result."""
        return [(name, k) for name, node in self.runs.all_nodes.items() for k in range(node.replicas)]

    def ingresses(self) -> list[tuple[str, int]]:
        """(source, ingress index) of each ingress that should run."""
        return [(source, k) for source in self.spec.ingresses for k in range(INGRESSES)]


def app_names(log: Log) -> list[str]:
    """The apps with topics on the broker. Raises LogUnreachable."""
    admin = log.admin()
    try:
        there = admin.topics()
    finally:
        admin.close()
    known = set(there)
    suffix = topics.settings("")
    names = [t.removesuffix(suffix) for t in there if t.endswith(suffix)]
    return sorted(n for n in names if n and "." not in n and topics.control(n) in known)


def find_app(log: Log, name: str | None = None) -> str:
    """Resolve an app: the one named, else the only one.

    Raises:
        NoSuchApp: none of that name, none at all, or several to choose from.
    """
    names = app_names(log)
    if name is not None:
        if name in names:
            return name
        hint = did_you_mean(name, names) or ";"
        raise NoSuchApp(f"no app {name!r} on this broker{hint} apps: {', '.join(names) or 'none'}")
    if not names:
        raise NoSuchApp("no app on this broker. `borealis up app.py` starts one")
    if len(names) > 1:
        raise NoSuchApp(f"several apps on this broker: {', '.join(names)}. Choose one with --app (app= in Python)")
    return names[0]


def read_app(log: Log, name: str | None = None) -> AppState:
    """The description and the settings in force.

    Raises:
        NoSuchApp: no such app, or it has no description.
    """
    chosen = find_app(log, name)
    state = read_settings(log, chosen)
    if state is None:
        raise NoSuchApp(f"app {chosen!r} has topics but no description: `borealis up` was interrupted. Run it again")
    return state


def read_settings(log: Log, name: str) -> AppState | None:
    """Read an app whose settings topic exists; None: it has no description.

    Raises:
        OtherVersion: another version of borealis-py has described it.
        NoSuchApp: its description cannot be read.
    """
    values = read_values(log, Feed(topics.settings(name)))
    raw = values.get(APP_KEY)
    if raw is None:
        return None
    try:
        description = read_description(name, raw)
        spec = AppSpec.from_json(description.app)
    except (msgspec.DecodeError, QueryError) as exc:
        raise NoSuchApp(
            f"app {name!r}: its description cannot be read ({exc}). `borealis up --reset` starts anew"
        ) from exc
    return AppState(
        name,
        spec,
        description,
        {query: t.threshold_us for query, t in _of_kind(values, "threshold", Threshold)},
        dict(_of_kind(values, "policy", Policy)),
        {source: f.until_wall_us for source, f in _of_kind(values, "fail", SourceFailure)},
        {
            name: str(setting.found)
            for name, setting in _of_kind(values, "diverged", DisagreementSetting)
            if setting.found is not None and setting.app_uid == description.app_uid
        },
        {
            source: found
            for source, one in spec.ingresses.items()
            if (found := _of_source(values, source, one.expect_us, description.app_uid))
            != SourceSettings(one.expect_us)
        },
        {
            stream: setting.kept
            for stream, setting in _of_kind(values, "retain", RetainSetting)
            if setting.app_uid in ("", description.app_uid)
        },
        {
            node: setting.plan
            for node, setting in _of_kind(values, "recovery", RecoverySetting)
            if setting.app_uid == description.app_uid
        },
    )


def _of_source(values: Mapping[str, bytes], source: str, expect_us: int | None, app_uid: str) -> SourceSettings:
    found = SourceSettings(expect_us)
    for key, value in values.items():
        found = found.after(source, app_uid, key, value)
    return found


def read_values(log: Log, feed: Feed) -> dict[str, bytes]:
    """The last value of each key of a compacted topic."""
    lookup = log.lookup()
    try:
        first, end = lookup.bounds(feed)
        last = {(r.key or b"").decode(errors="replace"): r.value for r in lookup.read(feed, first, end)}
    finally:
        lookup.close()
    return {key: value for key, value in last.items() if value is not None}


def put_settings(log: Log, name: str, values: Mapping[str, msgspec.Struct], timeout_s: float = 15.0) -> None:
    """Write settings and wait until they are in the log.

    Raises:
        LogError: the log refused one.
    """
    appender = log.appender(lambda: None)
    try:
        for key, value in values.items():
            appender.append(NewRecord(Feed(topics.settings(name)), encode(value), key.encode()), key)
        settled = appender.flush(timeout_s)
        refused = [d for d in appender.deliveries() if d.error is not None]
    finally:
        appender.close()
    if refused:
        raise LogError(f"setting {refused[0].token} of app {name!r}: the log refused it: {refused[0].error}")
    if not settled:
        raise LogError(f"settings of app {name!r} were not written within {timeout_s:g} s. Is the broker reachable?")


ReplicaKey = tuple[str, int]
"""(node, replica); a query is the node of its name."""
Statuses = dict[ReplicaKey, Status]
"""The newest status of each replica."""
IngressStatuses = dict[tuple[str, int], IngressStatus]
"""The newest status of each ingress, by (source, index)."""


class StatusReader:
    """Reads an app's status topic forward.

    Args:
        since_ms: start with records written at or after this wall time; None: with everything retained (an hour).
    """

    def __init__(self, log: Log, app: str, since_ms: int | None = None) -> None:
        self.newest: Statuses = {}
        self.ingresses: IngressStatuses = {}
        self._feed = Feed(topics.status(app))
        with ExitStack() as opened:  # whoever follows an app opens it again and again while the broker is away
            self._lookup: Lookup = opened.enter_context(closing(log.lookup()))
            first = self._lookup.bounds(self._feed)[0]
            self._next = first if since_ms is None else max(first, self._lookup.find(self._feed, since_ms))
            opened.pop_all()

    def poll(self) -> list[Status]:
        """The replicas' statuses since the last call, in order; `newest` and `ingresses` are up to date afterwards."""
        first, end = self._lookup.bounds(self._feed)
        self._next = first if end < self._next else max(first, self._next)  # recreated, or trimmed by retention
        if end == self._next:
            return []
        records = self._lookup.read(self._feed, self._next, end)
        found = []
        for record in records:
            status = _status(record.value, Status)
            if status is not None:
                found.append(status)
            elif (of_ingress := _status(record.value, IngressStatus)) is not None:
                self.ingresses[of_ingress.source, of_ingress.ingress] = of_ingress
        self._next = end
        self.newest.update({(s.node, s.replica): s for s in found})
        return found

    def close(self) -> None:
        self._lookup.close()


def read_statuses(log: Log, state: AppState, now_ms: int) -> Statuses:
    """The newest status of each replica of an app, except of those that were silent for an hour."""
    return read_all_statuses(log, state, now_ms)[0]


def read_all_statuses(log: Log, state: AppState, now_ms: int) -> tuple[Statuses, IngressStatuses]:
    """The same, and that of each ingress."""
    expected = {*state.replicas(), *state.ingresses()}
    newest: Statuses = {}
    ingresses: IngressStatuses = {}
    for since_ms in (now_ms - RECENT_MS, None):
        reader = StatusReader(log, state.name, since_ms)
        try:
            reader.poll()
        finally:
            reader.close()
        newest, ingresses = reader.newest, reader.ingresses
        if expected <= {*newest, *ingresses}:
            break
    return {key: newest[key] for key in sorted(newest)}, {key: ingresses[key] for key in sorted(ingresses)}


def _status(value: bytes | None, kind: type[T]) -> T | None:
    try:
        return decode(value or b"", kind)
    except msgspec.DecodeError:  # written by another version: ignored
        return None


def _of_kind(values: Mapping[str, bytes], kind: str, struct: type[T]) -> Iterable[tuple[str, T]]:
    for key, value in values.items():
        head, _, name = key.partition("/")
        if head == kind and name:
            try:
                yield name, decode(value, struct)
            except msgspec.DecodeError:  # ignored here as by replicas, which log a warning
                continue
