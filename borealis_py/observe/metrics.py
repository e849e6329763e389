"""The `/metrics` page, in Prometheus conventions: base units (seconds, bytes), counters ending with `_total`, and
labels with few values (app, node, replica, input, state, event, engine, topic). Keys and rows of the data are never
labels.

A standby that reads no input idles: its frontiers and inputs have no samples, so that they count in no minimum.
Generated from the registry at each scrape. Counters restart with a replica's incarnation, as Prometheus expects of a
restart. Times are stimes or wall time, in seconds since 1970: `time() - x` is a lag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from borealis_py.app.replica_health import idles
from borealis_py.app.state import ReplicaKey
from borealis_py.log import unreadable
from borealis_py.log.messages import InputStatus, Status
from borealis_py.observe.status_registry import RegistryEntry, StatusRegistry
from borealis_py.protocol.states import ReplicaState
from sunion.bucket import Buckets

_REPLICA = ("app", "node", "replica")
_Value = float | None
"""None: no value, hence no sample."""

COUNTERS: tuple[tuple[str, str, Callable[[Status], float]], ...] = (
    ("tuples", "Tuples accepted from the inputs.", lambda s: s.tuples_in),
    ("stable_rows", "Rows written in stable buckets.", lambda s: s.stable_rows),
    ("stable_buckets", "Stable buckets written.", lambda s: s.stable_buckets),
    ("tentative_rows", "Rows written in tentative buckets.", lambda s: s.tentative_rows),
    ("tentative_buckets", "Tentative buckets written.", lambda s: s.tentative_buckets),
    (
        "lost_buckets",
        "Buckets named as lost: no replica ran, or the log no longer held them.",
        lambda s: s.lost_buckets,
    ),
)
"""borealis_replica_<name>_total."""

GAUGES: tuple[tuple[str, str, Callable[[Status, Buckets], _Value]], ...] = (
    ("incarnation", "The replica's incarnation.", lambda s, b: s.inc),
    (
        "stable_frontier_timestamp_seconds",
        "Stime up to which results are stable (F_s); none once the sources have ended, or while it idles.",
        lambda s, b: None if idles(s) else _seconds(s.f_s, b),
    ),
    (
        "live_frontier_timestamp_seconds",
        "Stime up to which there are results, stable or tentative (F_l); none once the sources have ended, or while it "
        "idles.",
        lambda s, b: None if idles(s) else _seconds(s.f_l, b),
    ),
    (
        "uncorrected_buckets",
        "Tentative buckets that wait for correction (F_l - F_s); none while it idles.",
        lambda s, b: None if idles(s) else s.f_l - s.f_s,
    ),
    ("delay_threshold_seconds", "Delay threshold in force.", lambda s, b: s.threshold_us / 1e6),
    ("asking", "1 while the replica asks to correct.", lambda s, b: s.asking),
    ("granted", "1 while the replica may correct.", lambda s, b: s.granted),
    ("publishing", "1 while the replica writes the corrected stream.", lambda s, b: s.publishing),
    ("diverged", "1 while nothing is published, since replicas emitted different rows.", lambda s, b: bool(s.diverged)),
    ("redos_inline", "1 while redos cannot run on Spark.", lambda s, b: bool(s.why_inline)),
    (
        "checkpoint_timestamp_seconds",
        "When the newest checkpoint of this incarnation was written; none before the first.",
        lambda s, b: s.checkpoint_wall_us / 1e6 or None,
    ),
    (
        "status_timestamp_seconds",
        "When the replica last wrote its status, every second.",
        lambda s, b: s.at_wall_us / 1e6,
    ),
)
"""borealis_replica_<name>."""

INPUT_GAUGES: tuple[tuple[str, str, Callable[[InputStatus, Buckets], _Value]], ...] = (
    (
        "closed_timestamp_seconds",
        "Stime up to which the input is complete; none once it has ended.",
        lambda i, b: _seconds(i.closed, b),
    ),
    ("late", "1 while results do not wait for the input as long as for a healthy one.", lambda i, b: i.late),
    ("reachable", "0 while the input is not read, on purpose.", lambda i, b: i.reachable),
    ("ended", "1 when the input is finite and over.", lambda i, b: i.ended),
)
"""borealis_input_<name>."""


class ReplicaCollector(Collector):
    """The replicas of one registry."""

    def __init__(self, board: StatusRegistry) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        state, unready = self._board.state, len(self._board.unready())
        total = len(self._board.replicas)
        yield GaugeMetricFamily("borealis_replicas", "Replicas that are to run in this process.", total)
        yield GaugeMetricFamily("borealis_replicas_ready", "Those of them that are past RECOVERING.", total - unready)
        entries, buckets = self._board.entries, Buckets(state.spec.bucket_us)
        labels = {key: (state.name, key[0], str(key[1])) for key in entries}
        yield from _replicas(entries, labels, buckets)
        yield from _inputs(entries, labels, buckets)
        yield from _history(entries, labels)


def families() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, type, labels and text of each family of a replica's process."""
    nothing, labels = dict[ReplicaKey, RegistryEntry](), _Labels()
    found: list[Any] = [*_replicas(nothing, labels, Buckets(1_000)), *_inputs(nothing, labels, Buckets(1_000))]
    found += [*_history(nothing, labels), *_unreadable({})]
    for family in found:
        yield family.name, family.type, tuple(family._labelnames), family.documentation


