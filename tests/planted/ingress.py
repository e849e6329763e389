"""Planted in ingresses: what they copy, where they go on, what they promise (A8, B48 to B58)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from unittest import mock

import numpy as np

from borealis_py.ingress import copier, session, silence
from borealis_py.ingress.copier import Copier
from borealis_py.ingress.decoder import Decoded, Int64s
from borealis_py.ingress.foreign_topic import ForeignTopic
from borealis_py.ingress.input_part import InputLimits, InputPart
from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.partition_queue import Gap, PartitionQueue
from borealis_py.ingress.watermark import Watermarks
from borealis_py.log.foreign import Told
from tests.planted.bug import Bug, Script
from tests.planted.worlds import IngressWorlds


def _rows_before_an_end_wait_for_others() -> AbstractContextManager[object]:
    before = ForeignTopic.gather

    def gather(self: ForeignTopic, within_us: int) -> None:
        ends, self.ends = self.ends, {}
        before(self, within_us)
        self.ends = ends

    return mock.patch.object(ForeignTopic, "gather", gather)


def _what_an_input_has_counts_again() -> AbstractContextManager[object]:
    return mock.patch.object(Copier, "_new", lambda self, partition, part, inputs: np.ones(len(part.at), np.bool_))


def _what_came_back_of_a_backlog_waits() -> AbstractContextManager[object]:
    return mock.patch.object(Copier, "waits_for_logs", False)


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
    look = Copier._told

    def told(self: Copier) -> None:
        ends = self._topic.ends
        self._topic.ends = {p: Told(one.committed, one.committed) for p, one in ends.items()}
        look(self)

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


def _deaf_by_its_clock() -> AbstractContextManager[object]:
    """Who hears nothing goes on by its own clock."""
    return mock.patch.object(InputWriter, "unheard_us", None)


def _new_partitions_from_their_end() -> AbstractContextManager[object]:
    before = ForeignTopic.open

    def open_(self: ForeignTopic, partition: int, offset: int, now_us: int, topic_id: str = "") -> PartitionQueue:
        end = self.ends.get(partition)
        return before(self, partition, offset or (end.written or 0 if end else 1), now_us, topic_id)

    return mock.patch.object(ForeignTopic, "open", open_)


def _positions_count_in_any_topic() -> AbstractContextManager[object]:
    before = ForeignTopic.open

    def open_(self: ForeignTopic, partition: int, offset: int, now_us: int, topic_id: str = "") -> PartitionQueue:
        return before(self, partition, offset, now_us)

    return mock.patch.object(ForeignTopic, "open", open_)


def _the_future_of_one_clock() -> AbstractContextManager[object]:
    before = session.IngressSession.turn
    return mock.patch.object(session.IngressSession, "turn", lambda self, now_us, log_us=None: before(self, now_us))


def _gaps_are_passed_while_a_partition_begins() -> AbstractContextManager[object]:
    def head(self: Copier, partition: int, now_us: int) -> Decoded | None:
        queue = self._topic.queues[partition]
        while isinstance(found := queue.head(self._decoder), Gap):
            self._pass(queue, found, now_us)
        return None if partition in self._starts else found

    return mock.patch.object(Copier, "_head", head)


def _given_up_in_vain() -> AbstractContextManager[object]:
    return mock.patch.object(Watermarks, "give_up", return_value=None)


def _ends_at_once() -> AbstractContextManager[object]:
    """END does not wait for what the topic held when its users set that the source is to end."""
    return mock.patch.object(Copier, "_may_end", lambda self, index: self._end_us is not None)


def _bad_records_are_filed_again() -> AbstractContextManager[object]:
    """Rows that an input has are left out when its partition is copied again for another one, bad records are not."""
    kept = copier.part_for

    def part(
        decoded: Decoded, partition: int, mine: Int64s | None, takes_bad: bool, limits: InputLimits
    ) -> InputPart | None:
        offsets = np.fromiter((record.offset for record in decoded.records), np.int64, len(decoded))
        new = np.flatnonzero(offsets[decoded.at] >= limits.first)
        mine = new if mine is None else np.intersect1d(mine, new)
        return kept(decoded, partition, mine, takes_bad, replace(limits, first=0))

    return mock.patch.object(copier, "part_for", part)


def _an_end_below_what_was_read_counts() -> AbstractContextManager[object]:
    """It is that of a topic made again."""
    kept = ForeignTopic.look

    def look(self: ForeignTopic, now_us: int) -> bool:
        self._stood = {}
        return kept(self, now_us)

    return mock.patch.object(ForeignTopic, "look", look)


def _ends_of_partitions_in_doubt_count() -> AbstractContextManager[object]:
    kept = ForeignTopic.look

    def look(self: ForeignTopic, now_us: int) -> bool:
        doubted, self._doubted = self._doubted, {}
        try:
            return kept(self, now_us)
        finally:
            self._doubted = doubted

    return mock.patch.object(ForeignTopic, "look", look)


BUGS = (
    Bug(
        "B48 positions are those after the rows",
        "safety",
        _positions_one_record_late,
        IngressWorlds("copied 2 times", ("kill", "pause"), found=1),
    ),
    Bug(
        "B51 open transactions hold the boundary",
        "safety",
        _committed_ends,
        IngressWorlds("called late", ("transaction",), found=1),
    ),
    Bug(
        "B51 an end counts once it has been read to",
        "safety",
        _sure_of_what_was_not_read,
        IngressWorlds("called late", ("cut_topic", "slow"), found=28),
    ),
    Bug(
        "A8 rows may come as late as the lateness",
        "safety",
        _largest_without_lateness,
        IngressWorlds("called late", found=1),
    ),
    Bug(
        "A8 what retention took is named",
        "safety",
        _gaps_are_passed_over,
        IngressWorlds("copied 0 times", ("retention", "cut_topic", "kill"), found=18),
    ),
    Bug(
        "A8 a standby takes over",
        "liveness",
        _nobody_takes_over,
        IngressWorlds("no ingress owns", ("kill",), found=1),
    ),
    Bug(
        "B50 an owner without ends falls silent",
        "liveness",
        _never_silent,
        IngressWorlds("no ingress", ("cut_topic",), found=8),
    ),
    Bug(
        "B58 an owner that does not hear itself falls silent",
        "safety",
        _deaf_by_its_clock,
        IngressWorlds("called late", found=205, settings=True, seeds=300),
    ),
    Bug(
        "A8 nobody waits for what was given up",
        "liveness",
        _given_up_in_vain,
        IngressWorlds("of a partition that was given up", ("kill",), found=4, settings=True),
    ),
    Bug(
        "B56 END comes after all that the topic held",
        "safety",
        _ends_at_once,
        IngressWorlds("copied 0 times", found=2, settings=True),
    ),
    Bug(
        "A8 rows before an end that was told do not wait for others",
        "liveness",
        _rows_before_an_end_wait_for_others,
        script=Script(
            "tests/ingress/test_gathering.py::test_a_boundary_waits_for_the_rows_before_it_and_for_no_others"
        ),
    ),
    Bug(
        "A8 what an input has says nothing when it is read again",
        "safety",
        _what_an_input_has_counts_again,
        script=Script(
            "tests/simulation/test_ingress_seeds.py::test_what_an_input_has_already_moves_nothing_when_it_is_read_again"
        ),
    ),
    Bug(
        "A8 a backlog goes on as soon as what was written comes back",
        "liveness",
        _what_came_back_of_a_backlog_waits,
        script=Script("tests/ingress/test_session.py::test_a_backlog_of_uneven_partitions_is_copied_in_step"),
    ),
    Bug(
        "A8 new partitions begin at their beginning",
        "safety",
        _new_partitions_from_their_end,
        IngressWorlds("copied 0 times", ("grow",), found=1),
    ),
    Bug(
        "B54 nothing of a partition that begins is passed before all inputs are told",
        "safety",
        _gaps_are_passed_while_a_partition_begins,
        script=Script(
            "tests/ingress/test_topic_life.py::"
            "test_what_retention_took_of_a_topic_made_again_is_lost_from_its_beginning[shared]"
        ),
    ),
    Bug(
        "B60 what is in the future of one clock alone waits",
        "safety",
        _the_future_of_one_clock,
        IngressWorlds("called future", settings=True, jumps=True, found=3),
    ),
    Bug(
        "B54 a bad record is a dead letter once where inputs share a partition",
        "safety",
        _bad_records_are_filed_again,
        script=Script(
            "tests/ingress/test_session.py::"
            "test_bad_records_of_partitions_that_are_copied_again_for_another_input_are_dead_letters_once"
        ),
    ),
    Bug(
        "B57 positions count in the topic that their record names",
        "safety",
        _positions_count_in_any_topic,
        IngressWorlds("copied 0 times", settings=True, made_again=True, found=7),
    ),
    Bug(
        "B57 an end below what was read promises nothing",
        "safety",
        _an_end_below_what_was_read_counts,
        IngressWorlds("called late", settings=True, made_again=True, found=118, seeds=150),
        script=Script(
            "tests/ingress/test_topic_life.py::test_an_end_below_what_had_been_read_is_that_of_another_topic"
        ),
    ),
    Bug(
        "B57 the end of a partition in doubt promises nothing",
        "safety",
        _ends_of_partitions_in_doubt_count,
        script=Script(
            "tests/ingress/test_topic_life.py::"
            "test_what_is_in_a_topic_made_again_is_not_late_whenever_its_end_was_asked_for"
        ),
    ),
)
