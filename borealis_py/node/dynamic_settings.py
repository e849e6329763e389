"""The settings topic as one replica sees it: thresholds, policies, failed sources, highest incarnations.

Threshold and policy are a query's; a node obeys all queries that read it (`as_enforced`). Knows nothing of clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import structlog

from borealis_py.log.base import Record
from borealis_py.log.description import Life
from borealis_py.log.messages import Incarnation, Policy, SourceFailure, Threshold, decode
from borealis_py.protocol.settings import DelayPolicy, Delays, SettingsError, Timing, budget
from borealis_py.query.spec import QuerySpec, Serves

log = structlog.get_logger("borealis.settings")

_EAGER_FIRST = (DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND)


def declared(query: QuerySpec) -> Delays:
    """Threshold and policies as the app's file has them: in force until a setting says otherwise."""
    return Delays(query.threshold_us, DelayPolicy(query.on_failure), DelayPolicy(query.on_stabilization))


def as_enforced(serves: Sequence[Serves], delays: Mapping[str, Delays], timing: Timing) -> Delays:
    """What a node does that `serves` these queries: it waits no longer than the most hurried of them allows, and holds
    nothing back that one of them wants (R13, B11).

    Args:
        serves: at least one. delays: of each of these queries.

    Returns:
        Delays whose threshold_us - timing.slack_us is the node's D, whatever its place in a chain. Of a query that is
        one node, its own.

    Raises:
        SettingsError: a threshold that is too small for its query's chain.
    """
    waits = [budget(timing, delays[s.query].threshold_us, s.hops, s.depth) for s in serves]
    return _eager(min(waits) + timing.slack_us, delays)


def as_configured(node: str, delays: Mapping[str, Delays]) -> Delays:
    """The same as people set it, for status: the query's own, or the strictest of the queries that read the node."""
    return delays.get(node) or _eager(min(d.threshold_us for d in delays.values()), delays)


def _eager(threshold_us: int, delays: Mapping[str, Delays]) -> Delays:
    return Delays(
        threshold_us,
        min((d.failure for d in delays.values()), key=_EAGER_FIRST.index),
        min((d.stabilization for d in delays.values()), key=_EAGER_FIRST.index),
    )


class DynamicSettings:
    """Folds settings records; a bad one is named in a warning and changes nothing.

    `failed_until`: source -> wall time. `inc`: highest incarnation of this replica index so far.

    Args:
        life: incarnations of another one say nothing.
        node: its name. serves: the queries that read it, each with the way to its result.
        delays: of each of these queries, until a setting says otherwise.
    """

    def __init__(
        self,
        life: Life,
        node: str,
        replica: int,
        serves: Sequence[Serves],
        delays: Mapping[str, Delays],
        timing: Timing,
    ) -> None:
        self.failed_until: dict[str, int] = {}
        self.inc = 0
        self._life = life
        self._node = node
        self._serves = {s.query: s for s in serves}
        self._queries = {query: delays[query] for query in self._serves}
        self._incarnation = f"incarnation/{node}/{replica}"
        self._timing = timing

    @property
    def queries(self) -> Mapping[str, Delays]:
        """Of each query that reads the node, as they are now."""
        return dict(self._queries)

    @property
    def delays(self) -> Delays:
        """What the node obeys: see `as_enforced`."""
        return as_enforced(tuple(self._serves.values()), self._queries, self._timing)

    @property
    def as_configured(self) -> Delays:
        """As people set them: the query's own, or the strictest of the queries that read the node."""
        return as_configured(self._node, self._queries)

    def read(self, record: Record) -> None:
        """Take one record, in the log's order."""
        key = (record.key or b"").decode(errors="replace")
        kind, _, name = key.partition("/")
        try:
            self._read(kind, name, key, record)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, SettingsError) as exc:
            log.warning("setting ignored", key=key, why=str(exc))

    def _read(self, kind: str, name: str, key: str, record: Record) -> None:
        value = record.value or b""
        if kind == "threshold" and name in self._serves:
            threshold_us = decode(value, Threshold).threshold_us
            budget(self._timing, threshold_us, depth=self._serves[name].depth)  # all nodes of a chain decide alike
            self._queries[name] = replace(self._queries[name], threshold_us=threshold_us)
        elif kind == "policy" and name in self._serves:
            policy = decode(value, Policy)
            failure, stabilization = DelayPolicy(policy.failure), DelayPolicy(policy.stabilization)
            self._queries[name] = replace(self._queries[name], failure=failure, stabilization=stabilization)
        elif kind == "fail":
            self.failed_until[name] = decode(value, SourceFailure).until_wall_us
        elif key == self._incarnation:
            found = decode(value, Incarnation)
            if self._life.owns(record, found.app_uid):
                self.inc = max(self.inc, found.inc)