def _unreadable(found: Mapping[str, int]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "borealis_unreadable_records",
        "Records of the app's own topics that count as nothing, since nothing of borealis-py has written them.",
        labels=("topic",),
    )
    for topic, count in sorted(found.items()):
        records.add_metric((topic,), count)
    yield records


class UnreadableCollector(Collector):
    """The records that this process could not read."""

    def collect(self) -> Iterator[Metric]:
        return _unreadable(unreadable.counts())


def registry(own: Collector) -> CollectorRegistry:
    """Our own metrics of a process, and the usual ones of Python."""
    found = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=found)
    found.register(UnreadableCollector())
    found.register(own)
    return found


_Labels = dict[ReplicaKey, tuple[str, str, str]]


def _replicas(entries: dict[ReplicaKey, RegistryEntry], labels: _Labels, buckets: Buckets) -> Iterator[Metric]:
    for name, text, count in COUNTERS:
        counter = CounterMetricFamily(f"borealis_replica_{name}", text, labels=_REPLICA)
        for key, entry in entries.items():
            counter.add_metric(labels[key], count(entry.snapshot.status))
        yield counter
    for name, text, measure in GAUGES:
        gauge = GaugeMetricFamily(f"borealis_replica_{name}", text, labels=_REPLICA)
        for key, entry in entries.items():
            _add(gauge, labels[key], measure(entry.snapshot.status, buckets))
        yield gauge
    states = GaugeMetricFamily("borealis_replica_state", "1 for the state it is in.", labels=(*_REPLICA, "state"))
    for key, entry in entries.items():
        for state in ReplicaState:
            states.add_metric((*labels[key], state.value), entry.snapshot.status.state == state.value)
    yield states


def _inputs(entries: dict[ReplicaKey, RegistryEntry], labels: _Labels, buckets: Buckets) -> Iterator[Metric]:
    reading = {key: entry.snapshot.status for key, entry in entries.items() if not idles(entry.snapshot.status)}
    each = [((*labels[key], i.name), i) for key, status in reading.items() for i in status.inputs]
    for name, text, measure in INPUT_GAUGES:
        gauge = GaugeMetricFamily(f"borealis_input_{name}", text, labels=(*_REPLICA, "input"))
        for where, source in each:
            _add(gauge, where, measure(source, buckets))
        yield gauge
    rejected = CounterMetricFamily(
        "borealis_input_rejected", "Tuples refused (dead letters).", labels=(*_REPLICA, "input")
    )
    for where, source in each:
        rejected.add_metric(where, source.rejected)
    yield rejected


def _history(entries: dict[ReplicaKey, RegistryEntry], labels: _Labels) -> Iterator[Metric]:
    starts = CounterMetricFamily("borealis_replica_starts", "Incarnations started in this process.", labels=_REPLICA)
    events = CounterMetricFamily("borealis_replica_events", "What happened, by name.", labels=(*_REPLICA, "event"))
    redos = SummaryMetricFamily("borealis_redo_duration_seconds", "Redo jobs, by engine.", labels=(*_REPLICA, "engine"))
    for key, entry in entries.items():
        starts.add_metric(labels[key], entry.starts)
        for event, count in entry.events.items():
            events.add_metric((*labels[key], event), count)
        for engine, (count, seconds) in entry.redos.items():
            redos.add_metric((*labels[key], engine), count_value=count, sum_value=seconds)
    yield from (starts, events, redos)


def _add(family: GaugeMetricFamily, labels: tuple[str, ...], value: _Value) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _seconds(bucket: int, buckets: Buckets) -> _Value:
    return None if bucket >= buckets.last else buckets.start(bucket) / 1e6
