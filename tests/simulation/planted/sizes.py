"""Planted in what bounds sizes: transactions, rows in memory (R6, R10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.protocol.manager import Manager
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import ReadAgain
from borealis_py.simulation.runner.generator import small
from borealis_py.simulation.runner.scenario import SIZES, Scenario
from sunion.portion import Most
from sunion.stream_fold import StreamFold
from sunion.union import SUnion
from tests.simulation.planted.bug import SOURCES, Bug

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


BUGS = (
    Bug(
        "R10 a transaction is bounded",
        "liveness",
        _one_transaction_for_all,
        SIZES,
        ("convergence", "end"),
        20,
        change=_busy,
        found=1,
    ),
    Bug(
        "R10 a transaction holds so many rows",
        "quality",
        _one_transaction_for_all,
        AWAY,
        ("transaction",),
        20,
        change=_busy,
        found=1,
    ),
    Bug(
        "R10 a transaction holds so many buckets",
        "quality",
        _buckets_without_bound,
        AWAY,
        ("transaction",),
        20,
        change=_few_buckets,
        found=1,
    ),
    Bug(
        "R6 tentative rows count",
        "quality",
        _tentative_rows_without_bound,
        SOURCES,
        ("buffers",),
        30,
        3,
        _little_memory,
        found=4,
    ),
    Bug(
        "R6 what was dropped is read again",
        "quality",
        _never_read_again,
        SOURCES,
        ("labels",),
        30,
        3,
        _little_memory,
        found=4,
    ),
    Bug(
        "R6 what is read again is waited for",
        "quality",
        _read_again_unwaited,
        SOURCES,
        ("labels",),
        30,
        3,
        _little_memory,
        found=4,
    ),
)
