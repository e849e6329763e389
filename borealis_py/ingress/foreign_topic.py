"""A foreign topic as its ingress reads it: its partitions, their ends, and what has arrived."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, closing

from borealis_py.ingress.partition_queue import Gap, PartitionQueue
from borealis_py.log.base import Feed, OffsetBeyond, OffsetGone, Wake
from borealis_py.log.foreign import ForeignLog, PartitionsQuery, StartsQuery, Told, ToldQuery
from sunion.model import FOREVER

EMPTY_US = 5_000
"""How long a new partition is empty: its leader must make it, and a producer learn of it. Of 40, a producer that waited
for them, on the broker's own machine, wrote to none earlier than 8 ms after the last look that had not seen it.
"""
DOUBT_US = 20_000
"""How often it is asked whether the topic is still the same where that is in doubt."""
COUNT_US, COUNT_SOON_US = 5_000_000, 500_000
"""How often the number of partitions is asked for where the ends are not; and how often while there is none."""


class NobodyTold:
    """The answer to a question for ends when nobody tells the number of partitions."""

    def poll(self) -> Mapping[int, Told]:
        return {}


class ForeignTopic:
    """Reads one topic and asks about it. Never waits.

    Args:
        wake: called when records or answers have arrived.
    """

    def __init__(self, cluster: ForeignLog, topic: str, wake: Wake) -> None:
        self.topic = topic
        self.partitions: int | None = None
        """Their number; 0: there is no such topic; None: nobody has told."""
        self.topic_id = ""
        """Of the topic as last told; "": not known."""
        self.counted_us: int | None = None
        """Until when no other partition had anything in it: somewhat longer than when `partitions` was asked for."""
        self.queues: dict[int, PartitionQueue] = {}
        self.ends: Mapping[int, Told] = {}
        """As last told."""
        self.ends_asked_us: int | None = None
        """When `ends` was asked for."""
        self.learned_us: int | None = None
        """When the last question was asked to which some end was told, or that there is no such topic."""
        with ExitStack() as opened:  # a begin that fails must leave nothing open, since it is repeated
            self._watch = opened.enter_context(closing(cluster.topic_watch(topic, wake)))
            self._reader = opened.enter_context(closing(cluster.reader(wake)))
            self._opened = opened.pop_all()
        self._doubted: dict[int, tuple[int, Gap | None]] = {}
        """Partitions that are not read before it is known, by a question asked from then on, whether the topic is still
        the one in which their offsets count; and what has happened to them if it is."""
        self._hurry_us = 0
        """When a partition was opened, or had ended too early, last: it waits for nothing but the answer. Of one that
        cannot be read, the next regular question is soon enough."""
        self._count: PartitionsQuery | None = None
        self._count_due_us = 0
        self._count_asked_us = 0
        self._ends_due_us: int | None = None
        self._told: ToldQuery | None = None
        self._asked_us = 0
        self._stood: Mapping[int, int] = {}
        """How far each partition had been copied when the ends were asked for."""
        self.settled = False
        """A partition that was opened, or had ended too early, is read since the last look: its end is not known."""
        self._starts: StartsQuery | None = None
        self._hushed: tuple[frozenset[Feed], Mapping[Feed, int]] = frozenset(), {}
        """Which partitions' records wait for others, and which ends are waited for, as the reader was told last."""
        self._left = False
        """The last `poll` left what had arrived, unseen."""

    @property
    def asking(self) -> bool:
        """Ends have been asked for, and not been told."""
        return self._told is not None

    @property
    def next_wakeup(self) -> int:
        """When the number of partitions is asked for again."""
        if self._doubted and self._count is None and self._count_asked_us < self._hurry_us:
            return min(self._count_due_us, self._count_asked_us + DOUBT_US)
        ahead_us = self._ahead_us
        return self._count_due_us if ahead_us is None else min(self._count_due_us, ahead_us)

    def look(self, now_us: int) -> bool:
        """Take answers. True: `ends` are new, and `partitions` is, too: it was asked for just before, or with them."""
        self.settled = False
        if self._count is None and now_us >= self.next_wakeup:
            ahead_us = self._ahead_us
            self._ask_count(now_us, ahead_us is not None and now_us >= ahead_us and not self._doubted)
        self._take_count(now_us)
        told = None if self._told is None or self._count is not None else self._told.poll()
        if told is None:
            return False
        # An end below what had been read when it was asked for is that of a topic made again, and not of this log.
        # The end of a partition in doubt may be that of another topic, and as far as it had been read by chance.
        gone = {p for p, one in told.items() if (one.written or 0) < self._stood.get(p, 0)} | self._doubted.keys()
        self._told, self.ends_asked_us = None, self._asked_us
        self.ends = {p: Told(None, None) if p in gone else one for p, one in told.items()}
        self._doubt([p for p, one in told.items() if one.written is None], now_us)
        if any(one.written is not None for one in told.values()):
            self.learned_us = self._asked_us
        return True

    @property
    def doubted(self) -> Collection[int]:
        """Partitions of which it is being asked whether they are still those that were read: not yet, for a moment."""
        return self._doubted.keys()

    def ask_ends(self, now_us: int, again_us: int | None = None) -> None:
        """Ask for both ends of all partitions, and for their number unless it is fresh; once, until they are told.

        Args:
            again_us: when the ends will be asked for next. Their number is a moment before, since that takes longer.
        """
        if self._told is None and self.partitions:
            self._told, self._asked_us = self._watch.ask_ends(range(self.partitions)), now_us
            self._stood = {p: FOREVER if p in self._doubted else queue.copied for p, queue in self.queues.items()}
            if self._ends_due_us is None or self._count_asked_us < self._ends_due_us - EMPTY_US:
                self._ask_count(now_us)
        self._ends_due_us = again_us

    @property
    def _ahead_us(self) -> int | None:
        """When to ask for the number of partitions ahead of the ends; None: that is done, or another is unanswered."""
        if self._ends_due_us is None or self._count is not None:
            return None
        at_us = self._ends_due_us - EMPTY_US
        return None if self._count_asked_us >= at_us else at_us

    def starts(self) -> Mapping[int, int | None] | None:
        """The first retained offset of each partition; None: not told yet."""
        if self._starts is None and self.partitions:
            self._starts = self._watch.ask_starts(range(self.partitions))
        found = None if self._starts is None else self._starts.poll()
        if found is not None:
            self._starts = None
        return found

    def open(self, partition: int, offset: int, now_us: int, topic_id: str = "") -> PartitionQueue:
        """Read a partition from here on. `topic_id`: of the topic in which the offset counts; "": not known."""
        queue = self.queues[partition] = PartitionQueue(partition, offset, topic_id)
        queue.moved_us = now_us
        if topic_id:
            self._doubted[partition] = (now_us, None)
            self._hurry_us = now_us
        else:
            self._reader.open(self._feed(partition), offset)
        return queue

    def poll(self, now_us: int) -> None:
        """Queue what has arrived, unless enough is queued: a partition whose queue is full must be stopped, and its
        reader fetches again what it has fetched ahead. Raises LogError: the topic may not be read."""
        records = []
        self._left = not self._wanting
        tries = 0 if self._left else len(self.queues) + 1  # an error of one partition keeps the others' records back
        for _ in range(tries):
            try:
                records = self._reader.poll()
                break
            except OffsetGone as gone:
                self._go_on(gone.feed, Gap(gone.offset, max(gone.first, gone.offset)))
            except OffsetBeyond as beyond:
                self._beyond(beyond, now_us)
        for record in records:
            queue = self.queues[record.feed.partition]
            queue.put(record)
            queue.moved_us = now_us
        for p, queue in self.queues.items():
            if p in self._doubted:
                continue
            if queue.reading and queue.full:
                queue.reading = False
                self._reader.stop(self._feed(p))
            elif not queue.reading and queue.drained:
                queue.reading = True
                self._reader.open(self._feed(p), queue.fetched)

    def pass_unseen(self, partition: int) -> None:
        """Where all that was read of a partition is copied, so is what no reader sees behind it."""
        queue = self.queues[partition]
        if queue.reading and queue.empty and partition not in self._doubted:
            queue.idle(self._reader.position(self._feed(partition)))

    def gather(self, within_us: int) -> None:
        """Let rows wait for others, unless they lie before an end that was told: a boundary may wait for them."""
        read = {p: self._feed(p) for p, queue in self.queues.items() if queue.reading and p not in self._doubted}
        ends = {feed: told.written or 0 for p, feed in read.items() if (told := self.ends.get(p)) is not None}
        awaited = {feed: end for feed, end in ends.items() if end > self._reader.position(feed)}
        hushed = frozenset(read.values()), awaited
        if hushed != self._hushed:
            self._hushed = hushed
            self._reader.hush(frozenset(), *hushed, within_us)

    def stop(self) -> None:
        """Read nothing, until `open`."""
        for p, queue in self.queues.items():
            if queue.reading and p not in self._doubted:
                self._reader.stop(self._feed(p))
        self.queues, self._doubted = {}, {}

    def close(self) -> None:
        self._opened.close()

    @property
    def more(self) -> bool:
        """Records may have arrived that `poll` has left, and would take now."""
        return self._wanting and (self._left or self._reader.more)

    @property
    def ripe(self) -> bool:
        """Whether to `poll` now: what has arrived has waited for others long enough, or a partition may go on."""
        ready = any(queue.drained for queue in self.queues.values() if not queue.reading)
        return self._left or ready or self._reader.ripe

    @property
    def _wanting(self) -> bool:
        """Of some partition that is read, little is left to copy."""
        return any(queue.reading and queue.drained for queue in self.queues.values())

    def _beyond(self, found: OffsetBeyond, now_us: int) -> None:
        """The log ends before what was read of it: the topic is another one, or its log was cut off."""
        queue = self.queues[found.feed.partition]
        gap = Gap(found.offset, 0, f"ends at {found.end}")
        if queue.topic_id:
            self._doubt([queue.partition], now_us, gap)
            self._hurry_us = now_us
        else:
            self._go_on(found.feed, gap)

    def _doubt(self, partitions: Iterable[int], now_us: int, gap: Gap | None = None) -> None:
        """These cannot be read now: by the time that they can, the topic may be another one."""
        for p in partitions:
            if (queue := self.queues.get(p)) is None or not queue.topic_id:
                continue
            if queue.reading and p not in self._doubted:
                self._reader.stop(self._feed(p))
            self._doubted[p] = (now_us, gap or self._doubted.get(p, (0, None))[1])

    def _identify(self, topic_id: str) -> None:
        """Begin again in partitions whose offsets count in another topic, and go on in the others. What was read of the
        other and not copied is given up: whether it was of that one cannot be known."""
        self.topic_id = topic_id or self.topic_id
        for p, queue in list(self.queues.items()):
            since_us, gap = self._doubted.get(p, (None, None))
            if topic_id and queue.topic_id and queue.topic_id != topic_id:
                if since_us is None and queue.reading:
                    self._reader.stop(self._feed(p))
                again = self.queues[p] = PartitionQueue(p, queue.copied, topic_id)
                again.moved_us = queue.moved_us
                if queue.copied:
                    again.skip(Gap(queue.copied, 0, "has another id in Kafka"))
                self._reader.open(self._feed(p), 0)
                self.settled = True
            elif since_us is not None and since_us <= self._count_asked_us:
                if gap is not None:
                    self._go_on(self._feed(p), gap)
                elif queue.reading:
                    self._reader.open(self._feed(p), max(queue.fetched, queue.copied))
                self.settled = self.settled or p not in self.ends or gap is not None
            else:
                queue.topic_id = queue.topic_id or topic_id
                continue
            self._doubted.pop(p, None)

    def _go_on(self, feed: Feed, gap: Gap) -> None:
        self.queues[feed.partition].skip(gap)
        self._reader.open(feed, gap.to)

    def _ask_count(self, now_us: int, ahead: bool = False) -> None:
        self._count, self._count_due_us, self._count_asked_us = self._watch.ask_partitions(ahead), FOREVER, now_us

    def _take_count(self, now_us: int) -> None:
        found = None if self._count is None else self._count.poll()
        if found is None:
            return
        self._count = None
        self._count_due_us = now_us + (COUNT_US if found.partitions > 0 else COUNT_SOON_US)
        if found.partitions <= 0:
            self._doubt(self.queues, now_us)
        if found.partitions >= 0:
            self.partitions, self.counted_us = found.partitions, self._count_asked_us + EMPTY_US
            if found.partitions == 0:
                self.learned_us = self._count_asked_us
            else:
                self._identify(found.topic_id)
        elif self._told is not None:
            self._told = NobodyTold()

    def _feed(self, partition: int) -> Feed:
        return Feed(self.topic, partition)
