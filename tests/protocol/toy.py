"""A toy world around `Manager`: replicas, source logs, a control log, topics, a corrected stream, and the oracles.

Everything a driver does is done here in the simplest way that keeps the log's promises: appends land in order after a
while, records of one log are read in order, a transaction is all or nothing and fenced by the next take-over. What a
test wants to go wrong it says by flags (`cut`, `deaf`, `acks`, `redo`, `writer`). Times are microseconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random

from borealis_py.protocol.incarnation import Heartbeat, Identity, StartPoint
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoResult
from borealis_py.protocol.roles import Role
from borealis_py.protocol.settings import NodeDelays, Timing
from borealis_py.protocol.states import ReplicaState, derive
from borealis_py.protocol.stream_view import StreamView
from borealis_py.protocol.turn import (
    AbandonWriter,
    Append,
    AskEnds,
    CancelRedo,
    Effect,
    EmitEvent,
    ExitReplica,
    FenceWriter,
    Publish,
    SaveCheckpoint,
    SendHeartbeat,
    StartRedo,
    StepBack,
    Turn,
    WriterCommitted,
    WriterEvent,
    WriterLost,
    WriterReady,
)
from sunion.model import (
    Input,
    Kind,
    Output,
    Reject,
    SourceRecord,
    StableBucket,
    StableRange,
    StreamRecord,
    TentativeBucket,
)
from sunion.portion import end_of
from sunion.union import Mark, SUnion
from sunion.view import Change
from tests.sunion.lists import BUCKETS, FRAGMENT, OPS, W, batch, claim, truth
from tests.support.managers import toy_config

MS = 1000
TIMING = Timing(inline_us=6, redo_rows=20, slice_buckets=5, slice_rows=10, publish_buckets=4, checkpoint_us=500 * MS)
DELAYS = NodeDelays(1_000 * MS - TIMING.slack_us)
TURN = 20 * MS


class Broken(AssertionError):
    """An oracle does not hold."""


@dataclass
class SourceLog:
    """A whole source, written in advance: record i can be read from time `at[i]` on."""

    records: list[SourceRecord]
    at: list[int]

    def end(self, now: int) -> int:
        return bisect_right(self.at, now)


def source_log(seed: int, index: int, seconds: float, lag: int = 5 * MS) -> SourceLog:
    """Tuples of one publisher, with a dead letter, a late tuple and a duplicate here and there."""
    random = Random(f"{seed}/{index}")
    log = SourceLog([claim(0)], [0])
    seq = 0
    for bucket in range(int(seconds * 1_000_000) // W):
        start = BUCKETS.start(bucket)
        for n in range(random.choice([0, 1, 1, 2])):
            rows = [
                (start + random.randrange(W), random.choice([-13, 1, 2, 3, 5, 8])) for _ in range(random.choice([1, 2]))
            ]
            if random.random() < 0.05:
                rows.append((start - W, 99))
            first = seq if random.random() < 0.9 or not seq else seq - 1
            wrong = (Reject(f"s{index}", len(log.records), "malformed"),) if random.random() < 0.05 else ()
            log.records.append(batch(len(log.records), first, rows, rejects=wrong))
            log.at.append(start + (n + 1) * W // 4 + lag)
            seq = first + len(rows)
        log.records.append(batch(len(log.records), seq, boundary=BUCKETS.end(bucket)))
        log.at.append(BUCKETS.end(bucket) + lag)
    return log


def redo(job: RedoJob, logs: Sequence[Sequence[SourceRecord]], ahead_us: int) -> RedoDone:
    """What a task does: fold the ranges again and step."""
    union = SUnion([Input.source(f"s{i}") for i in range(len(logs))], job.first, BUCKETS, OPS, ahead_max_us=ahead_us)
    union.resume(job.first, [Mark(r.first, r.fold) for r in job.ranges])
    for r in job.ranges:
        for record in logs[r.index][r.first : r.end]:
            union.feed(r.index, record)
    if union.complete < job.end:
        raise Broken(f"job {job.id}: the ranges do not close [{job.first}, {job.end})")
    rows = sum(union.count(b) for b in union.busy(job.first, job.end))
    if rows != job.rows:
        raise Broken(f"job {job.id}: {rows} rows in the ranges, {job.rows} in the plan")
    state, outputs = FRAGMENT.step(job.state, job.first, job.end, union.ordered(job.first, job.end))
    return RedoDone(job.id, state, union.with_rejects(job.first, job.end, outputs), "spark", 0.0)


@dataclass
class Corrected:
    """The corrected stream with its progress. `owner`: who fenced last."""

    rows: list[tuple[int, Output]] = field(default_factory=list)
    progress: list[int] = field(default_factory=list)
    owner: object = None

    def commit(self, owner: object, outputs: dict[int, Output], end: int) -> bool:
        if owner != self.owner:
            return False
        self.rows += sorted(outputs.items())
        self.progress.append(end)
        return True


@dataclass
class ToyWorld:
    """Logs that outlive any replica."""

    sources: list[SourceLog]
    timing: Timing = TIMING
    delays: NodeDelays = DELAYS
    origin: int = 0
    now: int = 0
    control: list[tuple[int, Heartbeat]] = field(default_factory=list)
    topics: dict[int, list[StreamRecord]] = field(default_factory=dict)
    corrected: Corrected = field(default_factory=Corrected)
    replicas: dict[int, Replica] = field(default_factory=dict)
    checkpoints: dict[int, SaveCheckpoint] = field(default_factory=dict)
    peers: bool = False  # checkpoints of one replica can be read by the others
    role: Role = Role.ALWAYS_RUNS
    rebuild_buckets: int | None = None
    silent_until: dict[int, int] = field(default_factory=dict)
    incs: dict[int, int] = field(default_factory=dict)
    truth: dict[int, Output] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.truth:
            _, self.truth = truth([s.records for s in self.sources], self.origin)
        self.client = Client(self)
        self.zombies: list[Replica] = []
        self._busy = sorted(self.truth)
        self._corrected_checked = (self.origin, 0)
        self._topic_checked: dict[int, tuple[int, int]] = {}

    def start(self, index: int, role: Role | None = None) -> Replica:
        """A new incarnation, from the last checkpoint. `role`: None: as the world has it."""
        self.incs[index] = self.incs.get(index, 0) + 1
        self.topics.setdefault(index, [])
        found = [self.checkpoints[k] for k in self.checkpoints if k == index or self.role is not Role.ALWAYS_RUNS]
        furthest = max(found, key=lambda checkpoint: checkpoint.frontier, default=None)
        self.replicas[index] = self.make_replica(index, self.incs[index], furthest, role or self.role)
        return self.replicas[index]

    def make_replica(self, index: int, inc: int, checkpoint: SaveCheckpoint | None, role: Role) -> Replica:
        return Replica(self, index, inc, checkpoint, role)

    def move(self, index: int) -> Replica:
        """A new incarnation elsewhere, which catches up with the present one."""
        self.zombies.append(self.replicas[index])
        return self.start(index, Role.MOVES)

    def run(self, until: int, step: int = TURN) -> None:
        """Advance everybody to `until`, checking every oracle at every step."""
        while self.now < until:
            self.now = min(until, self.now + step)
            for replica in [*self.replicas.values(), *self.zombies]:
                replica.turns()
            for index, replica in list(self.replicas.items()):
                if replica.stepped_back:
                    self.start(index).like(replica)
            self.check()
            self.client.poll()

    # Oracles ----------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What must hold (A10): raises Broken."""
        for index in self.topics:
            self._check_topic(index)
        corrected = self.corrected
        end = corrected.progress[-1] if corrected.progress else self.origin
        first, rows = self._corrected_checked
        if corrected.rows[rows:] != self.between(first, end):
            raise Broken(f"the corrected stream is not the failure-free output before bucket {end}")
        self._corrected_checked = (end, len(corrected.rows))

    def between(self, first: int, end: int) -> list[tuple[int, Output]]:
        """The failure-free output of [first, end)."""
        found = self._busy[bisect_left(self._busy, first) : bisect_left(self._busy, end)]
        return [(b, self.truth[b]) for b in found]

    def _check_topic(self, index: int) -> None:
        topic = self.topics[index]
        seen, at = self._topic_checked.get(index, (0, self.origin))
        for record in topic[seen:]:
            if isinstance(record, StableBucket):
                first, end, said = record.bucket, record.bucket + 1, [(record.bucket, record.output)]
            elif isinstance(record, StableRange):
                first, end, said = record.first, record.end, []
            else:
                continue
            if first > at and self.role is not Role.ALWAYS_RUNS and self._elsewhere(index, at, first):
                at = first  # a hole in one topic lies in another's (B2)
            if first > at:
                raise Broken(f"a hole: bucket {first} is said stable after {at - 1}")
            if said != self.between(first, end):
                raise Broken(f"[{first}, {end}) is called stable and differs from a run without failures")
            at = max(at, end)
        self._topic_checked[index] = (len(topic), at)

    def _elsewhere(self, index: int, first: int, end: int) -> bool:
        held: set[int] = set()
        for other, topic in self.topics.items():
            for record in topic if other != index else ():
                if isinstance(record, StableBucket):
                    held.add(record.bucket)
                elif isinstance(record, StableRange):
                    held.update(range(record.first, record.end))
        return held.issuperset(range(first, end))

    def stable_end(self, index: int) -> int:
        """First bucket that replica's topic does not hold; where one speaks for all, that no topic holds."""
        for each in self.topics if self.role is not Role.ALWAYS_RUNS else (index,):
            self._check_topic(each)
        return max(self._topic_checked[k][1] for k in (self.topics if self.role is not Role.ALWAYS_RUNS else (index,)))

    def tentative(self, index: int) -> list[TentativeBucket]:
        return [r for r in self.topics[index] if isinstance(r, TentativeBucket)]


