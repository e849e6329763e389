"""Reading the simulated log: cursors that see what has had time to arrive, and blocking queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from borealis_py.log.base import (
    GATHERED_US,
    NOTHING,
    Feed,
    LogError,
    LogUnreachable,
    OffsetBeyond,
    OffsetGone,
    Record,
    Wake,
)
from borealis_py.simulation.log.broker import Partition
from borealis_py.simulation.log.connection import Connection
from sunion.model import FOREVER


class _SimulatedCursor:
    """`partition`: None while there is none; a deleted one until everything that arrived from it has been polled."""

    __slots__ = ("partition", "position", "shown_at_us", "visible")

    def __init__(self, partition: Partition | None, offset: int) -> None:
        self.partition = partition
        self.position = offset
        self.visible = offset  # how far the fetches so far reached; the records are in the partition itself
        self.shown_at_us = 0


class MemoryReader:
    """Implements `log.base.Reader`."""

    def __init__(self, client: Connection, wake: Wake) -> None:
        self._client = client
        self._woken = wake
        self._cursors: dict[Feed, _SimulatedCursor] = {}
        self._hushed: frozenset[Feed] = frozenset()
        self._gathered: frozenset[Feed] = frozenset()
        self._awaited: dict[Feed, int] = {}
        self._within_us = 0
        self._due_us: int | None = None
        """When it wakes for what is gathered; None: for nothing."""
        self.more = False
        self.ripe = True
        """See `log.base.Reader`."""

    def open(self, feed: Feed, offset: int) -> None:
        """See `log.base.Reader.open`. A feed that does not exist yields nothing until it does."""
        broker = self._client.log.broker
        self._cursors[feed] = _SimulatedCursor(broker.existing(feed), offset)
        broker.watchers(feed)[self._advanced] = None
        self._advanced(feed)

    def stop(self, feed: Feed) -> None:
        if self._cursors.pop(feed, None) is not None:
            self._client.log.broker.watchers(feed).pop(self._advanced, None)

    def poll(self) -> list[Record]:
        """See `log.base.Reader.poll`.

        Raises:
            OffsetGone: a cursor is below the first offset the log still has.
            OffsetBeyond: a cursor is beyond the end: the topic was deleted and recreated.
        """
        readable = self._readable()
        self.ripe = False
        records: list[Record] = []
        limit = left = self._client.log.poll_records_max
        self.more = False
        for cursor, partition in readable:
            position, visible = cursor.position, cursor.visible
            if visible > position:
                end = visible if left is None else min(visible, position + left)
                records += [r for r in partition.records[position:end] if r is not None]
                if left is not None:
                    left -= end - position
                    if end < visible:
                        self.more = self.ripe = True
                        self._client.log.scheduler.after(0, self._wake)
                cursor.position = end
        if limit is not None and left == 0:  # the next poll begins with another feed, so that none starves
            cursors = list(self._cursors.items())
            self._cursors = dict([*cursors[1:], *cursors[:1]])
        return records

    def _readable(self) -> list[tuple[_SimulatedCursor, Partition]]:
        """The readable cursors, determined before any is read: an error of one feed loses nothing of another."""
        found = []
        for feed, cursor in self._cursors.items():
            partition = cursor.partition
            if partition is None or partition.deleted:
                partition = self._made_again(feed, cursor)
                if partition is None:
                    continue
            if partition.start <= cursor.position <= len(partition.records):
                found.append((cursor, partition))
            elif self._client.reaches(feed.topic) and self._client.led(feed):
                raise _lost(partition, cursor.position)
        return found

    def hush(
        self,
        feeds: frozenset[Feed],
        gathered: frozenset[Feed] = frozenset(),
        awaited: Mapping[Feed, int] = NOTHING,
        within_us: int = GATHERED_US,
    ) -> None:
        before, self._hushed = self._hushed, feeds
        # What is gathered for longer than it takes to decode it matters here.
        self._gathered, self._awaited = (gathered, dict(awaited)) if within_us > GATHERED_US else (frozenset(), {})
        self._within_us = within_us
        loud = (self._cursors[feed] for feed in before - feeds if feed in self._cursors)
        if any(cursor.visible > cursor.position for cursor in loud):
            self._client.log.scheduler.after(0, self._wake)
        self._due_us = None
        for feed in sorted(self._gathered):
            if feed in self._cursors and self._cursors[feed].visible > self._cursors[feed].position:
                self._rouse(feed)

    def rest(self) -> None:
        """Changes nothing: records arrive late here at random."""

    def position(self, feed: Feed) -> int:
        return self._cursors[feed].position

    def close(self) -> None:
        for feed in tuple(self._cursors):
            self.stop(feed)

    def healed(self) -> None:
        """A cut has ended: what was held up arrives now."""
        for feed in self._cursors:
            self._advanced(feed)

    def _made_again(self, feed: Feed, cursor: _SimulatedCursor) -> Partition | None:
        """Where to continue after the feed's partition was deleted: there, as long as some of what
        arrived is unread.
        """
        if cursor.partition is None or cursor.visible <= cursor.position:
            cursor.partition = self._client.log.broker.existing(feed)
            cursor.visible = cursor.position
            if cursor.partition is not None:
                self._advanced(feed)
        return cursor.partition

    def _advanced(self, feed: Feed) -> None:
        cursor, client = self._cursors[feed], self._client
        partition = cursor.partition
        if partition is None or partition.deleted:
            if client.log.broker.exists(feed.topic):
                client.after(client.link.delays.fetch, self._wake)
            return
        end = partition.stable_end
        scheduler = client.log.scheduler
        at = max(scheduler.now_us + client.link.delays.fetch(client.log.rng), cursor.shown_at_us)
        cursor.shown_at_us = at
        scheduler.at(at, lambda: self._show(feed, cursor, partition, end))

    def _show(self, feed: Feed, cursor: _SimulatedCursor, partition: Partition, end: int) -> None:
        if self._cursors.get(feed) is not cursor or cursor.partition is not partition:
            return
        lost = not partition.start <= cursor.position <= len(partition.records)
        if (end > cursor.visible or lost) and self._client.hears(feed.topic) and self._client.led(feed):
            cursor.visible = max(cursor.visible, end)
            if lost:
                self._wake()
            elif feed not in self._hushed:
                self._rouse(feed)

    def _wake(self) -> None:
        self.ripe = True
        self._woken()

    def _rouse(self, feed: Feed) -> None:
        """Wake the caller for a record that has arrived, or soon."""
        scheduler, awaited = self._client.log.scheduler, feed in self._awaited
        if self._cursors[feed].visible >= self._awaited.get(feed, FOREVER):
            del self._awaited[feed]
        if feed not in self._gathered or (awaited and not self._awaited):
            self._wake()
        elif self._due_us is None or self._due_us <= scheduler.now_us:
            self._due_us = scheduler.now_us + self._within_us
            scheduler.at(self._due_us, self._wake)


def _lost(partition: Partition, position: int) -> LogError:
    feed, end = partition.feed, len(partition.records)
    return (
        OffsetGone(feed, position, partition.start) if position < partition.start else OffsetBeyond(feed, position, end)
    )


class MemoryEnds:
    """Implements `log.base.EndsQuery`."""

    def __init__(self) -> None:
        self.answer: dict[Feed, int | None] | None = None

    def poll(self) -> Mapping[Feed, int | None] | None:
        return self.answer


class MemoryLookup:
    """Implements `log.base.Lookup`. Blocking calls answer at once: no time passes in them.

    `committed` False: also sees aborted and unfinished transactions.
    """

    def __init__(self, client: Connection, committed: bool = True) -> None:
        self._client = client
        self._committed = committed

    def bounds(self, feed: Feed) -> tuple[int, int]:
        partition = self._partition(feed)
        return partition.start, partition.stable_end if self._committed else partition.high_watermark

    def written(self, feed: Feed) -> int:
        return self._partition(feed).high_watermark

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        return self._partition(feed).find(timestamp_ms)

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        partition = self._partition(feed)
        return iter(partition.read(first, end) if self._committed else partition.read_raw(first, end))

    def ask_ends(self, feeds: Sequence[Feed]) -> MemoryEnds:
        query, client = MemoryEnds(), self._client
        asked = tuple(feeds)

        def answer() -> None:
            broker, reaches = client.log.broker, client.reaches
            there = {f: broker.existing(f) if reaches(f.topic) else None for f in asked}
            query.answer = {f: None if partition is None else partition.stable_end for f, partition in there.items()}

        delays = client.link.delays
        reachable = all(client.reaches(f.topic) for f in asked)
        client.after(delays.ends if reachable else delays.unreachable, answer)
        return query

    def close(self) -> None:
        pass

    def _partition(self, feed: Feed) -> Partition:
        if not self._client.reaches(feed.topic):
            raise LogUnreachable(f"{feed.topic}: no broker answered {self._client.name}")
        return self._client.log.broker.partition(feed)
