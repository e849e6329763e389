"""What the owner of an ingress's inputs does: copies records in step, and promises boundaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import structlog

from borealis_py.ingress.catch_up import AHEAD_US, BacklogFronts, TopicFronts
from borealis_py.ingress.counts import IngressCounts
from borealis_py.ingress.decoder import Decoded, Int64s, TopicDecoder
from borealis_py.ingress.foreign_topic import ForeignTopic
from borealis_py.ingress.given_up import GivenUp
from borealis_py.ingress.input_part import InputLimits, InputPart, part_for
from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.partition_queue import Gap, PartitionQueue
from borealis_py.ingress.partition_start import NOT_BEGUN, PartitionStart
from borealis_py.ingress.plan import IngressPlan
from borealis_py.ingress.silence import SILENT_US
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.ingress.watermark import NEVER, Watermarks
from borealis_py.log.base import GATHERED_US, NewRecord
from sunion.model import FOREVER

log = structlog.get_logger(__package__)

Bools = npt.NDArray[np.bool_]

IDLE_US = 500_000
"""Where nothing can be promised, an empty record this often says that its writer lives."""
ARRIVE_US = 100_000
"""How long rows wait for others before they are looked at, where a boundary goes by the clock and needs none: each turn
costs much whatever it finds. Those that lie before an end that was told are not kept waiting."""
GATHER_US, GATHER_ROWS = 100_000, 500
"""Rows of an input that come so soon after its last record go with the next, unless they are many: no result needs them
before the boundary, and each record costs every replica a turn."""
STALLED_US = 1_000_000
"""A partition that has not moved for this long, although it has a backlog, holds up no other."""
HELD_US, WAITS_US = 5_000, 20_000
"""How soon to look again whether what is held back may go on, since other topics got further; and what waits for the
schema registry."""
TURN_RECORDS, TURN_BYTES = 10_000, 4 << 20
"""Records copied in one turn, and about how many bytes of them."""


class Copier:
    """Copies a foreign topic into the inputs that this process owns.

    Args:
        writers: one for each input.
        catch_up: shared by all topics of the process.
    """

    def __init__(
        self,
        plan: IngressPlan,
        topic: ForeignTopic,
        decoder: TopicDecoder,
        writers: Sequence[InputWriter],
        counts: IngressCounts,
        catch_up: BacklogFronts,
    ) -> None:
        spec = plan.spec
        self.missing: tuple[int, ...] = ()
        """Partitions whose ends the broker did not tell when it was last asked."""
        self._unreadable: tuple[int, ...] = ()
        """Those of them that were last logged."""
        self.more = False
        """Something can be copied at once."""
        self._plan = plan
        self._topic = topic
        self._decoder = decoder
        self._writers = writers
        self._counts = counts
        self._fronts = TopicFronts(catch_up, plan.targets[0].feed)
        self._rule = Watermarks(spec.lateness_us, spec.boundary == "data", spec.expect_us)
        self._buckets = plan.targets[0].buckets
        self._ahead_us = plan.targets[0].ahead_max_us
        self._future_us = 0
        self._due_us: int | None = None
        self._held = False
        self._mute = False
        self._given_up = GivenUp(plan.name)
        self._settings = SourceSettings(spec.expect_us)
        self._end_us: int | None = None
        """When this owner learned that the source is to end; None: it is not."""
        self._starts: dict[int, PartitionStart] = {}
        """Of partitions that begin, and are not copied before all logs tell."""
        self._waits: Mapping[int, str] = {}
        """Partitions whose next record cannot be decoded yet, and why."""

    # Positions --------------------------------------------------------------------------------------------------------

    def begin(self, offsets: Mapping[int, int], now_us: int) -> None:
        """Copy these partitions, each from where some input that it feeds has not got further."""
        for p, offset in sorted(offsets.items()):
            self._topic.open(p, offset, now_us, self._writers[self._plan.refuser(p)].topic_id)
            self._rule.open(p, offset)
        self._feed(offsets)

    def _adopt(self, topic_id: str, now_us: int) -> None:
        """Name the topic in which offsets count from now on. Those of another one are void, all in one record: who
        takes over must not take them for offsets of this one."""
        for i, writer in enumerate(self._writers):
            if writer.topic_id in ("", topic_id) or writer.ended:
                writer.topic_id = topic_id
                continue
            if writer.collecting:
                writer.flush(writer.boundary, now_us)
            writer.topic_id = topic_id
            writer.at |= {p: NOT_BEGUN for p, at in writer.at.items() if at and self._plan.refuser(p) == i}

    def _grow(self, new: Sequence[int], now_us: int) -> None:
        """Copy partitions that the topic did not have before, from their beginning."""
        for p in new:
            self._start(p, now_us)
            self._topic.open(p, 0, now_us)
            self._rule.open(p, 0)
        log.warning(
            f"{self._plan.name} has partitions that were not there before: they are copied from their beginning, by "
            "the inputs that exist",
            partitions=new,
        )
        self._feed(self._topic.queues)

    def _start(self, partition: int, now_us: int) -> None:
        """A partition is copied from its beginning. An only input tells that with its first row, several do before."""
        last, fed = self._writers[self._plan.refuser(partition)], self._plan.fed_by(partition)
        if len(fed) == 1:
            last.at[partition] = 0
            return
        others = [self._writers[i] for i in fed if self._writers[i] is not last]
        self._starts[partition] = PartitionStart(partition, last, others, now_us)

    def _feed(self, partitions: Iterable[int]) -> None:
        for i, writer in enumerate(self._writers):
            self._rule.feed(i, self._plan.feeders(i, partitions), writer.boundary)
            if i == self._plan.rest and not writer.spoken:
                self._rule.unspoken(i)

    # A turn -----------------------------------------------------------------------------------------------------------

    @property
    def given_up(self) -> frozenset[int]:
        """The partitions that no input waits for."""
        return self._given_up.partitions

    @property
    def abandoned(self) -> bool:
        """Whether all partitions are given up, so that nothing need be learned of the topic."""
        return self._given_up.all_of(self._topic.queues)

    @property
    def waits_for_logs(self) -> bool:
        """Whether something may go on as soon as what was written last comes back from the inputs' logs: a backlog that
        is copied in step, or a partition that begins."""
        return self._held or bool(self._starts)

    def turn(
        self, now_us: int, latest_us: int, new_ends: bool, silent: bool, full: bool, settings: SourceSettings
    ) -> list[NewRecord]:
        """Copy what has come, and return the records to append.

        Args:
            latest_us: the time by the clock that is furthest, of this machine's and the log's: what is in the future
                of one of them may be in the other's past (B60).
            new_ends: the topic's ends have been told since the last turn.
            silent: another is to take over: write nothing.
            full: too much is in flight: write nothing, no boundaries either.
        """
        topic = self._topic
        self._future_us = latest_us + self._ahead_us
        self._obey(settings, now_us)
        if new := [p for p in range(topic.partitions or 0) if p not in topic.queues]:
            self._grow(new, now_us)
        if topic.counted_us is not None:
            self._rule.counted(topic.counted_us)
            self._given_up.counted(topic.queues, topic.partitions or 0, topic.counted_us)
        self._rule.give_up(self.given_up)
        if self.abandoned:
            self._rule.counted(now_us)
        if new_ends:
            self._told()
        self._ask(now_us)
        self.more, self._mute = False, silent or full
        if silent:
            self._fronts.hold_up_nobody(topic.queues)
            return []
        if full:
            self._fronts.hold_up_nobody(p for p, queue in topic.queues.items() if now_us - queue.moved_us >= STALLED_US)
            return []
        if topic.topic_id:
            self._adopt(topic.topic_id, now_us)
        self._starts = {p: start for p, start in self._starts.items() if not start.turn(now_us)}
        topic.gather(ARRIVE_US if self._plan.spec.boundary == "clock" else GATHERED_US)
        polled = topic.ripe
        if polled:
            topic.poll(now_us)
        if polled or new_ends or self._goes_on:
            self._copy(now_us)
        for i, writer in enumerate(self._writers):
            self._flush(i, writer, now_us)
        return [record for writer in self._writers for record in writer.drain()]

    @property
    def _goes_on(self) -> bool:
        """Whether there may be something to copy although nothing has come."""
        return bool(self._starts or self._held or self._waits) or any(not q.empty for q in self._topic.queues.values())

    def close(self) -> None:
        """Copy nothing more."""
        self._fronts.hold_up_nobody(self._topic.queues)
        self._topic.stop()

    def next_wakeup(self, now_us: int) -> int:
        """When the next turn is due (µs) if nothing arrives before."""
        due = [self._topic.next_wakeup]
        if not self._mute:
            quiet = [(writer, GATHER_US if writer.collecting else IDLE_US) for writer in self._writers]
            due += [writer.sent_us + us for writer, us in quiet if not writer.ended]
        if self._due_us is not None and not self._topic.asking:
            due.append(self._due_us)
        if self._waits and not self._mute:
            due.append(now_us + WAITS_US)
        if self._held and not self._mute:
            due.append(now_us + HELD_US)
        return min(due)

    def _told(self) -> None:
        asked = self._topic.ends_asked_us
        assert asked is not None
        for p, told in self._topic.ends.items():
            if told.written is not None and p in self._topic.queues:
                self._rule.told(p, asked, told.written)
        missing = tuple(p for p in self._topic.queues if self._told_of(p) is None and p not in self.given_up)
        self.missing = missing
        unreadable = tuple(p for p in missing if p not in self._topic.doubted)
        if unreadable and unreadable != self._unreadable:
            log.warning(f"{self._plan.name}: partitions cannot be read: their inputs wait", partitions=unreadable)
        elif self._unreadable and not missing:
            log.info(f"{self._plan.name}: all partitions can be read again")
        self._unreadable = unreadable or (self._unreadable if missing else ())

    def _obey(self, settings: SourceSettings, now_us: int) -> None:
        """Do from now on what users have set. Where an input has ended, an owner before this one did."""
        if settings != self._settings:
            log.warning(f"{self._plan.name}: obeys what users have set", settings=str(settings))
            self._settings, self._given_up.skipped = settings, settings.skipped
            self._rule.expect(settings.expect_us)
        if self._end_us is None and (settings.ending or any(writer.ended for writer in self._writers)):
            self._end_us = now_us

    def _told_of(self, partition: int) -> int | None:
        told = self._topic.ends.get(partition)
        return None if told is None else told.written

    def _ask(self, now_us: int) -> None:
        """Ask for the ends when the clock has passed a bucket's end and the lateness."""
        if self._topic.settled:
            self._due_us = None
        if self._topic.asking or (self._due_us is not None and now_us < self._due_us):
            return
        lag, width = self._plan.spec.lateness_us, self._buckets.width_us
        bucket_end_us = ((now_us - lag) // width + 1) * width + lag
        self._due_us = min(bucket_end_us, now_us + SILENT_US // 2)  # wide buckets are no silence
        self._topic.ask_ends(now_us, self._due_us)

    # Copying ----------------------------------------------------------------------------------------------------------

    def _copy(self, now_us: int) -> None:
        """Copy records, those of the partition that is furthest behind first."""
        left, held = TURN_RECORDS, set[int]()
        queues = self._topic.queues
        for p, queue in queues.items():
            self._settle(p, queue, now_us)
        while True:
            ready = [(self._front(p, head), p) for p in queues if p not in held and (head := self._head(p, now_us))]
            enough = left <= 0 or sum(writer.waiting_bytes for writer in self._writers) >= TURN_BYTES
            if not ready or enough:
                break
            _, p = min(ready)
            done = self._copy_some(p, now_us)
            left -= done
            if done:
                self._settle(p, queues[p], now_us)
            else:
                held.add(p)
        self.more = self._topic.more or (enough and bool(ready))
        self._tell_waits({p: queue.waits_for for p, queue in queues.items() if queue.waits_for})
        self._held = bool(held)

    def _tell_waits(self, waits: Mapping[int, str]) -> None:
        """Say when partitions begin to wait for what decodes their records, and when none does any more."""
        if waits.keys() - self._waits.keys():
            log.warning(f"{self._plan.name}: records cannot be decoded yet: their inputs wait", partitions=dict(waits))
        elif self._waits and not waits:
            log.info(f"{self._plan.name}: all records can be decoded again")
        self._waits = waits

    def _settle(self, partition: int, queue: PartitionQueue, now_us: int) -> None:
        """Say how far a partition has been copied, and where it stands."""
        self._topic.pass_unseen(partition)
        self._rule.read_to(partition, queue.copied)
        head = self._head(partition, now_us)
        told, front = self._topic.ends.get(partition), None
        end = None if told is None else told.committed
        if head is not None:
            front = self._front(partition, head)
        elif queue.waits_for or now_us - queue.moved_us >= STALLED_US:
            pass  # it cannot go on, and that may be long
        elif end is None or end > queue.copied:
            front = self._rule.of_partition(partition)
        if partition in self.given_up:  # what it holds is late already
            self._fronts.hold_up_nobody([partition])
        else:
            self._fronts.note(partition, front)

    def _feeders(self, index: int) -> Iterator[int]:
        yield from self._plan.feeders(index, self._topic.queues)  # a live input need not know, so found when asked for

    def _head(self, partition: int, now_us: int) -> Decoded | None:
        queue = self._topic.queues[partition]
        while partition not in self._starts:
            if not isinstance(head := queue.head(self._decoder), Gap):
                return head
            self._pass(queue, head, now_us)  # which may begin the partition, so that all inputs must be told first
        return None

    def _front(self, partition: int, head: Decoded) -> int:
        return int(head.stimes[0]) if len(head.stimes) else self._rule.of_partition(partition)

    def _pass(self, queue: PartitionQueue, gap: Gap, now_us: int) -> None:
        """Go on behind records that nobody can read any more. A dead letter of each input names what it lost."""
        p, topic = queue.partition, self._plan.spec.topic
        if not gap.made_again:
            self._counts.lost += gap.to - gap.at
            for writer in (self._writers[i] for i in self._plan.fed_by(p)):
                first = max(gap.at, writer.at.get(p, 0))  # it may have got further than another input
                if first < gap.to:
                    why = f"lost: {topic}[{p}], offsets {first} to {gap.to - 1}: retention deleted them unread"
                    self._refuse(writer, p, gap.to, why, now_us)
                writer.at[p] = max(gap.to, writer.at.get(p, 0))
        else:
            self._counts.made_again += 1
            why = (
                f"made again: {topic}[{p}] {gap.made_again}, offset {gap.at} was next: the topic was deleted and "
                "created again, and is copied from its beginning"
            )
            self._refuse(self._writers[self._plan.refuser(p)], p, NOT_BEGUN, why, now_us)
            self._start(p, now_us)
        queue.passed(gap)
        self._rule.open(p, gap.to)

    def _refuse(self, writer: InputWriter, partition: int, after: int, reason: str, now_us: int) -> None:
        """A dead letter for what is not there any more. Copying goes on at `after`."""
        log.error(reason)
        if not writer.ended:
            self._counts.rejected += 1
            writer.add(InputPart.gap(partition, reason, after, self._decoder.schema), now_us)

    def _copy_some(self, partition: int, now_us: int) -> int:
        """Copy the first of a partition's records that may go now. Returns their number."""
        queue, head = self._topic.queues[partition], self._head(partition, now_us)
        assert head is not None
        limit = self._fronts.limit(partition)
        backlog = head.stimes < now_us - self._plan.spec.lateness_us - AHEAD_US
        inputs = self._plan.inputs_of(partition, head.rows)
        count = head.before(backlog & (head.stimes > limit))
        if not count:
            return 0
        new = self._new(partition, head, inputs)
        count = min(count, self._below_horizon(partition, head, inputs, new, now_us))
        queue.too_far = not count
        if queue.too_far:
            self._fronts.hold_up_nobody([partition])  # it waits for other partitions of its own, and that may be long
            return 0
        part, rest = head.cut(count) if count < len(head) else (head, None)
        self._send(partition, part, inputs[: len(part.at)], new[: len(part.at)], now_us)
        queue.done(part, rest)
        queue.moved_us = now_us
        return count

    def _below_horizon(self, partition: int, head: Decoded, inputs: Int64s, new: Bools, now_us: int) -> int:
        """How many records come before the first row that readers would refuse as in the future of its input's
        boundary. Such a row itself may move the boundary, which then goes ahead of it (B53)."""
        lateness = self._plan.spec.lateness_us
        for attempt in (0, 1):
            bounds = [w.boundary + lateness + self._ahead_us for w in self._writers]
            wrong = new & (head.stimes < self._future_us) & (head.stimes >= np.asarray(bounds, np.int64)[inputs])
            count = head.before(wrong)
            if count or attempt:
                break
            row = int(np.flatnonzero(wrong)[0])
            i = int(inputs[row])
            self._rule.saw(i, partition, int(head.stimes[row]))
            self._flush(i, self._writers[i], now_us)
        return count

    def _new(self, partition: int, part: Decoded, inputs: Int64s) -> Bools:
        """Which rows their inputs do not have. The others, read again for an input that has not got so far, say
        nothing: what was in the future when it was refused may be so no longer."""
        firsts = np.asarray([writer.at.get(partition, 0) for writer in self._writers], np.int64)
        if part.records[0].offset >= firsts.max():
            return np.ones(len(part.at), np.bool_)
        offsets = np.fromiter((record.offset for record in part.records), np.int64, len(part))
        return offsets[part.at] >= firsts[inputs]

    def _send(self, partition: int, part: Decoded, inputs: Int64s, new: Bools, now_us: int) -> None:
        fed, refuser = self._plan.fed_by(partition), self._plan.refuser(partition)
        last, given = part.records[-1].offset, list[InputWriter]()
        self._counts.heartbeats += len(part.pings_at)
        seen = new & (part.stimes < self._future_us)
        for i in fed:
            writer = self._writers[i]
            mine = None if len(fed) == 1 else np.flatnonzero(inputs == i)
            limits = InputLimits(writer.boundary, self._future_us, writer.at.get(partition, 0), self._decoder.misread)
            found = None if writer.ended else part_for(part, partition, mine, i == refuser, limits)
            if found is not None:
                self._counts.rows += found.rows.num_rows
                self._counts.rejected += len(found.refused)
                self._counts.late += sum(one.late_us > 0 for one in found.refused)
                if found.misread and not writer.misread:
                    log.warning(f"{self._plan.name}: stimes seem to be read wrong: {found.misread}", input=i)
                writer.add(found, now_us)
                given.append(writer)
            known = part.stimes[seen] if mine is None else part.stimes[seen & (inputs == i)]
            if len(known):
                writer.spoken = writer.spoken or i == self._plan.rest
                self._rule.saw(i, partition, int(known.max()))
                if found is not None:
                    self._rule.arrived(i, partition, int(found.offsets[-1]), now_us, int(known.max()))
            writer.at[partition] = max(writer.at.get(partition, 0), last + 1)
        self._fronts.copied(partition, self._front(partition, part), len(part.stimes), given)
        if len(part.pings_at):
            for i in set(self._plan.inputs_of(partition, part.pings).tolist()):
                self._writers[i].spoken = self._writers[i].spoken or i == self._plan.rest
                self._rule.arrived(i, partition, last, now_us)

    def _flush(self, index: int, writer: InputWriter, now_us: int) -> None:
        """Make the input's record, if it has rows, a boundary to promise, or has been silent."""
        if writer.ended:
            return
        sure = FOREVER if self._may_end(index) else self._rule.boundary(index)
        late = self._plan.spec.lateness_us
        live_us = now_us - late - 2 * AHEAD_US
        known = self._fronts.boundary(self._feeders(index), sure, writer.boundary, live_us, late)
        self._held = self._held or known < sure
        if NEVER < known < FOREVER:
            known = self._buckets.start(self._buckets.closed_by(known))
        boundary = max(writer.boundary, known)
        few = writer.waiting_rows < GATHER_ROWS
        gathers = few and boundary >= live_us and not self.more  # what catches up is to be seen in step
        wait_us = IDLE_US if not writer.collecting else GATHER_US if gathers else 0
        if boundary > writer.boundary or now_us - writer.sent_us >= wait_us:
            writer.flush(boundary, now_us)

    def _may_end(self, index: int) -> bool:
        """Whether the source is to end, and all that its topic held for this input then has been copied (B56)."""
        if self._end_us is None or not self._rule.read_since(index, self._end_us):
            return False
        return not any(index in self._plan.fed_by(p) for p in self._starts)