class Replica:
    """One incarnation and its driver. Flags:

    cut: inputs that cannot be read (they count as unreachable). deaf: the control log and progress are not read.
    acks: appends are acknowledged. redo: "answer", "fail", "hold". writer: "answer", "unknown", "lost", "hold".
    ends: a question for ends is answered. slow: records a step of an input, where that is bounded.
    """

    def __init__(self, world: ToyWorld, index: int, inc: int, checkpoint: SaveCheckpoint | None, role: Role) -> None:
        self.world, self.index, self.inc = world, index, inc
        self.cut: set[int] = set()
        self.slow: dict[int, int] = {}
        self.read_at = -1
        self.deaf, self.acks, self.ends = False, True, True
        self.redo, self.writer = "answer", "answer"
        start = StartPoint(world.origin, FRAGMENT.initial(), empty=True) if checkpoint is None else start_at(checkpoint)
        inputs = tuple(Input.source(f"s{i}") for i in range(len(world.sources)))
        self.uid = f"u{index}.{inc}"
        self.manager = Manager(
            toy_config(*inputs, timing=world.timing, origin=world.origin, rebuild_buckets=world.rebuild_buckets),
            identity=Identity(index, inc, self.uid),
            start=start,
            delays=world.delays,
            role=role,
        )
        self.position = [m.offset for m in checkpoint.marks] if checkpoint else [0] * len(inputs)
        self.heard, self.progress_read = 0, 0
        self.sent: deque[tuple[int, StreamRecord]] = deque()
        self.acked: int | None = None
        self.asked: int | None = None
        self.jobs: list[RedoJob] = []
        self.results: list[RedoResult] = []
        self.writes: list[FenceWriter | Publish] = []
        self.events: list[WriterEvent] = []
        self.delays: NodeDelays | None = None
        self.notes: list[EmitEvent] = []
        self.states: list[ReplicaState] = []
        self.dead = self.stepped_back = False

    def like(self, before: Replica) -> None:
        """Suffer what the incarnation before suffered."""
        self.cut, self.slow, self.deaf, self.acks, self.ends = (
            before.cut, before.slow, before.deaf, before.acks, before.ends
        )  # fmt: skip
        self.redo, self.writer = before.redo, before.writer

    # A turn -----------------------------------------------------------------------------------------------------------

    def turns(self) -> None:
        """As the loop does: turns until nothing is due before the next event or deadline."""
        for _ in range(200):
            if self.dead:
                return
            self.turn()
            held = self.cut | self.manager.throttled
            sources = self.world.sources
            unread = any(
                i not in held and i not in self.slow and self.position[i] < s.end(self.world.now)
                for i, s in enumerate(sources)
            )
            answers = self.answered(held) or unread
            if not answers and not self.events and not self.results and self.manager.next_wakeup() > self.world.now:
                return
        raise Broken(f"replica {self.index} spins: a turn is due at once, for ever")

    def answered(self, held: Set[int]) -> bool:
        """The ends were asked for and everything below them has been read."""
        if self.asked is None or not self.ends:
            return False
        sources = self.world.sources
        return all(i in held or self.position[i] >= s.end(self.asked) for i, s in enumerate(sources))

    def turn(self) -> None:
        effects = self.manager.handle(self.gather())
        for effect in effects:
            self.carry_out(effect)
        self.check()

    def gather(self) -> Turn:
        now, world = self.world.now, self.world
        inputs: dict[int, list[SourceRecord]] = {}
        held = self.cut | self.manager.throttled
        for i, source in enumerate(world.sources):
            limit = self.slow.get(i, 10**9) if now > self.read_at else 0 if i in self.slow else 10**9
            end = min(source.end(now), self.position[i] + limit)
            if i not in held and end > self.position[i]:
                inputs[i] = source.records[self.position[i] : end]
                self.position[i] = end
        self.read_at = now
        beats, progress = [], []
        if not self.deaf:
            beats, self.heard = world.control[self.heard :], len(world.control)
            progress, self.progress_read = world.corrected.progress[self.progress_read :], len(world.corrected.progress)
        if self.acks:
            while self.sent:
                self.acked, record = self.sent.popleft()
                world.topics[self.index].append(record)
        read_to, results, events, delays = None, self.results, self.events, self.delays
        if self.answered(held):
            read_to, self.asked = self.asked, None
        self.results, self.events, self.delays = [], [], None
        return Turn(
            now,
            beats,
            inputs,
            delays=delays,
            read_to=read_to,
            acked=self.acked,
            redo=results,
            progress=progress,
            writer=events,
            checkpoint_bucket=world.checkpoints[self.index].bucket
            if world.peers and self.index in world.checkpoints
            else None,
        )

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Append(token, record):
                self.sent.append((token, record))
            case SendHeartbeat(heartbeat):
                self.world.control.append((len(self.world.control), heartbeat))
            case AskEnds():
                self.asked = self.world.now
            case StartRedo(job):
                self.jobs.append(job)
                self.work()
            case CancelRedo():
                pass  # a hung job does not hear it
            case FenceWriter() | Publish():
                self.writes.append(effect)
                self.write()
            case AbandonWriter():
                self.writes.clear()
            case SaveCheckpoint():
                self._save(effect)
            case EmitEvent():
                self.notes.append(effect)
            case ExitReplica():
                self.dead = True
            case StepBack():
                self.dead = self.stepped_back = True

    def _save(self, checkpoint: SaveCheckpoint) -> None:
        if checkpoint.frontier > self.world.stable_end(self.index):
            raise Broken(f"the checkpoint at {checkpoint.bucket} is ahead of the own topic")
        self.world.checkpoints[self.index] = checkpoint

    def work(self) -> None:
        """Answer the jobs that wait, as `redo` says."""
        if self.redo == "hold":
            return
        for job in self.jobs:
            if self.redo == "fail":
                self.results.append(RedoFailed(job.id, "no worker"))
            elif job.peer is not None:
                self.results.append(self._adopted(job, job.peer))
            else:
                logs = [s.records for s in self.world.sources]
                self.results.append(redo(job, logs, self.world.timing.ahead_max_us))
        self.jobs.clear()

    def _adopted(self, job: RedoJob, peer: int) -> RedoResult:
        checkpoint = self.world.checkpoints[peer]
        if checkpoint.bucket != job.end:
            return RedoFailed(job.id, "there is a newer one")
        said = [r for r in self.world.topics[peer] if isinstance(r, StableBucket) and job.first <= r.bucket < job.end]
        return RedoDone(job.id, checkpoint.state, {r.bucket: r.output for r in reversed(said)}, "peer", 0.0)

    def work_now(self) -> None:
        """Answer the jobs that wait whatever `redo` says."""
        kept, self.redo = self.redo, "answer"
        self.work()
        self.redo = kept

    def write(self) -> None:
        """Let the writer's thread do what waits, as `writer` says."""
        if self.writer == "hold":
            return
        for what in self.writes:
            self.events.append(self._written(what))
        self.writes.clear()

    def _written(self, what: FenceWriter | Publish) -> WriterEvent:
        corrected, me = self.world.corrected, (self.index, self.inc, what.attempt)
        if isinstance(what, FenceWriter):
            if self.writer == "lost":
                return WriterLost(what.attempt, fenced=False)
            corrected.owner = me
            return WriterReady(what.attempt, corrected.progress[-1] if corrected.progress else None)
        if self.writer == "lost":
            return WriterLost(what.attempt, fenced=False)
        outputs, end = self._outputs(what)
        buckets, rows = len(outputs), sum(len(o.rows or ()) + len(o.rejects) for o in outputs.values())
        timing = self.world.timing
        if buckets > 1 and (buckets > timing.publish_buckets or rows > timing.publish_rows):
            raise Broken(f"{buckets} buckets with {rows} rows in one transaction")
        done = corrected.commit(me, outputs, end)
        if self.writer == "unknown" or not done:
            return WriterLost(what.attempt, fenced=not done)
        return WriterCommitted(what.attempt, end)

    def _outputs(self, what: Publish) -> tuple[dict[int, Output], int]:
        if what.outputs is not None:
            return dict(what.outputs), what.end
        found: dict[int, Output] = {}
        topics = self.world.topics
        for record in (record for k in sorted(topics, key=lambda k: k != self.index) for record in topics[k]):
            if isinstance(record, StableBucket) and what.first <= record.bucket < what.end:
                found.setdefault(record.bucket, record.output)
        end = end_of(sorted(found.items()), what.end, self.world.timing.publish_most, OPS)
        return {b: o for b, o in found.items() if b < end}, end

    # Oracles of one replica -------------------------------------------------------------------------------------------

    def check(self) -> None:
        m = self.manager
        if not m.f_s <= m.f_l:
            raise Broken(f"F_s {m.f_s} > F_l {m.f_l}")
        expected = derive(m.state is ReplicaState.RECOVERING, m.f_s < m.f_l, m.stagger.granted, m.speaking.runs)
        if m.state is not expected:
            raise Broken(f"state {m.state}, the frontiers say {expected}")
        if not self.states or self.states[-1] is not m.state:
            self.states.append(m.state)

    def overdue(self) -> int:
        """By how much the bucket at F_l is late, by the rule that it leaves D after its end at the latest."""
        if not self.manager.speaking.runs:
            self.world.silent_until[self.index] = self.world.now + 500 * MS
        if self.world.now < self.world.silent_until.get(self.index, 0):
            return 0  # it stands by, or has just taken over
        if self.manager.f_l < self.manager.output.stable:
            return 0  # it rebuilds its state from what was said before it started
        created = self.manager.intake.creation.at(self.manager.f_l)
        wait = self.manager.delays.wait_us
        return 0 if created is None else max(0, self.world.now - created - W - wait)


