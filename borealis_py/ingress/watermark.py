"""How far the boundary of each input of an ingress may move: the foreign topic's producers promise nothing. Pure.

A producer may write a row up to the lateness after its stime. So of a partition, no later row lies below

    max(largest stime read, sure) - lateness

`sure` is the last wall time after which the broker told an end offset that has since been read to: whatever was in the
partition then has been copied, whatever comes later was written later. That end must count records of open
transactions, too, since a reader cannot see them yet and will (B51). A partition that cannot be read tells no end, so
it stays where it is, and what it brings later is not late. The boundary of an input is the least of its partitions,
and of the last wall time after which the broker told that there are no others: a partition that nobody knows of may
have rows, too. So no boundary passes the clock, although a row may be ahead of it (B52).

With `expect`, silence means that an input is missing. Its boundary then stays at or below the arrival of its last
record, so that what its producer kept meanwhile is not late when it comes. That may be many records, in several
partitions: while rows are older than the lateness when they arrive, their producer is catching up, and only they move
the boundary; and an arrival counts once all partitions of the input have been read up to ends that were asked for after
it was seen. Of inputs by value, the one that takes all other values is expected to speak only once it has.

Partitions that were given up hold no boundary. An input that has no others goes with the clock; by the data, with those
inputs that have some.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sunion.model import FOREVER

NEVER = -FOREVER
"""Below every time: nothing has been read, or nothing is sure."""
TOLD_MAX = 64
"""Ends of one partition that are remembered until they have been read to; more would only make `sure` finer."""


@dataclass(slots=True)
class PartitionTime:
    """What is known of one partition. `largest`: stime read so far; `sure`: see above. Both are `NEVER` at first.
    `read_to`: offset up to which it has been copied."""

    largest: int = NEVER
    sure: int = NEVER
    read_to: int = 0
    told: deque[tuple[int, int]] = field(default_factory=deque)
    """(when it was asked for, end offset) of ends that have not been read to, both ascending."""


@dataclass(slots=True)
class InputTime:
    """What is known of one input. `feeders`: the partitions it takes from. `arrival`: a time at or before its last
    record came; `largest`: its largest stime; both `NEVER` at first."""

    feeders: frozenset[int]
    arrival: int = NEVER
    largest: int = NEVER
    seen: deque[tuple[int, int]] = field(default_factory=deque)
    """(when it was seen, arrival) of records that do not count yet, ascending."""
    unspoken: bool = False
    """It takes the values that nobody has named, and none has come yet: its silence means nothing."""


class Watermarks:
    """The boundaries that the inputs of one foreign topic can promise. All times are microseconds since 1970.

    Args:
        lateness_us: how long after its stime a row may come.
        by_data: only rows move a boundary, never the clock.
        expect_us: an input that is silent for this long is missing; None: silence means that nothing happened.
    """

    def __init__(self, lateness_us: int, by_data: bool = False, expect_us: int | None = None) -> None:
        self._lateness_us = lateness_us
        self._by_data = by_data
        self._expect_us = None if by_data else expect_us
        self._partitions: dict[int, PartitionTime] = {}
        self._inputs: dict[int, InputTime] = {}
        self._counted_us = NEVER
        self._given_up: frozenset[int] = frozenset()

    def feed(self, index: int, partitions: Iterable[int], boundary: int) -> None:
        """Input `index` takes from these partitions, and `boundary` has been promised for it. Again when they grow."""
        feeders = frozenset(partitions)
        known = self._inputs.get(index)
        self._inputs[index] = InputTime(feeders) if known is None else replace(known, feeders=feeders)
        for p in feeders:
            time = self._partitions.setdefault(p, PartitionTime())
            if self._by_data and known is None:  # nothing else moves it before its next row
                inputs = [i for i, of in self._inputs.items() if p in of.feeders]
                own = boundary + self._lateness_us
                time.largest = own if inputs == [index] else min(time.largest, own)

    def unspoken(self, index: int) -> None:
        """An input is not expected to speak before its first record."""
        self._inputs[index].unspoken = True

    def counted(self, asked_us: int) -> None:
        """The broker, asked at `asked_us`, told that the topic has no other partitions than are fed into inputs."""
        self._counted_us = max(self._counted_us, asked_us)

    def give_up(self, partitions: frozenset[int]) -> None:
        """From now on boundaries wait for all partitions but these, and what these bring later may be late."""
        self._given_up = partitions

    def expect(self, expect_us: int | None) -> None:
        """From now on an input that is silent for this long is missing. By the data, any silent input is."""
        self._expect_us = None if self._by_data else expect_us

    def open(self, partition: int, offset: int) -> None:
        """Copying goes on at `offset`, which may lie further back: ends told before say nothing of it."""
        time = self._partitions.setdefault(partition, PartitionTime())
        time.read_to = offset
        time.told.clear()

    def saw(self, index: int, partition: int, largest: int) -> None:
        """Rows for an input were read from a partition; `largest`: the largest of their stimes."""
        time, of = self._partitions[partition], self._inputs[index]
        time.largest = max(time.largest, largest)
        of.largest = max(of.largest, largest)
        of.unspoken = False

    def arrived(self, index: int, partition: int, offset: int, now_us: int, stime: int | None = None) -> None:
        """The record of an input at this offset was read. It came after the last end that did not include it.

        Args:
            now_us: when it was read.
            stime: the largest of the rows up to there that came with it; None: it is a heartbeat.
        """
        time, of = self._partitions[partition], self._inputs[index]
        of.unspoken = False
        after = next((asked for asked, end in reversed(time.told) if end <= offset), time.sure)
        came = after if stime is None else min(after, stime + self._lateness_us)
        if of.seen and (of.seen[-1][0] == now_us or len(of.seen) >= TOLD_MAX):
            came = max(came, of.seen.pop()[1])
        of.seen.append((now_us, came))

    def told(self, partition: int, asked_us: int, end: int) -> None:
        """The broker, asked at `asked_us`, told this end, which counts records that cannot be read yet."""
        time = self._partitions.setdefault(partition, PartitionTime())
        if end <= time.read_to:
            time.sure = max(time.sure, asked_us)
            time.told.clear()
            return
        if len(time.told) >= TOLD_MAX:
            time.told.pop()
        if time.told and time.told[-1][1] == end:
            time.told.pop()
        time.told.append((asked_us, end))

    def read_to(self, partition: int, offset: int) -> None:
        """Everything below `offset` has been copied."""
        time = self._partitions[partition]
        time.read_to = max(time.read_to, offset)
        while time.told and time.told[0][1] <= time.read_to:
            time.sure = max(time.sure, time.told.popleft()[0])

    def of_partition(self, partition: int) -> int:
        """No later row of this partition lies below; `NEVER`: nothing is known of it."""
        time = self._partitions[partition]
        return self._less_lateness(time.largest if self._by_data else max(time.largest, time.sure))

    def boundary(self, index: int) -> int:
        """No later row of this input lies below; `NEVER`: nothing can be promised. It may lie below what was promised
        before, which then holds on."""
        of = self._inputs[index]
        feeders = of.feeders - self._given_up
        if of.feeders and not feeders:
            return self._of_others() if self._by_data else self._less_lateness(self._counted_us)
        sure = min((self._partitions[p].sure for p in feeders), default=NEVER)
        while of.seen and of.seen[0][0] < sure:
            of.arrival = max(of.arrival, of.seen.popleft()[1])
        least = min((self._known(of, self._partitions[p]) for p in feeders), default=NEVER)
        if self._expected(of) is not None:  # rows of others move a shared partition, and prove no life of this input
            least = min(least, max(of.arrival, of.largest))
        return self._less_lateness(min(least, self._counted_us))

    def read_since(self, index: int, since_us: int) -> bool:
        """Whether all that was in the partitions of an input at this time has been copied, and there were no others.
        Those that were given up do not count."""
        feeders = self._inputs[index].feeders - self._given_up
        return self._counted_us >= since_us and all(self._partitions[p].sure >= since_us for p in feeders)

    def _of_others(self) -> int:
        """The least boundary of the inputs that have partitions which were not given up; `NEVER`: there are none."""
        waits = [i for i, of in self._inputs.items() if of.feeders - self._given_up]
        return min((self.boundary(i) for i in waits), default=NEVER)

    def _less_lateness(self, time: int) -> int:
        return time if time == NEVER else time - self._lateness_us

    def _known(self, of: InputTime, time: PartitionTime) -> int:
        if self._by_data:
            return time.largest
        expect_us = self._expected(of)
        if expect_us is None or time.sure == NEVER:
            return max(time.largest, time.sure)
        return max(time.largest, min(time.sure - expect_us, of.arrival))

    def _expected(self, of: InputTime) -> int | None:
        """After how much silence the input is missing; None: silence means nothing."""
        return None if of.unspoken else self._expect_us
