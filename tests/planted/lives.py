"""Planted in what keeps the lives of an app apart: records of another one, fencing at a reset, progress that nobody of
this one can have written (A0, R10)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from unittest import mock

import borealis_py.log.progress
import borealis_py.node.input_reader
import borealis_py.node.resuming
from borealis_py.log.base import Record
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import Life, OtherLife
from borealis_py.node.resuming import Resuming
from borealis_py.protocol.publishing import Publishing
from borealis_py.protocol.settings import Delays
from borealis_py.simulation.log.client import MemoryAdmin
from borealis_py.simulation.scenario import SECOND, Fault, Scenario
from tests.planted.bug import Bug
from tests.planted.corrected import nothing_is_mended
from tests.planted.patches import together
from tests.planted.worlds import Worlds


def _owned(topics: str) -> Any:
    """Records of other lives in these topics count."""
    before = Life.owns

    def owns(self: Life, record: Record, app_uid: str) -> bool:
        mine = before(self, record, app_uid)
        return mine or re.fullmatch(topics, record.feed.topic) is not None

    return mock.patch.object(Life, "owns", owns)


def _nobody_is_fenced() -> Any:
    return mock.patch.object(MemoryAdmin, "fence", return_value=None)


def _writers_do_not_look() -> Any:
    return mock.patch.object(borealis_py.node.resuming, "check_life", return_value=None)


def _nobody_ends_by_name() -> Any:
    """Whatever it meets: a replica goes on, and so does its next start."""
    here, module = mock.patch.object, borealis_py.node.input_reader
    return together(
        here(module, "check_life", return_value=None),
        here(Life, "look", return_value=None),
        here(module.InputReader, "_setting", return_value=True),
    )


def _a_topic_made_again_is_another_life() -> Any:
    def check(lookup: Any, app: str, app_uid: str) -> None:
        raise OtherLife.of_app(app, app_uid, "another")

    return mock.patch.object(borealis_py.node.input_reader, "check_life", check)


def _progress_before_the_first_bucket() -> Any:
    """Nor does the writer look at what else can be seen: that would tell as well."""

    def read(record: Record, life: Life, origin: int) -> int | None:
        return read_progress(record, life, 0)

    modules = (borealis_py.log.progress, borealis_py.node.input_reader)
    return together(nothing_is_mended(), *(mock.patch.object(module, "read_progress", read) for module in modules))


def _progress_beyond_the_inputs() -> Any:
    before, turned = Publishing._hear, Resuming.turned

    def hear(self: Publishing, said: Any, standing: Any) -> None:
        before(self, said, replace(standing, closed=2**60))

    return together(
        mock.patch.object(Publishing, "_hear", hear),
        mock.patch.object(Resuming, "turned", lambda self, closed, inputs: turned(self, 2**60, inputs)),
    )


def _inputs_not_read_on() -> Any:
    """What is ahead of the own inputs counts as garbage at once."""
    return mock.patch.object(Resuming, "_is_garbage", return_value=True)


def _at(kind: str, since: float, until: float, detail: str = "") -> Fault:
    return Fault(kind, 0, int(since * SECOND), int(until * SECOND), detail)


def _world(*faults: Fault) -> Any:
    """Two replicas of each node, and these faults alone."""

    def change(scenario: Scenario) -> Scenario:
        nodes = tuple(replace(plan, replicas=2) for plan in scenario.nodes)
        return replace(scenario, nodes=nodes, lost=(), faults=faults, heal_us=12 * SECOND)

    return change


def _scribbled(detail: str = "") -> Any:
    """Progress that nobody of ours has written."""
    return _world(_at("bad_progress", 3, 9, detail))


def _displaced(scenario: Scenario) -> Scenario:
    """While the only replica is down, such progress displaces its own from the compacted topic."""
    faults = (_at("crash", 6, 8), _at("bad_progress", 6.2, 7.6, "before"), _at("compacted", 6.2, 7.8))
    changed = _world(*faults)(scenario)
    return replace(changed, nodes=tuple(replace(plan, replicas=1) for plan in scenario.nodes))


def _taken_over(scenario: Scenario) -> Scenario:
    """A publisher of the life before that takes its source over whoever has it, and cannot read the description."""
    duel = _at("source_duel", 1, 2)
    return _world(duel, _at("reset", 4, 9, "publisher/blind"))(scenario)


def _numbered(scenario: Scenario) -> Scenario:
    """What the only replica's fourth process had on its way lands in the next life, where the first one's tentative
    words are needed."""
    crashes = tuple(_at("crash", at, at + 0.1) for at in (1.0, 1.7, 2.4))
    away = tuple(replace(_at("source_cut", 7, 11), index=i) for i in range(scenario.sources))
    faults = (*crashes, _at("cut_own", 3.6, 5), _at("reset", 5, 6, "publisher"), *away[1:])
    changed = _world(*faults)(scenario)
    nodes = tuple(replace(plan, replicas=1) for plan in scenario.nodes)
    return replace(changed, nodes=nodes, delays=Delays(1_000_000))


def _taking_over(scenario: Scenario) -> Scenario:
    """The reset comes while somebody fences to write, who hears of what it writes and of nothing else."""
    changed = _world(_at("reset", 0.3, 6, "writer/half"))(scenario)
    return replace(changed, rate=50, bad=0.0, lateness_us=None, by_data=frozenset())


def _behind(scenario: Scenario) -> Scenario:
    """Who takes over has read less of a source than the writer who died, and most buckets are empty."""
    cut, crash = (replace(_at("cut_input", 6.35, 10, "0"), index=1), _at("crash", 6.7, 11))
    changed = _world(cut, crash)(scenario)
    return replace(changed, nodes=changed.nodes[-1:], rate=1, bad=0.0, lateness_us=None, by_data=frozenset())


ONE = ("reset",)
BUGS = (
    Bug(
        "A0 a source's records of another life are nothing",
        "safety",
        lambda: _owned(r"sim\.s\d+"),
        Worlds(ONE, ("input", "stable", "hole", "client"), found=2, change=_taken_over),
    ),
    Bug(
        "A0 what replicas of another life said is nothing",
        "liveness",
        lambda: _owned(r"sim\.\w+\.r\d+"),
        Worlds(
            ONE,
            ("premature", "labels", "held", "availability", "content"),
            found=4,
            seeds=20,
            nodes=2,
            change=_numbered,
        ),
    ),
    Bug(
        "A0 heartbeats of another life are nothing",
        "liveness",
        lambda: _owned(r"sim\.control"),
        Worlds(
            ONE,
            ("superseded", "stagger", "convergence"),
            found=1,
            seeds=20,
            change=_world(_at("reset", 4, 7, "replica")),
        ),
    ),
    Bug(
        "A0 progress of another life is nothing",
        "safety",
        lambda: _owned(r"sim\.\w+\.progress"),
        Worlds(ONE, ("corrected", "convergence", "dead letters"), found=1, seeds=20, change=_scribbled()),
    ),
    Bug(
        "A0 who belongs to a life that is over ends by name",
        "liveness",
        _nobody_ends_by_name,
        Worlds(ONE, ("life", "convergence"), found=1, change=_world(_at("reset", 4, 7, "replica"))),
    ),
    Bug(
        "A0 nobody ends by name while its life goes on",
        "liveness",
        _a_topic_made_again_is_another_life,
        Worlds(("made_again",), ("life",), found=1),
    ),
    Bug(
        "A0 a reset fences who writes",
        "safety",
        _nobody_is_fenced,
        Worlds(
            ONE,
            ("corrected", "convergence", "dead letters"),
            found=2,
            seeds=20,
            change=_world(_at("reset", 4, 7, "writer")),
        ),
    ),
    Bug(
        "R10 who has fenced looks at the description",
        "safety",
        _writers_do_not_look,
        Worlds(ONE, ("corrected", "convergence", "dead letters"), found=5, seeds=20, change=_taking_over),
    ),
    Bug(
        "R10 nobody has published what is before the first bucket",
        "safety",
        _progress_before_the_first_bucket,
        Worlds(ONE, ("corrected", "convergence", "dead letters"), found=1, change=_displaced),
    ),
    Bug(
        "R10 nobody has published what the inputs leave open",
        "liveness",
        _progress_beyond_the_inputs,
        Worlds(ONE, ("corrected", "convergence"), found=1, change=_scribbled("ahead")),
    ),
    Bug(
        "R10 what is ahead of the inputs is garbage only once they have been read",
        "safety",
        _inputs_not_read_on,
        Worlds(("cut_input",), ("corrected",), found=1, seeds=20, change=_behind),
    ),
)