class Client:
    """A subscriber to the live view. Holds it to: stable in order and right, each bucket shown once, marks in pairs."""

    def __init__(self, world: ToyWorld) -> None:
        self.world = world
        self.cursors: dict[int, int] = {}
        self.reader: StreamView | None = None
        self.undone = False
        self.shown: set[int] = set()
        self.stable = world.origin

    def poll(self) -> None:
        world = self.world
        if self.reader is None:
            wait = world.delays.wait_us
            self.reader = StreamView("toy", max(world.topics) + 1, world.origin, BUCKETS, wait)
        records = []
        for k, topic in world.topics.items():
            records += [(k, record) for record in topic[self.cursors.get(k, 0) :]]
            self.cursors[k] = len(topic)
        for change in self.reader.read(world.now, records) + self.reader.show(world.now):
            self._take(change)

    def _take(self, change: Change) -> None:
        if change.kind is Kind.TENTATIVE:
            if change.bucket < self.stable or change.bucket in self.shown:
                raise Broken(f"bucket {change.bucket} is shown again")
            self.shown.add(change.bucket)
        elif change.kind is Kind.UNDO:
            if self.undone or not any(b >= change.bucket for b in self.shown):
                raise Broken(f"UNDO at {change.bucket} where there is nothing to undo")
            self.undone = True
        elif change.kind is Kind.REC_DONE:
            if not self.undone or self.shown:
                raise Broken(f"REC_DONE at {change.bucket} while tentative rows are in effect")
            self.undone = False
        else:
            self._take_stable(change)

    def _take_stable(self, change: Change) -> None:
        said = [(change.bucket, change.output)] if change.output != Output() else []
        if change.bucket != self.stable or said != self.world.between(change.bucket, change.end):
            raise Broken(f"the client is told [{change.bucket}, {change.end}) at {self.stable}, or falsely")
        if not self.undone and any(b < change.end for b in self.shown):
            raise Broken(f"bucket {change.bucket} corrects tentative rows without UNDO")
        self.stable = change.end
        self.shown = {b for b in self.shown if b >= self.stable}


