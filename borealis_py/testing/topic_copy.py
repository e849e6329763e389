"""Copies a whole foreign topic into a source at once, as an ingress does that has no clock.

Decoder, inputs, boundaries by the rows, dead letters and records are those of `ingress`; what is left out is time:
silence, and rows ahead of the clock. As in a catch-up, the partition that is furthest behind goes first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.ingress.decoder import Decoded, TopicDecoder
from borealis_py.ingress.input_part import InputLimits, part_for
from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.ownership import Ownership
from borealis_py.ingress.plan import IngressPlan
from borealis_py.ingress.watermark import NEVER, Watermarks
from borealis_py.log.description import Life
from borealis_py.simulation.log.client import MemoryLog
from sunion.model import FOREVER

UID = "run"
BATCH_US = 0
"""Nothing here waits, so every record of an input is written at the same time."""


class CopiedPartition:
    """One partition of a topic that is copied: what was decoded, and how far it is done.

    `stimes`, `inputs`: of each row. `next`: the row that is next.
    """

    def __init__(self, number: int, decoded: Decoded, plan: IngressPlan) -> None:
        self.number = number
        self.next = 0
        self.stimes: list[int] = decoded.stimes.tolist()
        self.inputs: list[int] = plan.inputs_of(number, decoded.rows).tolist()
        self._at: list[int] = decoded.at.tolist()
        self._rest = decoded
        self._cut = 0

    @property
    def front(self) -> int | None:
        """The stime of its next row; None: it has no more."""
        return self.stimes[self.next] if self.next < len(self.stimes) else None

    def taken(self) -> Decoded:
        """The records before the next row that were not taken yet."""
        upto = self._cut + len(self._rest) if self.front is None else self._at[self.next]
        part, self._rest = self._rest.cut(upto - self._cut)
        self._cut = upto
        return part


class TopicCopy:
    """Copies the records of one topic, given by partition, and ends the source.

    Args:
        log: where the topics of the app are; nothing of the source has been written.
    """

    def __init__(self, log: MemoryLog, plan: IngressPlan, decoder: TopicDecoder, decoded: Sequence[Decoded]) -> None:
        self._log = log
        self._plan = plan
        self._decoder = decoder
        self._partitions = [CopiedPartition(p, one, plan) for p, one in enumerate(decoded)]
        self._buckets = plan.targets[0].buckets
        self._ahead_us = plan.targets[0].ahead_max_us
        self._writers = [self._writer(i) for i in range(len(plan.targets))]
        self._bounds = [writer.boundary for writer in self._writers]
        """What can be promised for each input by what was read."""
        self._rule = Watermarks(plan.spec.lateness_us, by_data=True)
        for i, writer in enumerate(self._writers):
            self._rule.feed(i, plan.feeders(i, range(len(decoded))), writer.boundary)
        self._rule.counted(FOREVER)

    def run(self) -> None:
        """Copy everything."""
        self._give_up_done()
        while (partition := self._behind()) is not None:
            front, i = partition.front, partition.inputs[partition.next]
            assert front is not None
            if self._writers[i].boundary <= front < self._bounds[i]:
                self._promise()  # or it would not be late
            elif self._beyond(front, i):
                self._promise()
                if self._beyond(front, i):
                    self._see_fronts()
                    self._promise()
            self._rule.saw(i, partition.number, front)
            partition.next += 1
            if partition.front is None:
                self._give_up_done()
            self._learn(self._plan.fed_by(partition.number))
        self._emit()
        for writer in self._writers:
            writer.flush(FOREVER, BATCH_US)
            self._append(writer)

    def _behind(self) -> CopiedPartition | None:
        left = [(front, p.number) for p in self._partitions if (front := p.front) is not None]
        return self._partitions[min(left)[1]] if left else None

    def _beyond(self, stime: int, index: int) -> bool:
        """Whether readers would refuse such a row of an input as in the future of its boundary."""
        return stime >= self._writers[index].boundary + self._plan.spec.lateness_us + self._ahead_us

    def _see_fronts(self) -> None:
        """Nothing is left before the next rows: they themselves move the boundaries (B53)."""
        for partition in self._partitions:
            if partition.front is not None:
                self._rule.saw(partition.inputs[partition.next], partition.number, partition.front)
        self._learn(range(len(self._writers)))

    def _give_up_done(self) -> None:
        """Nothing waits for partitions that have no more rows."""
        self._rule.give_up(frozenset(p.number for p in self._partitions if p.front is None))

    def _learn(self, inputs: Sequence[int]) -> None:
        """See what can be promised for these inputs now."""
        for i in inputs:
            known = self._rule.boundary(i)
            if NEVER < known < FOREVER:
                self._bounds[i] = max(self._bounds[i], self._buckets.start(self._buckets.closed_by(known)))

    def _promise(self) -> None:
        """Write what was read, and what is promised by it. No row needs that before the next late one."""
        self._emit()
        for writer, boundary in zip(self._writers, self._bounds, strict=True):
            if boundary > writer.boundary:
                writer.flush(boundary, BATCH_US)
                self._append(writer)

    def _emit(self) -> None:
        """Hand everything before the next rows to the writers."""
        for partition in self._partitions:
            if not len(part := partition.taken()):
                continue
            fed, refuser = self._plan.fed_by(partition.number), self._plan.refuser(partition.number)
            of = self._plan.inputs_of(partition.number, part.rows)
            for i in fed:
                limits = InputLimits(self._writers[i].boundary, FOREVER, 0, self._decoder.misread)
                mine = None if len(fed) == 1 else np.flatnonzero(of == i)
                found = part_for(part, partition.number, mine, i == refuser, limits)
                if found is not None:
                    self._writers[i].add(found, BATCH_US)

    def _writer(self, index: int) -> InputWriter:
        target, plan = self._plan.targets[index], self._plan
        owner = Ownership(target, Life(target.app_uid), UID, plan.spec.lateness_us, 0, 0)
        owner.read((), 0)
        self._log.broker.append(owner.claim())
        assert owner.end is not None
        fold = owner.end.fold
        codec = ArrowSourceCodec(target.source, plan.columns, target.row_max_bytes)
        return InputWriter(target, codec, UID, owner.epoch, fold.boundary, fold.last_seq, {}, BATCH_US)

    def _append(self, writer: InputWriter) -> None:
        for record in writer.drain():
            self._log.broker.append(record)
