"""Planted in ingresses: what they copy, where they go on, what they promise (PROTOCOL 4.8, B48 to B56)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import mock

from borealis_py.ingress import session, silence
from borealis_py.ingress.copier import Copier
from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.topic.foreign_topic import ForeignTopic
from borealis_py.ingress.topic.partition_queue import Gap, PartitionQueue
from borealis_py.ingress.watermark import Watermarks
from borealis_py.log.foreign import Told
from tests.planted.bug import Bug
from tests.planted.worlds import IngressWorlds


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
        "4.8 rows may come as late as the lateness",
        "safety",
        _largest_without_lateness,
        IngressWorlds("called late", found=1),
    ),
    Bug(
        "4.8 what retention took is named",
        "safety",
        _gaps_are_passed_over,
        IngressWorlds("copied 0 times", ("retention", "cut_topic", "kill"), found=18),
    ),
    Bug(
        "4.8 a standby takes over",
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
        "4.8 nobody waits for what was given up",
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
        "4.8 new partitions begin at their beginning",
        "safety",
        _new_partitions_from_their_end,
        IngressWorlds("copied 0 times", ("grow",), found=1),
    ),
)
