"""SOutput: what a replica has written to its stream, what the log has acknowledged, what is not published yet.

The outbox bounds how far a replica runs ahead of its own topic (B43); the acknowledged frontiers are what heartbeats
report and what a checkpoint waits for (B1, B31).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from sunion.digests import StableDigests
from sunion.errors import IllegalTransition
from sunion.model import (
    GapRange,
    Output,
    RecDone,
    RowOps,
    StableBucket,
    StableRange,
    StreamRecord,
    TentativeBucket,
    Undo,
)
from sunion.portion import Most, end_of, size_of


def in_time(bucket: int) -> int:
    """A bucket has not waited."""
    return 0


def _end(record: StreamRecord) -> int:
    """The first bucket behind those that a record is about."""
    return record.end if isinstance(record, StableRange | GapRange) else record.bucket + 1


class SOutput:
    """One replica's stream.

    Args:
        start: stable frontier to begin with; everything below is in the log already (R12.1).
        unpublished_rows_max, unpublished_bytes_max: limits of the rows and dead letters kept for the corrected stream;
            beyond either limit they are read back from the replica's own topic.
        keep_rows: False for a node without a corrected stream, which publishes only its dead letters.

    Attributes:
        digests: of the stable buckets that this replica computed itself.
    """

    def __init__(
        self,
        inc: int,
        start: int,
        ops: RowOps,
        *,
        unpublished_rows_max: int,
        unpublished_bytes_max: int,
        keep_rows: bool = True,
    ) -> None:
        self.inc = inc
        self.stable = start
        self.ack_s = start
        self.ack_l = start
        self.published = start
        self.kept_from = start
        self.digests = StableDigests(ops)
        self._ops = ops
        self._rows_max = unpublished_rows_max
        self._bytes_max = unpublished_bytes_max
        self._keep_rows = keep_rows
        self._rows = 0
        self._bytes = 0
        self._outputs: dict[int, Output] = {}
        self._outbox: deque[tuple[int, StreamRecord]] = deque()
        self._token = 0

    @property
    def waiting(self) -> int:
        """Number of records not yet acknowledged."""
        return len(self._outbox)

    def stable_run(
        self,
        first: int,
        end: int,
        outputs: Mapping[int, Output],
        waited_us: Callable[[int], int] = in_time,
        computed: bool = True,
    ) -> list[tuple[int, StreamRecord]]:
        """Emit [first, end) as stable: one record per bucket with output, one per run of empty buckets (B21).

        Args:
            waited_us: how long a bucket has waited past its end, in us. A range carries the value of its last bucket.
            computed: by this replica; False: taken over from a peer, whose rows may be in another order.

        Raises:
            IllegalTransition: the run does not start at the stable frontier, so it would leave a gap or a repeat.
        """
        if first != self.stable or end <= first:
            raise IllegalTransition(f"stable run [{first}, {end}) at stable frontier {self.stable}")
        records: list[tuple[int, StreamRecord]] = []
        at = first
        for bucket in sorted(outputs):
            if not first <= bucket < end:
                raise IllegalTransition(f"output of bucket {bucket} from a run of [{first}, {end})")
            if at < bucket:
                records.append(self._say(StableRange(self.inc, at, bucket, waited_us(bucket - 1))))
            records.append(self._say(StableBucket(self.inc, bucket, outputs[bucket], waited_us(bucket))))
            self._keep(bucket, outputs[bucket])
            at = bucket + 1
        if at < end:
            records.append(self._say(StableRange(self.inc, at, end, waited_us(end - 1))))
        self.stable = end
        if computed:
            self._digest(first, end, outputs)
        return records

    def _digest(self, first: int, end: int, outputs: Mapping[int, Output]) -> None:
        at = first
        for bucket in sorted(outputs):
            if at < bucket:
                self.digests.said(at, bucket, None)
            self.digests.said(bucket, bucket + 1, outputs[bucket])
            at = bucket + 1
        if at < end:
            self.digests.said(at, end, None)

    def lost(self, end: int) -> tuple[int, StreamRecord]:
        """Emit that the buckets from the stable frontier to `end` are lost (R18.7). To publish, they are read back,
        since another topic may hold one of them.

        Raises:
            IllegalTransition: there are none.
        """
        if end <= self.stable:
            raise IllegalTransition(f"gap up to {end} at stable frontier {self.stable}")
        said = self._say(GapRange(self.inc, self.stable, end))
        self.stable = self.kept_from = end
        return said

    def tentative(self, record: TentativeBucket) -> tuple[int, StreamRecord]:
        """Emit a tentative bucket. Raises IllegalTransition below the stable frontier."""
        if record.bucket < self.stable:
            raise IllegalTransition(f"tentative bucket {record.bucket} below stable frontier {self.stable}")
        return self._say(record)

    def undo(self) -> tuple[int, StreamRecord]:
        """Emit UNDO: corrections start at the stable frontier."""
        return self._say(Undo(self.inc, self.stable))

    def rec_done(self) -> tuple[int, StreamRecord]:
        """Emit REC_DONE: everything below the stable frontier is stable."""
        return self._say(RecDone(self.inc, self.stable))

    def _say(self, record: StreamRecord) -> tuple[int, StreamRecord]:
        self._token += 1
        self._outbox.append((self._token, record))
        return self._token, record

    def acknowledged(self, token: int) -> None:
        """The log holds every record up to `token`."""
        while self._outbox and self._outbox[0][0] <= token:
            record = self._outbox.popleft()[1]
            if isinstance(record, StableBucket | StableRange | GapRange):
                self.ack_s = max(self.ack_s, _end(record))
            elif isinstance(record, TentativeBucket):
                self.ack_l = max(self.ack_l, _end(record))
        self.ack_l = max(self.ack_l, self.ack_s)

    def unsaid(self) -> list[tuple[int, StreamRecord]]:
        """What was emitted and is not acknowledged, by token: a standby that takes over says all of it (R17.7)."""
        return list(self._outbox)

    @property
    def first_waiting(self) -> int:
        """Token of the first record that is not acknowledged; above all tokens if there is none."""
        return self._outbox[0][0] if self._outbox else self._token + 1

    def said_elsewhere(self, stable: int, live: int) -> None:
        """Another replica's topic holds every stable bucket below `stable`, and every one in some form below `live`, so
        a standby need not say those (R17.7)."""
        said = {t: r for t, r in self._outbox if isinstance(r, TentativeBucket) and _end(r) <= live}
        if said:  # be it behind a gap that the other one has not said yet
            self._outbox = deque(one for one in self._outbox if one[0] not in said)
            self.ack_l = max(self.ack_l, *map(_end, said.values()))
        while self._outbox and _end(self._outbox[0][1]) <= stable:
            self.acknowledged(self._outbox[0][0])

    def _keep(self, bucket: int, output: Output) -> None:
        if bucket < self.published:
            return
        if not self._keep_rows:
            if not output.rejects:
                return
            output = Output(None, output.rejects)
        self._outputs[bucket] = output
        rows, size_bytes = size_of(output, self._ops)
        self._rows, self._bytes = self._rows + rows, self._bytes + size_bytes
        while (self._rows > self._rows_max or self._bytes > self._bytes_max) and self._outputs:
            oldest = next(iter(self._outputs))  # buckets are emitted in order
            self._drop(oldest)
            self.kept_from = oldest + 1

    def _drop(self, bucket: int) -> None:
        rows, size_bytes = size_of(self._outputs.pop(bucket), self._ops)
        self._rows, self._bytes = self._rows - rows, self._bytes - size_bytes

    def publish_to(self, frontier: int) -> None:
        """The corrected stream holds everything below `frontier`."""
        if frontier <= self.published:
            return
        self.published = frontier
        for bucket in [b for b in self._outputs if b < frontier]:
            self._drop(bucket)

    def unpublished(self, first: int, end: int, most: Most) -> tuple[dict[int, Output], int] | None:
        """Outputs in [first, end), as far as `most` allows, and the bucket at which they end.

        Returns:
            None: some of them are only in the replica's own topic.
        """
        if first < self.kept_from:
            return None
        found = {b: o for b, o in self._outputs.items() if first <= b < end}
        end = end_of(found.items(), end, most, self._ops)
        return {b: o for b, o in found.items() if b < end}, end
