"""Worlds of ingresses with faults: what they copy and promise holds in each; and each rule that is switched off in the
product is found there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest
import structlog

from borealis_py.ingress import session, silence
from borealis_py.ingress.copier import Copier
from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.topic.foreign_topic import ForeignTopic
from borealis_py.ingress.topic.partition_queue import Gap, PartitionQueue
from borealis_py.ingress.watermark import Watermarks
from borealis_py.log.foreign import Told
from borealis_py.simulation.ingress.scenario import KINDS, draw_ingress
from borealis_py.simulation.ingress.world import run_ingress

pytestmark = pytest.mark.sim
SEEDS = 40


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Faults make many lines of log."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.mark.timeout(600)
def test_no_seed_breaks_a_promise() -> None:
    outcomes = [run_ingress(seed) for seed in range(1, SEEDS + 1)]
    assert [(one.seed, one.violations[:2]) for one in outcomes if one.violations] == []
    assert sum(one.rows for one in outcomes) > 200 * SEEDS  # the worlds must be rough enough to mean something
    assert sum(one.letters for one in outcomes) > 10 * SEEDS
    assert sum(one.take_overs for one in outcomes) > SEEDS  # the first of each world is one, too


def test_the_same_seed_is_the_same_world() -> None:
    assert run_ingress(5) == run_ingress(5)


@dataclass(frozen=True)
class Bug:
    """A rule switched off, a word of what the oracle says, the fault kinds of the worlds in which it shows, and whether
    users set something in them."""

    rule: str
    plant: Callable[[], AbstractContextManager[object]]
    told: str
    kinds: Sequence[str] = KINDS
    settings: bool = False


def _positions_one_record_late() -> AbstractContextManager[object]:
    """`at` is what it was before the record's rows."""
    before = InputWriter.flush

    def flush(self: InputWriter, boundary: int, now_us: int) -> None:
        after, self.at = self.at, getattr(self, "planted", dict(self.at))
        before(self, boundary, now_us)
        self.at = after
        self.planted = dict(after)  # type: ignore[attr-defined]

    return mock.patch.object(InputWriter, "flush", flush)


def _committed_ends() -> AbstractContextManager[object]:
    """Rows of open transactions are not waited for."""
    before = Watermarks.told
    look = Copier._told

    def told(self: Copier) -> None:
        ends = self._topic.ends
        self._topic.ends = {p: Told(one.committed, one.committed) for p, one in ends.items()}
        look(self)

    assert before
    return mock.patch.object(Copier, "_told", told)


def _sure_of_what_was_not_read() -> AbstractContextManager[object]:
    def told(self: Watermarks, partition: int, asked_us: int, end: int) -> None:
        self._partitions[partition].sure = asked_us

    return mock.patch.object(Watermarks, "told", told)


def _largest_without_lateness() -> AbstractContextManager[object]:
    before = Watermarks.boundary
    return mock.patch.object(Watermarks, "boundary", lambda self, i: before(self, i) + self._lateness_us)


def _gaps_are_passed_over() -> AbstractContextManager[object]:
    def pass_(self: Copier, queue: PartitionQueue, gap: Gap, now_us: int) -> None:
        queue.passed(gap)
        for i in self._plan.fed_by(queue.partition):
            self._writers[i].at[queue.partition] = gap.to

    return mock.patch.object(Copier, "_pass", pass_)


def _nobody_takes_over() -> AbstractContextManager[object]:
    return mock.patch.object(session, "PATIENCE_US", 3_600_000_000)


def _never_silent() -> AbstractContextManager[object]:
    return mock.patch.object(silence, "SILENT_US", 3_600_000_000)


def _new_partitions_from_their_end() -> AbstractContextManager[object]:
    before = ForeignTopic.open

    def open_(self: ForeignTopic, partition: int, offset: int, now_us: int) -> PartitionQueue:
        end = self.ends.get(partition)
        return before(self, partition, offset or (end.written or 0 if end else 1), now_us)

    return mock.patch.object(ForeignTopic, "open", open_)


def _given_up_in_vain() -> AbstractContextManager[object]:
    return mock.patch.object(Watermarks, "give_up", return_value=None)


def _ends_at_once() -> AbstractContextManager[object]:
    """END does not wait for what the topic held when its users set that the source is to end."""
    return mock.patch.object(Copier, "_may_end", lambda self, index: self._end_us is not None)


BUGS = (
    Bug("positions are those after the rows", _positions_one_record_late, "copied 2 times", ("kill", "pause")),
    Bug("open transactions hold the boundary", _committed_ends, "called late", ("transaction",)),
    Bug("an end counts once it has been read to", _sure_of_what_was_not_read, "called late", ("cut_topic", "slow")),
    Bug("rows may come as late as the lateness", _largest_without_lateness, "called late"),
    Bug("what retention took is named", _gaps_are_passed_over, "copied 0 times", ("retention", "cut_topic", "kill")),
    Bug("a standby takes over", _nobody_takes_over, "no ingress owns", ("kill",)),
    Bug("an owner without ends falls silent", _never_silent, "no ingress", ("cut_topic",)),
    Bug("nobody waits for what was given up", _given_up_in_vain, "of a partition that was given up", ("kill",), True),
    Bug("END comes after all that the topic held", _ends_at_once, "copied 0 times", settings=True),
    Bug("new partitions begin at their beginning", _new_partitions_from_their_end, "copied 0 times", ("grow",)),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.rule)
def test_a_rule_that_is_switched_off_is_found(bug: Bug) -> None:
    said: Any = ()
    with bug.plant():
        for seed in range(1, 41):
            scenario = draw_ingress(seed, tuple(bug.kinds))
            if not bug.settings:
                scenario = replace(scenario, settings=(), lasting=None)
            said = run_ingress(seed, scenario).violations
            if said:
                print(f"{bug.rule} | {said[0]} | {seed} seeds")
                assert any(bug.told in one for one in said), said[:3]
                return
    pytest.fail(f"{bug.rule}: not found")
