"""Worlds of ingresses with faults: what they copy and promise holds in each; and each rule that is switched off in the
product is found there."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest
import structlog

from borealis_py.client import tail
from borealis_py.client.tail import SourceEnd, TailEntry
from borealis_py.client.target import Target
from borealis_py.ingress import copier, session
from borealis_py.ingress.copier import Copier
from borealis_py.ingress.foreign_topic import ForeignTopic
from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.ownership import Ownership
from borealis_py.ingress.partition_queue import Gap, PartitionQueue
from borealis_py.ingress.session import IngressSession
from borealis_py.ingress.watermark import Watermarks
from borealis_py.log.base import NewRecord
from borealis_py.log.foreign import Told
from borealis_py.log.records import BatchHeader
from borealis_py.simulation.ingress.scenario import KINDS, SECOND, SHOPS, IngressFault, IngressScenario, draw_ingress
from borealis_py.simulation.ingress.world import run_ingress

pytestmark = pytest.mark.sim
SEEDS = 60


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
    assert sum(one.take_overs for one in outcomes) > 2 * SEEDS


def test_the_same_seed_is_the_same_world() -> None:
    assert run_ingress(5) == run_ingress(5)


@dataclass(frozen=True)
class Bug:
    """A rule switched off, a word of what the oracle says, the fault kinds of the worlds in which it shows, and what
    else makes them so that it does."""

    rule: str
    plant: Callable[[], AbstractContextManager[object]]
    told: str
    kinds: Sequence[str] = KINDS
    change: Callable[[IngressScenario], IngressScenario] = lambda scenario: scenario


def busy(scenario: IngressScenario) -> IngressScenario:
    """Many records, of which all inputs get some, with no others than rows in time."""
    by = {"by": "shop", "values": SHOPS[:2], "inputs": 3, "lateness_us": 200_000}
    return replace(scenario, rate=300, spoilt=0.0, spec=scenario.spec.model_copy(update=by))


def paused(scenario: IngressScenario) -> IngressScenario:
    """Owners stand still for about as long as others wait for them."""
    rng = random.Random(scenario.seed)
    faults = []
    for at in range(SECOND, scenario.heal_us - 2 * SECOND, 2 * SECOND):
        until = at + rng.randrange(1_000_000, 1_300_000)
        faults += [IngressFault("pause", at, until, n) for n in range(scenario.ingresses - 1)]
    return replace(scenario, rate=300, faults=tuple(faults))


def _at_of_anybody() -> AbstractContextManager[object]:
    """A zombie's positions count."""

    def end_after(end: SourceEnd, entry: TailEntry, target: Target) -> SourceEnd:
        header = entry.header
        at = dict(header.at) if isinstance(header, BatchHeader) and header.at else end.at
        return SourceEnd(tail.advanced(end.fold, entry, target), at)

    return mock.patch("borealis_py.ingress.ownership.end_after", end_after)


def _positions_one_record_late() -> AbstractContextManager[object]:
    """`at` is what it was before the record's rows."""
    before = InputWriter.flush

    def flush(self: InputWriter, boundary: int, now_us: int) -> None:
        after, self.at = self.at, getattr(self, "planted", dict(self.at))
        before(self, boundary, now_us)
        self.at = after
        self.planted = dict(after)  # type: ignore[attr-defined]

    return mock.patch.object(InputWriter, "flush", flush)


def _no_reading_back() -> AbstractContextManager[object]:
    """A claim counts as soon as it is appended."""
    before = Ownership.claim

    def claim(self: Ownership) -> NewRecord:
        record = before(self)
        self.owning, self.claiming = True, False
        return record

    return mock.patch.object(Ownership, "claim", claim)


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


def _unknown_partitions_are_none() -> AbstractContextManager[object]:
    before = Watermarks.counted
    return mock.patch.object(Watermarks, "counted", lambda self, _: before(self, 2**62))


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
    return mock.patch.object(copier, "SILENT_US", 3_600_000_000)


def _rows_of_all_values_from_the_furthest() -> AbstractContextManager[object]:
    """With `by`, copying goes on where the input that got furthest is."""

    def begin(self: IngressSession, now_us: int) -> None:
        for writer in self._writers:
            for other in self._writers:
                for p, offset in other.at.items():
                    if p in writer.at:
                        writer.at[p] = max(offset, writer.at[p])
        before(self, now_us)

    before = IngressSession._begin
    return mock.patch.object(IngressSession, "_begin", begin)


def _new_partitions_from_their_end() -> AbstractContextManager[object]:
    before = ForeignTopic.open

    def open_(self: ForeignTopic, partition: int, offset: int, now_us: int) -> PartitionQueue:
        end = self.ends.get(partition)
        return before(self, partition, offset or (end.written or 0 if end else 1), now_us)

    return mock.patch.object(ForeignTopic, "open", open_)


BUGS = (
    Bug("only the owner's positions count", _at_of_anybody, "copied", ("pause",), paused),
    Bug("positions are those after the rows", _positions_one_record_late, "copied 2 times", ("kill", "pause")),
    Bug("a claim is read back", _no_reading_back, "copied", ("pause",), paused),
    Bug("open transactions hold the boundary", _committed_ends, "called late", ("transaction",)),
    Bug("an end counts once it has been read to", _sure_of_what_was_not_read, "called late", ("cut_topic", "slow")),
    Bug(
        "a partition that nobody knows of holds all",
        _unknown_partitions_are_none,
        "called late",
        ("grow", "slow"),
        busy,
    ),
    Bug("rows may come as late as the lateness", _largest_without_lateness, "called late"),
    Bug("what retention took is named", _gaps_are_passed_over, "copied 0 times", ("retention", "cut_topic", "kill")),
    Bug("a standby takes over", _nobody_takes_over, "no ingress owns", ("kill",)),
    Bug("an owner without ends falls silent", _never_silent, "no ingress", ("cut_topic",)),
    Bug(
        "each value goes on where its input is",
        _rows_of_all_values_from_the_furthest,
        "copied 0 times",
        ("kill",),
        busy,
    ),
    Bug("new partitions begin at their beginning", _new_partitions_from_their_end, "copied 0 times", ("grow",)),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.rule)
def test_a_rule_that_is_switched_off_is_found(bug: Bug) -> None:
    said: Any = ()
    with bug.plant():
        for seed in range(1, 41):
            said = run_ingress(seed, bug.change(draw_ingress(seed, tuple(bug.kinds)))).violations
            if said:
                print(f"{bug.rule} | {said[0]} | {seed} seeds")
                assert any(bug.told in one for one in said), said[:3]
                return
    pytest.fail(f"{bug.rule}: not found")
