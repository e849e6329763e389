"""The apps on a broker: the settings topic of each, folded, and the newest status of each replica.

Blocking; for commands, the demo and a replica process that starts. Works on any log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import msgspec
import structlog

from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, Lookup, NewRecord, Record
from borealis_py.log.clock import noticed
from borealis_py.log.description import APP_KEY, read_description
from borealis_py.log.ingress_status import IngressStatus, is_of_ingress
from borealis_py.log.messages import (
    Description,
    DisagreementSetting,
    Policy,
    RecoverySetting,
    RetainSetting,
    SettingOfLife,
    SourceFailure,
    Status,
    Threshold,
    decode,
    encode,
)
from borealis_py.log.unreadable import ignored
from borealis_py.node.delays import declared
from borealis_py.protocol.settings import Delays, SettingsError, Timing
from borealis_py.query.errors import QueryError, WrongWord, did_you_mean
from borealis_py.query.ingress_spec import INGRESSES
from borealis_py.query.names import base_name, part_name
from borealis_py.query.partitions import physical, source_parts
from borealis_py.query.recovery import ACTIVE, RecoveryPlan
from borealis_py.query.retention import Keep
from borealis_py.query.spec import AppSpec

S = TypeVar("S", bound=SettingOfLife)
_log = structlog.get_logger(__package__)

RECENT_MS = 60_000
"""How far back to search for statuses at first: a replica writes one per second."""
GONE_S = 5.0
"""A replica reports every second; after this much silence it is not running, or cannot reach the broker."""


class NoSuchApp(LogError):
    """An app, query or source does not exist, or an app cannot be read."""


class UnknownName(NoSuchApp, WrongWord):
    """A name that was given is not that of an app, query, source, ... of those that there are."""


@dataclass(frozen=True)
class AppState:
    """The app `name` according to its settings topic. `spec`: as its `description` has it, partitions not expanded.

    `thresholds` (microseconds) and `policies` are those set since by query; one without an entry has those of `spec`.
    `failed_until`: by source, the wall time in microseconds until which replicas do not read it (`borealis fail
    source`). `diverged`: by query or node, why nothing of it is published (R15.3). `set_of_sources`: of sources that
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

    def delays(self, query: str) -> Delays:
        """The threshold and policies in force: the settings, unless replicas refuse them, else those of the app's file.

        Raises:
            QueryError: unknown query.
        """
        found = declared(self.spec.query(query))
        if query in self.thresholds:
            with suppress(SettingsError):
                found = found.with_threshold(self.thresholds[query], self.timing, self.spec.position(query))
        if query in self.policies:
            policy = self.policies[query]
            with suppress(ValueError):  # written by something else than our commands
                found = found.with_policies(policy.failure, policy.stabilization)
        return found

    def threshold_us(self, query: str) -> int:
        """The threshold in force (microseconds): see `delays`."""
        return self.delays(query).threshold_us

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
            names = [self.runs.shown(name) for name in sources]
            hint = did_you_mean(source, names) or ";"
            written = source in self.spec.all_nodes
            kind = f" (it is a {self.spec.label(source).split()[0]}: replicas write its stream)" if written else ""
            raise UnknownName(f"app {self.name!r} has no source {source!r}{kind}{hint} sources: {', '.join(names)}")
        return sources[source]

    def inputs_of(self, source: str) -> tuple[str, ...]:
        """The inputs that a source is, by the names of the app as it runs: itself, or one for each partition or value
        of its topic.

        Args:
            source: of the app; or one input, as people call it. For a value of a column also the value as it is.

        Raises:
            UnknownName: there is none of this name.
        """
        if source in self.spec.sources:
            return tuple(source_parts(self.spec, source))
        called = self._inputs_called()
        if source in called:
            return (called[source],)
        shown = self.runs.input_names.get(source)
        if shown is not None:
            raise UnknownName(f"app {self.name!r}: input {source!r} goes by its value: name {shown!r}")
        if base_name(source) in self.spec.ingresses:
            of = [name for name in self.runs.sources if base_name(name) == base_name(source)]
            names = [self.runs.shown(name) for name in of]
            hint = did_you_mean(source, names) or ";"
            raise UnknownName(f"app {self.name!r} has no input {source!r}{hint} inputs: {', '.join(names)}")
        self.schema(source)
        return (source,)

    def _inputs_called(self) -> dict[str, str]:
        """The sources of the app as it runs, by all names by which people call them."""
        names = self.runs.input_names
        found = {part_name(source, value): part_name(source, i) for source, i, value in self._values()}
        found |= {name: name for name in self.runs.sources if name not in names}
        return found | {shown: name for name, shown in names.items()}

    def _values(self) -> Iterator[tuple[str, int, str]]:
        """Values that have an input: source, number of the input, value."""
        for source, ingress in self.spec.ingresses.items():
            for i, value in enumerate(ingress.values):
                yield source, i, str(value)

    def published_schema(self, source: str) -> dict[str, str]:
        """The columns of a source that a publisher writes. Raises NoSuchApp, also for one that ingresses write."""
        ingress = self.spec.ingresses.get(base_name(source))
        if ingress is not None:
            raise UnknownName(
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
        UnknownName: none of that name, or several to choose from. NoSuchApp: none at all.
        LogError: this user may not see whether there is one of that name.
    """
    names = app_names(log)
    if name is not None:
        if name in names:
            return name
        _refuse_hidden(log, name)
        hint = did_you_mean(name, names) or ";"
        raise UnknownName(f"no app {name!r} on this broker{hint} apps: {', '.join(names) or 'none'}")
    if not names:
        raise NoSuchApp(
            "no app on this broker, or none that this user may see (DESCRIBE on its topics). `borealis up app.py` "
            "starts one"
        )
    if len(names) > 1:
        raise UnknownName(f"several apps on this broker: {', '.join(names)}. Choose one with --app (app= in Python)")
    return names[0]


def _refuse_hidden(log: Log, name: str) -> None:
    with closing(log.admin()) as admin:
        admin.partitions(topics.settings(name))


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
        NoSuchApp: there are descriptions, and none can be read.
    """
    records = _settings(log, name)
    described = _described(name, records)
    if described is None:
        return None
    description, spec = described
    set_ = _SetSettings(records, description.app_uid)
    return AppState(
        name,
        spec,
        description,
        {query: t.threshold_us for query, t in set_.of_kind("threshold", Threshold)},
        {query: Policy(p.failure, p.stabilization) for query, p in set_.of_kind("policy", Policy)},
        {source: f.until_wall_us for source, f in set_.of_kind("fail", SourceFailure)},
        {
            name: str(setting.found)
            for name, setting in set_.of_kind("diverged", DisagreementSetting)
            if setting.found is not None
        },
        {
            source: found
            for source, one in spec.ingresses.items()
            if (found := set_.of_source(source, one.expect_us)) != SourceSettings(one.expect_us)
        },
        {stream: setting.kept for stream, setting in set_.of_kind("retain", RetainSetting)},
        {node: setting.plan for node, setting in set_.of_kind("recovery", RecoverySetting)},
    )


def _described(name: str, records: Iterable[Record]) -> tuple[Description, AppSpec] | None:
    """The last description that can be read; None: there is none. Raises OtherVersion, NoSuchApp."""
    found, refused = None, None
    for record in records:
        if record.key != APP_KEY.encode():
            continue
        try:
            description = read_description(name, record.value or b"")
            found = description, AppSpec.from_json(description.app)
        except (msgspec.DecodeError, QueryError) as exc:
            ignored(_log, "description ignored", record, exc)
            refused = exc
    if found is None and refused is not None:
        raise NoSuchApp(f"app {name!r}: its description cannot be read ({refused}). `borealis up --reset` starts anew")
    return found


@dataclass(frozen=True, slots=True)
class _SetSettings:
    """What was set in the app's life `app_uid`: by each key the last of the `records` that counts."""

    records: Sequence[Record]
    app_uid: str

    def of_source(self, source: str, expect_us: int | None) -> SourceSettings:
        found = SourceSettings(expect_us)
        for record in self.records:
            found = found.after(source, self.app_uid, record)
        return found

    def of_kind(self, kind: str, struct: type[S]) -> Iterable[tuple[str, S]]:
        found: dict[str, S] = {}
        for record in self.records:
            key = (record.key or b"").decode(errors="replace")
            head, _, name = key.partition("/")
            if head == kind and name:
                try:
                    setting = decode(record.value or b"", struct)
                except msgspec.DecodeError as exc:  # ignored here as by replicas
                    ignored(_log, "setting ignored", record, exc, key=key)
                    continue
                if setting.app_uid in ("", self.app_uid):
                    found[name] = setting
        return found.items()


def _settings(log: Log, name: str) -> list[Record]:
    feed = Feed(topics.settings(name))
    with closing(log.lookup()) as lookup:
        return list(lookup.read(feed, *lookup.bounds(feed)))


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
            status = _status(record)
            if isinstance(status, Status):
                found.append(status)
            elif status is not None:
                self.ingresses[status.source, status.ingress] = status
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


def _status(record: Record) -> Status | IngressStatus | None:
    """What a record reports, its time by the broker's clock where its machine's differs: ages are compared.

    None: it is none (`app.clocks`), or counts as nothing, as one of another version may."""
    if record.value is None:
        return None
    kind: type[Status | IngressStatus] = IngressStatus if is_of_ingress(record.key) else Status
    try:
        status = decode(record.value, kind)
        ahead_us = noticed(status.clock_ahead_us)
        return msgspec.structs.replace(status, at_wall_us=max(0, status.at_wall_us - ahead_us)) if ahead_us else status
    except msgspec.DecodeError as exc:
        ignored(_log, "status ignored", record, exc)
        return None
