"""The settings topic as one replica sees it: thresholds, policies, failed sources, highest incarnations; and what it
writes there itself, that replicas differ (R15).

Threshold and policies belong to a query; a node combines those of all queries that read it (`delays`). No clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import msgspec
import structlog

from borealis_py.log.base import Appender, NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.log.messages import (
    DisagreementSetting,
    Incarnation,
    Policy,
    RetainSetting,
    SettingOfLife,
    SourceFailure,
    Threshold,
    decode,
    encode,
)
from borealis_py.log.unreadable import ignored
from borealis_py.node.delays import as_configured, combined, wait_us
from borealis_py.node.recovery_setting import KIND, plan_said
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Disagreement
from borealis_py.protocol.settings import Delays, NodeDelays, SettingsError, Timing
from borealis_py.protocol.trimming import Retain
from borealis_py.query.names import base_name
from borealis_py.query.recovery import RecoveryPlan
from borealis_py.query.retention import AUDITED, Keep
from borealis_py.query.spec import Serves
from sunion.units import MonotonicUs

log = structlog.get_logger(__package__)

ALL = Retain(None)


def retain_of(kept: Keep) -> Retain:
    """What a user keeps of a stream, as trimming takes it."""
    return Retain(0, audited=True) if kept == AUDITED else Retain(kept)


_NONE: Mapping[str, Retain] = MappingProxyType({})


class DynamicSettings:
    """Folds settings records; a bad one changes nothing and logs a warning.

    Args:
        life: incarnation records of another life are ignored.
        node: its name. replica: the index.
        serves: the queries that read the node, each with the way to its result.
        delays: of each of these queries, until a settings record changes them.
        retain: what is kept of sources and streams, by name as they run, likewise; of others all is.

    Attributes:
        failed_until: for each source that a drill fails, the wall time at which the drill ends, in microseconds.
        inc: highest recorded incarnation of this replica index; 0: none.
        recovery: how the node recovers, by the last setting of it; None: none was read.
    """

    def __init__(
        self,
        life: Life,
        node: str,
        replica: int,
        serves: Sequence[Serves],
        delays: Mapping[str, Delays],
        timing: Timing,
        retain: Mapping[str, Retain] = _NONE,
    ) -> None:
        self.failed_until: dict[str, int] = {}
        self.inc = 0
        self.recovery: RecoveryPlan | None = None
        self._life = life
        self._node = node
        self._serves = {s.query: s for s in serves}
        self._queries = {query: delays[query] for query in self._serves}
        self._waits_us: dict[str, int] = {}  # D by query, computed once a threshold
        self._differing = set[str]()
        self._disagreements: list[Disagreement | None] = []
        self._incarnation = f"incarnation/{node}/{replica}"
        self._timing = timing
        self._declared = retain
        self._retain = dict[str, Retain]()

    @property
    def queries(self) -> Mapping[str, Delays]:
        """The current settings of each query that reads the node."""
        return dict(self._queries)

    @property
    def delays(self) -> NodeDelays:
        """The node's settings: see `as_enforced`. Raises SettingsError while a query's threshold is too small."""
        for name, delays in self._queries.items():
            if name not in self._waits_us:
                self._waits_us[name] = wait_us(self._timing, self._serves[name], delays.threshold_us)
        return combined(self._waits_us.values(), self._queries)

    @property
    def as_configured(self) -> Delays:
        """As users set them: the query's own, or the strictest of the queries that read the node."""
        return as_configured(self._node, self._queries)

    def retain(self, name: str) -> Retain:
        """What is kept of a source or a node's stream, by its name as it runs. May be called in another thread."""
        return self._retain.get(base_name(name)) or self._declared.get(name, ALL)

    def read(self, record: Record) -> None:
        """Take one record. Call in log order."""
        key = (record.key or b"").decode(errors="replace")
        kind, _, name = key.partition("/")
        try:
            self._read(kind, name, key, record)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, SettingsError) as exc:
            ignored(log, "setting ignored", record, exc, key=key)

    def take_disagreements(self) -> list[Disagreement | None]:
        """What was said of replicas that differ since the last call, in order; None: an operator has cleared it."""
        found, self._disagreements = self._disagreements, []
        return found

    def take_differing(self) -> set[str]:
        """The names of this node, and of queries that read it, of which it was said since the last call that replicas
        differ, or that an operator has cleared it."""
        found, self._differing = self._differing, set()
        return found

    def _counts(self, record: Record, setting: SettingOfLife) -> bool:
        """Whether it was set in this life of the app. What was under way while `up --reset` began it anew was not."""
        return not setting.app_uid or self._life.owns(record, setting.app_uid)

    def _read(self, kind: str, name: str, key: str, record: Record) -> None:
        value = record.value or b""
        if kind == "threshold" and name in self._serves:
            threshold = decode(value, Threshold)
            if not self._counts(record, threshold):
                return
            depth = self._serves[name].depth
            self._queries[name] = self._queries[name].with_threshold(threshold.threshold_us, self._timing, depth)
            self._waits_us.pop(name, None)
        elif kind == "policy" and name in self._serves:
            policy = decode(value, Policy)
            if not self._counts(record, policy):
                return
            self._queries[name] = self._queries[name].with_policies(policy.failure, policy.stabilization)
        elif kind == "fail":
            failure_of_source = decode(value, SourceFailure)
            if self._counts(record, failure_of_source):
                self.failed_until[name] = failure_of_source.until_wall_us
        elif kind == "retain":
            setting = decode(value, RetainSetting)
            if self._counts(record, setting):
                self._retain[name] = retain_of(setting.kept)
        elif kind == KIND and name == self._node:
            self.recovery = plan_said(record, self._life) or self.recovery
        elif kind == "diverged" and (name == base_name(self._node) or name in self._serves):
            said = decode(value, DisagreementSetting)
            if self._life.owns(record, said.app_uid):
                self._differing.add(name)
                if name == base_name(self._node):
                    self._disagreements.append(said.found)
        elif key == self._incarnation:
            found = decode(value, Incarnation)
            if self._life.owns(record, found.app_uid):
                self.inc = max(self.inc, found.inc)


