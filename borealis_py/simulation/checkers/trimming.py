"""Judges trimming (R16) by the world itself: what lies on disks, what is published, what each log still shows.

It shares nothing with the rule: it knows no acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from borealis_py.client.tail import fold_at_end
from borealis_py.log import topics
from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from borealis_py.log.records import EnvelopeError, RangeHeader, StableHeader, unpack_stream
from borealis_py.log.source_tail import TailEntry, entry_of
from borealis_py.simulation.cluster.checkpoints import KEEP, File
from borealis_py.simulation.cluster.machines import ReplicaMachine, SourceMachine
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.log.broker import Partition
from borealis_py.simulation.reference_model import read_source
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from reconcile.audit import HIDES, AuditResult

OWN_TAIL = 32
"""Records of its own stream that a start reads."""
SOURCE_TAIL = 64
"""Records of a source that its publisher may have to read to resume."""
MAY_LACK = ("retention", "trim")
"""Faults whose worlds delete what is still needed, or by a rule of their own."""

MAY_HIDE = ("markers_lost", "bad_progress")
"""Faults by which a part of a transaction may be hidden for a while, or a node's progress displaced by garbage: until
all is well again an audit may find too much."""


class TrimmingOracle:
    """Called before each deletion of a world."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._entries: dict[Record, TailEntry | None] = {}
        """Records of sources, decoded: what is left of a source is looked at in each deletion."""

    def audited(self, result: AuditResult) -> None:
        """Called after each audit. Raises Violation: it could not start where the last one ended, found a difference
        where there can be none, or ends behind what is published."""
        world = self._world
        kinds = {fault.kind for fault in world.scenario.faults}
        if result.error is not None and HIDES in result.error:
            return  # no time passes in an audit here: it cannot wait
        if result.error is not None and kinds.isdisjoint(MAY_LACK):
            raise Violation("audit", result.error)
        if result.error is None and not result.clean and kinds.isdisjoint(MAY_HIDE):
            first = result.first or result.first_dead_letter
            raise Violation("audit", f"from bucket {result.origin} to {result.upto}: {first}", result.origin)
        if result.reached is not None and result.reached.bucket > world.progress(QUERY):
            said = f"it ends at bucket {result.reached.bucket}, and only {world.progress(QUERY)} is published"
            raise Violation("audit", said, result.reached.bucket)

    def before(self, feed: Feed, offset: int, node: str | None) -> None:
        """Raises Violation: a start, a publisher or a take-over may still need something below this offset."""
        if node is None:
            self._source(feed, offset)
        else:
            self._stream(feed, offset, node)

    def _stream(self, feed: Feed, offset: int, node: str) -> None:
        world = self._world
        partition = world.log.broker.partition(feed)
        if offset > len(partition.records) - OWN_TAIL:
            raise Violation("trimming", f"{feed.topic}: the next start of its replica finds no end to read")
        readers = [machine for machine in world.replicas if any(of.name == node for of in machine.spec.inputs)]
        starts = [(_first_read(world, machine), machine.label) for machine in (*readers, *world.of_node(node))]
        needed, who = min([*starts, (world.progress(node), f"the progress of {node}")])
        for record in partition.records[partition.start : offset]:
            if record is None:
                continue
            try:
                header, _ = unpack_stream(record.value)
            except EnvelopeError:
                continue
            last = header.bucket if isinstance(header, StableHeader) else -1
            last = header.end - 1 if isinstance(header, RangeHeader) else last
            if last >= needed and header.app_uid == world.wiring.app_uid:
                raise Violation("trimming", f"{feed.topic}: bucket {last} goes, and {who} may need {needed}", last)

    def _source(self, feed: Feed, offset: int) -> None:
        world = self._world
        source = next(source for source in world.sources if source.feed == feed)
        for machine in world.replicas:
            names = [of.name for of in machine.spec.inputs if not of.replicas]
            if source.name in names:
                files, at = _starts(world, machine), names.index(source.name)
                first = min((file.marks[at].offset for file in files), default=0)
                if first < offset:
                    said = f"{source.name}: all below offset {offset} goes, and {machine.label} may need {first}"
                    raise Violation("trimming", said)
        reads = offset if world.auditor is None else world.auditor.reads.get(source.name, 0)
        if reads < offset:
            raise Violation("trimming", f"{source.name}: all below offset {offset} goes, and an audit reads {reads}")
        partition = world.log.broker.partition(feed)
        found = map(self._entry, partition.read(offset, partition.stable_end))
        entries: list[TailEntry] = [entry for entry in found if entry is not None]
        if fold_at_end(entries, offset, world.wiring.target(source.index)) is None:
            said = f"{source.name}: what is left from offset {offset} on does not tell where to resume"
            raise Violation("trimming", said)

    def _entry(self, record: Record) -> TailEntry | None:
        if record not in self._entries:
            self._entries[record] = entry_of(record, Life(self._world.wiring.app_uid))
        return self._entries[record]


def _starts(world: SimulatedWorld, machine: ReplicaMachine) -> list[File]:
    """The checkpoints from which this replica may start: of its own bases, or where one runs for all of all of theirs,
    the furthest, as many as one replica keeps, those not lost. A start passes over what the log no longer covers: an
    older one is a zombie's, or of a standby that ran before."""
    idle = world.scenario.stands_by(machine.node)
    disks = list(world.wiring.disks[machine.node].values()) if idle else [machine.disk]
    starts, lost = [file for disk in disks for file in disk.starts], [file for disk in disks for file in disk.lost]
    furthest = sorted([*lost, *starts], key=lambda file: file.bucket)[-KEEP:]
    return [file for file in furthest if file not in lost]


