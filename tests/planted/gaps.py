"""Planted in gaps: what is lost, what stands on it, and what is published of it (R18)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.log import corrected
from borealis_py.log.base import NewRecord
from borealis_py.protocol.gaps import Losing
from borealis_py.protocol.labels import Label
from borealis_py.protocol.output_gate import Speaking
from borealis_py.protocol.turn import Effect
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.simulation.scenario import Scenario
from sunion.model import GapRange, StreamRecord
from sunion.output import SOutput
from sunion.units import Bucket
from tests.planted.bug import Bug
from tests.planted.roles import KILLS, SAFETY
from tests.planted.worlds import Worlds


def _by_amnesia(span: int) -> Callable[[Scenario], Scenario]:
    def change(scenario: Scenario) -> Scenario:
        *cut, query = scenario.nodes
        query = replace(query, recovery=RecoveryPlan(RecoveryWay.AMNESIA), replicas=2)
        return replace(scenario, nodes=(*cut, query), span=span, lost=())

    return change


def _says_no_gap() -> Any:
    kept = Speaking.say

    def say(self: Speaking, said: tuple[int, StreamRecord]) -> list[Effect]:
        return [] if isinstance(said[1], GapRange) else kept(self, said)

    return mock.patch.object(Speaking, "say", say)


def _is_whole_too_early() -> Any:
    kept = Losing.arrived

    def arrived(self: Losing, at: Bucket) -> None:
        kept(self, at)
        self.whole = Bucket(max(at, self.whole - 1))

    return mock.patch.object(Losing, "arrived", arrived)


def _claims_to_lack_nothing() -> Any:
    def label(self: Losing, bucket: Bucket, label: Label | None = None) -> Label:
        return label or Label((), 1.0, bucket)

    return mock.patch.object(Losing, "label", label)


def _publishes_a_gap_as_empty_buckets() -> Any:
    kept = SOutput.lost

    def lost(self: SOutput, end: int) -> tuple[int, StreamRecord]:
        before = self.kept_from
        said = kept(self, end)
        self.kept_from = before
        return said

    return mock.patch.object(SOutput, "lost", lost)


def _names_too_short_a_gap() -> Any:
    kept = corrected._gap

    def gap(app: str, query: str, lost: corrected.LostRange) -> Iterator[NewRecord]:
        first = min(lost.first + 1, lost.end - 1)
        yield from kept(app, query, corrected.LostRange(lost.app_uid, first, lost.end))

    return mock.patch.object(corrected, "_gap", gap)


BUGS = (
    Bug(
        "R18 a gap is said",
        "safety",
        _says_no_gap,
        Worlds(KILLS, SAFETY, found=1, seeds=40, change=_by_amnesia(3)),
    ),
    Bug(
        "R18 what stands on lost buckets is lost",
        "safety",
        _is_whole_too_early,
        Worlds(KILLS, (*SAFETY, "gap"), found=1, seeds=40, change=_by_amnesia(10)),
    ),
    Bug(
        "R18 a result says that it stands on lost buckets",
        "safety",
        _claims_to_lack_nothing,
        Worlds(KILLS, ("label", "labels"), found=1, seeds=40, change=_by_amnesia(3)),
    ),
    Bug(
        "R18 a gap is published as one",
        "safety",
        _publishes_a_gap_as_empty_buckets,
        Worlds(KILLS, ("corrected", "audit"), found=1, seeds=40, change=_by_amnesia(3)),
    ),
    Bug(
        "R18 what is published names all that is lost",
        "safety",
        _names_too_short_a_gap,
        Worlds(KILLS, ("corrected", "audit"), found=1, seeds=40, change=_by_amnesia(3)),
    ),
)