AGAIN_US = 2_000_000
"""After this long, what was not read back is taken for lost."""


class DisagreementTelling:
    """Writes into the settings that replicas differ, and writes it again while it is not there (R15). All replicas of
    the node and of the queries that read it hear of it: their rows come from it.

    The replica that has found it publishes nothing, but its peers stop for the setting alone: a record that the log has
    lost would leave a peer publishing what may be wrong.
    """

    def __init__(self, spec: ReplicaSpec, appender: Appender) -> None:
        self.names = frozenset({base_name(spec.node), *(s.query for s in spec.serves)})
        """Under which it is told."""
        self._spec = spec
        self._appender = appender
        self._missing = frozenset[str]()
        self._value = b""
        self._written_us = MonotonicUs(0)

    def tell(self, found: Disagreement, now: MonotonicUs) -> None:
        """Write what this replica has found."""
        self._value = encode(DisagreementSetting(self._spec.app_uid, replace(found, node=self._spec.node)))
        self._missing = self.names
        self._write(now)

    def turn(self, found: Disagreement | None, said: Collection[str], now: MonotonicUs) -> None:
        """Write again what is not in the settings.

        Args:
            found: because of which nothing is published; None: nothing, or an operator has cleared it.
            said: the names under which the settings that were read since the last call say something of this.
        """
        self._missing = frozenset() if found is None else self._missing - frozenset(said)
        if self._missing and now - self._written_us >= AGAIN_US:
            log.warning("that replicas differ is not in the settings: written again", names=sorted(self._missing))
            self._write(now)

    def _write(self, now: MonotonicUs) -> None:
        self._written_us = now
        for name in sorted(self._missing):
            key = f"diverged/{name}".encode()
            self._appender.append(NewRecord(self._spec.settings_feed, self._value, key, conflatable=True))