def _first_read(world: SimulatedWorld, machine: ReplicaMachine) -> int:
    """The lowest bucket from which a start of this replica may read."""
    return min((file.bucket for file in _starts(world, machine)), default=world.origin)


def audits_go_on(world: SimulatedWorld) -> None:
    """Raises Violation: in a world that is well, an audit cannot be done, or does not find all as it must be."""
    if world.auditor is None:
        return
    result = world.auditor.once()
    if result is None:
        raise Violation("audit", "it cannot reach the log")
    if result.differences or result.dead_letter_differences:
        raise Violation("audit", f"all is well, and it finds {result.first or result.first_dead_letter}")


def view_begins_at_what_is_kept(world: SimulatedWorld, asked: int, begins: int) -> None:
    """Raises Violation: a live view was asked to begin at bucket `asked`, and begins at one that no replica's topic
    has, or at a later one although that was kept."""
    firsts = [_first_stable(world, topics.replica(world.wiring.app, QUERY, k)) for k in range(_replicas(world))]
    if all(first is not None and first > begins for first in firsts):
        raise Violation("late view", f"it begins at bucket {begins}, and topics at {firsts}", begins)
    if begins > max(asked, world.wiring.deleted.upto.get(QUERY, 0)):
        raise Violation("late view", f"it begins at bucket {begins}, and {asked} was asked for and kept", begins)


def _replicas(world: SimulatedWorld) -> int:
    return world.wiring.plans[QUERY].replicas


def _first_stable(world: SimulatedWorld, topic: str) -> int | None:
    """The first stable bucket of a topic that has been cut off; None: it has its beginning, or none is left."""
    partition = world.log.broker.partition(Feed(topic))
    for record in partition.records[partition.start :] if partition.start else ():
        with suppress(EnvelopeError):
            header = None if record is None else unpack_stream(record.value)[0]
            if isinstance(header, StableHeader | RangeHeader):
                return header.bucket if isinstance(header, StableHeader) else header.first
    return None


def nothing_lacked(world: SimulatedWorld) -> None:
    """Raises Violation: a replica did not find in the log what it needed, although only trimming has deleted any."""
    errors = world.wiring.retention_errors
    if errors and not any(fault.kind in MAY_LACK for fault in world.scenario.faults):
        raise Violation("retention", errors[0])


def bounded(world: SimulatedWorld, since_us: int) -> None:
    """Once all has been well for long enough, the logs hold what retention keeps, and little more.

    Args:
        since_us: so long ago everything was well: what was complete by then may be in no log any more.

    Raises:
        Violation: a replica's topic, or a source, still begins before that.
    """
    for log in _logs(world, since_us):
        if (why := log.too_long()) is not None:
            raise Violation("bounded", why)


def short_for_good(world: SimulatedWorld, since_us: int) -> bool:
    """Whether `bounded` holds, and would whatever is written from now on: waiting longer would show nothing more."""
    return all(log.settled(since_us) and log.too_long() is None for log in _logs(world, since_us))


@dataclass(frozen=True, slots=True)
class _Log:
    """One log that trimming keeps short.

    Attributes:
        stamp: what is older in it need not be there. tail: so many records are kept, however old.
        rows_from: returns the offset of the first record that is needed whatever its age; None: there is none.
    """

    partition: Partition
    stamp: int
    tail: int
    rows_from: Callable[[], int | None]

    def too_long(self) -> str | None:
        """Why it is longer than it need be; None: it is not."""
        partition = self.partition
        at = min(partition.find(self.stamp), len(partition.records) - self.tail)
        if partition.start >= at:
            return None
        rows_from = self.rows_from()
        at = at if rows_from is None else min(at, rows_from)
        if partition.start >= at:
            return None
        return f"{partition.feed.topic}[{partition.feed.partition}] begins at {partition.start}, and {at} would do"

    def settled(self, since_us: int) -> bool:
        """Whether its last records, which stay, are not among those that need not be there, or nobody writes it."""
        partition, written = self.partition, self.partition.appended_us
        idle = not written or written[-1] <= since_us
        return idle or partition.find(self.stamp) <= len(partition.records) - self.tail


def _logs(world: SimulatedWorld, since_us: int) -> Iterator[_Log]:
    """The logs that must have become short, if everything was well `since_us`."""
    retain, wiring, broker = world.scenario.retain, world.wiring, world.log.broker
    if retain is None:
        return
    bucket = wiring.buckets.of(since_us - retain.lag_us)
    stamp = wiring.buckets.timestamp_ms(bucket)
    for plan in world.scenario.nodes:
        for k in range(plan.replicas):
            for feed in topics.own_feeds(wiring.app, plan.name, k, plan.exchange):
                yield _Log(broker.partition(feed), stamp, OWN_TAIL, lambda: None)
    for source in world.sources:
        needed = partial(_first_needed, world, source, bucket, since_us)
        yield _Log(broker.partition(source.feed), stamp, SOURCE_TAIL, needed)


def _first_needed(world: SimulatedWorld, source: SourceMachine, bucket: int, since_us: int) -> int | None:
    """The offset of the first record that the next audit reads, as the log had been told by `since_us`, or that has a
    row of this bucket or a later one; None: there is none.

    A row may lie before its time, up to a minute, and is kept until that has come.
    """
    if world.auditor is not None:
        return world.auditor.said_by(since_us).get(source.name, 0)
    s = world.scenario
    log, how = world.log.committed(source.feed), (world.origin, s.timing.ahead_max_us, world.wiring.app_uid)
    truth = read_source(source.name, log, s.width_us, *how)
    return min((offset for of, offset in truth.begins.items() if of >= bucket), default=None)
