"""Planted in publishers, and in what becomes of what they refuse: positions and lateness (A2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.client import tail
from borealis_py.client.claim import Claim
from borealis_py.client.session import PublisherSession
from borealis_py.client.writer import SourceWriter
from borealis_py.log.records import BatchHeader
from borealis_py.log.source_tail import TailEntry
from borealis_py.simulation.scenario import SECOND, Fault, Scenario, SimulatedNode
from tests.planted.bug import Bug, Script
from tests.planted.parted import every_reader_tells_dead_letters
from tests.planted.worlds import Worlds

CRASHES, DEAF = ("source_crashes",), ("source_deaf",)


def _bad(scenario: Scenario) -> Scenario:
    """Much of the input is no row."""
    return replace(scenario, bad=0.3, lateness_us=None, by_data=frozenset())


def _shared(scenario: Scenario) -> Scenario:
    """Two nodes read a source."""
    first = SimulatedNode("n1", ("s0",), 1)
    query = replace(scenario.nodes[-1], inputs=("n1", *scenario.source_names))
    return replace(_bad(scenario), nodes=(first, query), lost=())


def _late(scenario: Scenario) -> Scenario:
    return replace(scenario, bad=0.0, lateness_us=1_500_000, by_data=frozenset())


def _by_data(scenario: Scenario) -> Scenario:
    return replace(_late(scenario), by_data=frozenset(range(scenario.sources)))


def _rejects_are_not_sent() -> Any:
    def silent(self: SourceWriter, raw: bytes, reason: str, seq: int, late_us: int = 0) -> None:
        self.flush()
        self.last_seq = seq

    return mock.patch.object(SourceWriter, "reject", silent)


def _lateness_forgotten() -> Any:
    def hasty(self: PublisherSession, writer: SourceWriter) -> None:
        writer.advance(self._buckets.start(self._buckets.closed_by(self._now_us)))
        self._ship(writer)

    return mock.patch.object(PublisherSession, "_tick", hasty)


def _deaf(scenario: Scenario) -> Scenario:
    """A publisher that was replaced hears nothing and writes on, for more records than a newcomer reads at first. The
    way to the log is slow when all of the source's crash: what each of them had on its way lands in part."""
    faults = [
        Fault(kind, i, int(at * SECOND), int(until * SECOND))
        for kind, at, until in (("source_deaf", 2, 9), ("source_slow", 7, 9), ("source_crashes", 8, 8.5))
        for i in range(scenario.sources)
    ]
    return replace(scenario, faults=tuple(faults), heal_us=12 * SECOND, width_us=50_000, rate=50)


def _any_record_is_certain() -> Any:
    def first(entries: Sequence[TailEntry], begin: int) -> int | None:
        batches = (i for i, e in enumerate(entries) if isinstance(e.header, BatchHeader))
        return next((i for i in batches if entries[i].record.boundary is not None), None)

    return mock.patch.object(tail, "first_certain", first)


def _claims_count_on() -> Any:
    claim = Claim._claim

    def next_one(self: Claim) -> Any:
        self._position, position = 0, self._position
        try:
            return claim(self)
        finally:
            self._position = position

    return mock.patch.object(Claim, "_claim", next_one)


def _an_end_during_the_claim_is_overlooked() -> Any:
    kept = Claim._read_back

    def read_back(self: Claim) -> None:
        with mock.patch.object(Claim, "_refuse_ended"):
            kept(self)

    return mock.patch.object(Claim, "_read_back", read_back)


BUGS = [
    Bug(
        "A2 what a publisher refuses is sent as well",
        "safety",
        _rejects_are_not_sent,
        Worlds(CRASHES, ("input",), found=1, change=_bad),
    ),
    Bug(
        "A6 of nodes that read one source the first tells its dead letters",
        "safety",
        every_reader_tells_dead_letters,
        Worlds(CRASHES, ("input", "dead letters"), found=1, change=_shared),
    ),
    Bug(
        "A2 by the clock a boundary leaves the lateness open",
        "safety",
        _lateness_forgotten,
        Worlds(CRASHES, ("input",), found=1, change=_late),
    ),
    Bug(
        "B5 what a zombie of a lower epoch wrote tells nothing",
        "safety",
        _any_record_is_certain,
        Worlds(DEAF, ("input",), found=1, change=_deaf),
    ),
    Bug(
        "A2 a claim is above any before it",
        "quality",
        _claims_count_on,
        Worlds(DEAF, (), change=_deaf),
    ),
    Bug(
        "A2 by the data the clock does not count",
        "safety",
        _lateness_forgotten,
        Worlds(CRASHES, ("input",), found=1, change=_by_data),
    ),
    Bug(
        "B5 a source that ends during a claim is not taken",
        "safety",
        _an_end_during_the_claim_is_overlooked,
        script=Script(
            "tests/client/test_publishing.py::test_a_source_that_ends_while_it_is_claimed_is_not_taken[taken over]"
        ),
    ),
]