def start_at(checkpoint: SaveCheckpoint) -> StartPoint:
    rebuilt = checkpoint.frontier > checkpoint.bucket
    own = checkpoint.frontier if rebuilt else None
    return StartPoint(checkpoint.bucket, checkpoint.state, checkpoint.marks, own, empty=rebuilt)


@lru_cache
def _prepared(seed: int, inputs: int, seconds: float) -> tuple[list[SourceLog], dict[int, Output]]:
    sources = [source_log(seed, i, seconds) for i in range(inputs)]
    return sources, truth([s.records for s in sources])[1]


def make_world(
    seed: int = 1,
    inputs: int = 2,
    seconds: float = 20.0,
    replicas: int = 1,
    timing: Timing = TIMING,
    role: Role = Role.ALWAYS_RUNS,
    rebuild_buckets: int | None = None,
    **delays: object,
) -> ToyWorld:
    """A world whose replicas have started. What a run without failures says is computed once, so no planted bug changes
    it."""
    sources, expected = _prepared(seed, inputs, seconds)
    copies = [SourceLog(list(s.records), list(s.at)) for s in sources]
    world = ToyWorld(
        copies, timing, replace(DELAYS, **delays), role=role, rebuild_buckets=rebuild_buckets, truth=expected
    )
    for index in range(replicas):
        world.start(index)
    return world
