"""Planted in what bounds sizes: transactions, rows in memory (R6, R10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.protocol.manager import Manager
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import ReadAgain
from borealis_py.simulation.runner.generator import small
from borealis_py.simulation.scenario import SIZES, Scenario
from sunion.portion import Most
from sunion.stream_fold import StreamFold
from sunion.union import SUnion
from tests.planted.bug import Bug, Script
from tests.planted.worlds import SOURCES, Worlds

AWAY = ("corrected_away",)


def _one_transaction_for_all() -> Any:
    return mock.patch.object(Timing, "publish_most", property(lambda self: Most(2**62, 2**62, 2**62)))


def _buckets_without_bound() -> Any:
    return mock.patch.object(
        Timing, "publish_most", property(lambda self: Most(2**62, self.publish_rows, self.publish_bytes))
    )


def _tentative_rows_without_bound() -> Any:
    return mock.patch.object(SUnion, "drop_ahead", return_value=None)


def _never_read_again() -> Any:
    return mock.patch.object(StreamFold, "again", return_value=[])


def _read_again_unwaited() -> Any:
    def goes_on(self: Manager) -> bool:
        self._effects += [ReadAgain(*where) for where in self.union.again(self.f_l)]
        return False

    return mock.patch.object(Manager, "_read_again", goes_on)


def _busy(scenario: Scenario) -> Scenario:
    return replace(scenario, rate=50, timing=small(scenario.timing))


def _few_buckets(scenario: Scenario) -> Scenario:
    return replace(scenario, timing=replace(scenario.timing, publish_buckets=8))


def _little_memory(scenario: Scenario) -> Scenario:
    return replace(scenario, timing=replace(scenario.timing, buffer_rows_max=2 * scenario.rate))


def _evicted_rows_kept() -> Any:
    """And forgotten by their whole count."""
    kept = SUnion.feed

    def feed(self: SUnion, index: int, record: Any) -> Any:
        evicted, self.evicted = self.evicted, self.low
        accepted = kept(self, index, record)
        self.evicted = evicted
        return accepted

    return mock.patch.object(SUnion, "feed", feed)


BUGS = (
    Bug(
        "R10 a transaction is bounded",
        "liveness",
        _one_transaction_for_all,
        Worlds(SIZES, ("convergence", "end"), found=1, seeds=20, change=_busy),
        script=Script(
            "tests/protocol/test_scenarios.py::test_a_backlog_leaves_in_transactions_that_are_small_enough",
            "in one transaction",
        ),
    ),
    Bug(
        "R10 a transaction holds so many rows",
        "quality",
        _one_transaction_for_all,
        Worlds(AWAY, ("transaction",), found=1, seeds=20, change=_busy),
    ),
    Bug(
        "R10 a transaction holds so many buckets",
        "quality",
        _buckets_without_bound,
        Worlds(AWAY, ("transaction",), found=1, seeds=20, change=_few_buckets),
    ),
    Bug(
        "R6 tentative rows count",
        "quality",
        _tentative_rows_without_bound,
        Worlds(SOURCES, ("buffers",), found=4, seeds=30, nodes=3, change=_little_memory),
    ),
    Bug(
        "R6 what was dropped is read again",
        "quality",
        _never_read_again,
        Worlds(SOURCES, ("labels",), found=4, seeds=30, nodes=3, change=_little_memory),
    ),
    Bug(
        "R6 what is read again is waited for",
        "quality",
        _read_again_unwaited,
        Worlds(SOURCES, ("labels",), found=4, seeds=30, nodes=3, change=_little_memory),
    ),
    Bug(
        "R6 rows that come for an evicted bucket are only counted",
        "liveness",
        _evicted_rows_kept,
        script=Script("tests/sunion/test_union.py::test_rows_that_come_for_an_evicted_bucket_are_counted_and_not_kept"),
    ),
)
