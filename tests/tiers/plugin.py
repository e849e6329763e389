"""What pytest does for the tiers: marks, imports of a tier's files only, a rotation's share, notes of what tests take.

`tests/conftest.py` imports the hooks. With `--tier` pytest imports only files that have, or may have, tests of the
tier. BOREALIS_ROTATION (a number) chooses the share of families, and with `--third` the third of the slow tests.
"""

from __future__ import annotations

import json
import os
import resource
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.right import WrongDataError
from tests.tiers import durations, plan
from tests.tiers.durations import Taken

ROOT = Path(__file__).parents[2]
RESULT = "BOREALIS_TIER_RESULT"
"""The file into which a run writes its outcome, for `stages.py`."""
ROTATION = "BOREALIS_ROTATION"
DUE = "BOREALIS_DUE"
"""Files whose slow tests run in any rotation."""


def rotation() -> int | None:
    """The rotation, if one is set; else families have the share of rotation 0."""
    found = os.environ.get(ROTATION)
    return int(found) if found else None


_recorded = cache(durations.load)
"""The record, read once: each file that is looked at asks for it."""


def add_options(parser: pytest.Parser) -> None:
    """`--tier`, `--third`."""
    parser.addoption("--tier", choices=plan.TIERS, help="run the tests of this tier, and import only its files")
    parser.addoption(
        "--third", action="store_true", help="of slow tests run those of the rotation, and those about changes"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that are known to have no test of the tier."""
    tier = config.getoption("--tier")
    if tier is None or collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
        return None
    known = _recorded().get(str(collection_path.relative_to(ROOT)))
    return True if known and tier not in known else None


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests, and keep those of the tier and the rotation; files of processes with the longest first."""
    record, tier, now = _recorded(), config.getoption("--tier"), rotation() or 0
    tiers = {item: _marked(item) for item in items}
    for item in plan.slow(items, now):
        item.add_marker(pytest.mark.slow)
    for item, its in tiers.items():
        known = record.get(plan.file_of(item.nodeid))
        if tier is not None and known is not None and its not in known:
            raise pytest.UsageError(f"{item.nodeid} is new to the {its} tier: `python -m tests.tiers record` its file")
    kept = [item for item in items if tier in (None, tiers[item])]
    if config.getoption("--third"):
        due = os.environ.get(DUE, "").split()
        kept = [
            item
            for item in kept
            if item.get_closest_marker("slow") is None
            or plan.file_of(item.nodeid) in due
            or plan.due(item.nodeid, tiers[item], now, record)
        ]
    if tier in ("broker", "spark"):
        walls = {file: of[tier].wall_s + of[tier].slow_wall_s for file, of in record.items() if tier in of}
        kept.sort(key=lambda item: -walls.get(plan.file_of(item.nodeid), float("inf")))
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
    items[:] = kept


def _marked(item: pytest.Item) -> str:
    """The test's tier. Whoever uses the broker is marked so: `-m "not broker"` needs no care."""
    if {"broker", "bootstrap"} & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.broker)
    return plan.tier_of([mark.name for mark in item.iter_markers()])


# What tests take, in the process that runs them -----------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEGAN] = _cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    if call.excinfo is not None and call.excinfo.errisinstance(WrongDataError):
        item.user_properties.append(("wrong_data", True))
    if call.when == "teardown":
        tier = plan.tier_of([mark.name for mark in item.iter_markers()])
        item.user_properties.append(("took", (tier, item.get_closest_marker("slow") is not None, _cpu_s(item))))
    return (yield)


_BEGAN = pytest.StashKey[float]()


def _cpu_s(item: pytest.Item | None = None) -> float:
    """CPU seconds of this process and of the children that it has waited for; since the test began, or ever."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return spent - (item.stash[_BEGAN] if item is not None else 0.0)


# What came of it, in the process that was started ---------------------------------------------------------------------


class Outcome:
    """What a run's tests took, and which failed: registered where no worker is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, bool] = {}
        self._walls: dict[str, float] = defaultdict(float)
        self._taken: durations.Durations = {}
        self._done = self._all = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._all = self._all or len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._all = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = dict(report.user_properties)
        self._walls[report.nodeid] += report.duration
        if report.failed:
            self._failed[report.nodeid] = self._failed.get(report.nodeid, False) or "wrong_data" in said
        if report.when == "teardown":
            self._done += 1
            self._path.with_suffix(".progress").write_text(f"{self._done} {self._all}")
            self._add(report.nodeid, *said.get("took", ("pure", False, 0.0)))

    def _add(self, nodeid: str, tier: str, slow: bool, cpu_s: float) -> None:
        of, wall_s = self._taken.setdefault(plan.file_of(nodeid), {}), self._walls[nodeid]
        before = of.get(tier, Taken())
        if slow:
            took = {"slow_cpu_s": before.slow_cpu_s + cpu_s, "slow_wall_s": before.slow_wall_s + wall_s}
        else:
            took = {
                "cpu_s": before.cpu_s + cpu_s,
                "wall_s": before.wall_s + wall_s,
                "longest_s": max(before.longest_s, cpu_s),
            }
        of[tier] = replace(before, **took)

    def pytest_sessionfinish(self) -> None:
        taken = {file: {tier: asdict(t) for tier, t in tiers.items()} for file, tiers in self._taken.items()}
        self._path.write_text(json.dumps({"failed": self._failed, "tests": self._done, "taken": taken}))


def register(config: pytest.Config) -> None:
    """Have the outcome written, if somebody waits for it."""
    path = os.environ.get(RESULT)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcome(Path(path)), "tiers-outcome")
