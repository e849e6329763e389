"""The ingresses' part of the `/metrics` page, in the conventions of `metrics`. Counters restart with an incarnation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from borealis_py.log.ingress_status import IngressInput, IngressRole, IngressStatus
from borealis_py.observe.ingress_registry import IngressRegistry
from sunion.model import FOREVER

_INGRESS = ("app", "source", "ingress")
_INPUT = (*_INGRESS, "input")

_COUNTERS: tuple[tuple[str, str, Callable[[IngressInput], int]], ...] = (
    ("rows", "Rows sent.", lambda i: i.rows),
    ("late_rows", "Rows that came after their boundary: dead letters.", lambda i: i.late),
    ("unusable_records", "Records that could not be used: dead letters.", lambda i: i.dead),
)
"""borealis_ingress_<name>_total."""

_GAUGES: tuple[tuple[str, str, Callable[[IngressInput], float | None]], ...] = (
    (
        "boundary_timestamp_seconds",
        "Stime of the input's last boundary; none before the first, and once it has ended.",
        lambda i: i.boundary_us / 1e6 if 0 < i.boundary_us < FOREVER else None,
    ),
    ("lag_records", "Records of the topic that have not been read; none while its end is unknown.", lambda i: i.lag),
    ("missing", "1 while the input is missing.", lambda i: bool(i.missing)),
    ("given_up_partitions", "Partitions of the topic that the input does not wait for.", lambda i: len(i.given_up)),
)
"""borealis_ingress_<name>, of an owner's inputs."""


class IngressCollector(Collector):
    """The ingresses of one process."""

    def __init__(self, board: IngressRegistry) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        app = self._board.state.name
        return _collected(app, list(self._board.statuses.values()))


def ingress_families() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, type, labels and text of each family."""
    found: list[Any] = list(_collected("", ()))
    for family in found:
        yield family.name, family.type, tuple(family._labelnames), family.documentation


def _collected(app: str, statuses: Iterable[IngressStatus]) -> Iterator[Metric]:
    told = [((app, s.source, str(s.ingress)), s) for s in statuses]
    roles = GaugeMetricFamily("borealis_ingress_role", "1 for the role it has.", labels=(*_INGRESS, "role"))
    at = GaugeMetricFamily(
        "borealis_ingress_status_timestamp_seconds", "When it last wrote its status, every second.", labels=_INGRESS
    )
    expect = GaugeMetricFamily(
        "borealis_ingress_expect_seconds", "Silence after which an input is missing; none: never.", labels=_INGRESS
    )
    ending = GaugeMetricFamily(
        "borealis_ingress_ending", "1 once it has read that its source is to end.", labels=_INGRESS
    )
    absent = GaugeMetricFamily(
        "borealis_ingress_absent_columns", "Columns that no record of the topic has had, of an owner.", labels=_INGRESS
    )
    for labels, status in told:
        if status.role is IngressRole.OWNER:
            absent.add_metric(labels, len(status.absent))
        for role in IngressRole:
            roles.add_metric((*labels, role.value), status.role is role)
        at.add_metric(labels, status.at_wall_us / 1e6)
        ending.add_metric(labels, status.ending)
        if status.expect_us is not None:
            expect.add_metric(labels, status.expect_us / 1e6)
    yield from (roles, at, expect, ending, absent)
    owned = [((*labels, i.name), i) for labels, s in told if s.role is IngressRole.OWNER for i in s.inputs]
    for name, text, count in _COUNTERS:
        counter = CounterMetricFamily(f"borealis_ingress_{name}", text, labels=_INPUT)
        for where, one in owned:
            counter.add_metric(where, count(one))
        yield counter
    for name, text, measure in _GAUGES:
        gauge = GaugeMetricFamily(f"borealis_ingress_{name}", text, labels=_INPUT)
        for where, one in owned:
            value = measure(one)
            if value is not None:
                gauge.add_metric(where, value)
        yield gauge
