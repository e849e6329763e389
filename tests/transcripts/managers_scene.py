"""Scenes in the toy world: pure managers, every oracle at every step, and a line for each effect."""

from __future__ import annotations

from borealis_py.protocol.roles import Role
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import (
    Append,
    CancelRedo,
    Effect,
    EmitEvent,
    ExitReplica,
    FenceWriter,
    Publish,
    SaveCheckpoint,
    SendHeartbeat,
    StartRedo,
    WriterEvent,
    WriterLost,
)
from borealis_py.query.units import parse_duration
from sunion.model import SourceRecord, StableBucket
from sunion.view import Change
from tests.protocol.toy import MS, Client, Replica, SourceLog, ToyWorld
from tests.sunion.lists import BUCKETS, OPS, W, batch, claim
from tests.transcripts.scene import OK, Scene, at_node, delays, timing_and_delays
from tests.transcripts.timeline import PLACES, Entry, Timeline, change_entry, record_entry, state_entry

LAG_US = 5 * MS
"""From a bucket's end to its boundary in the log."""
SECONDS = 60
QUIET = range(12, 15)
"""Buckets in which no source sends a row."""
NEVER = 2**62
STATES = {state.name: state.value for state in ReplicaState}


def steady(index: int) -> SourceLog:
    """A row in the middle of each bucket, a boundary at its end."""
    log, seq = SourceLog([claim(0)], [0]), 0
    for bucket in range(SECONDS * 1_000_000 // W):
        start = BUCKETS.start(bucket)
        if bucket not in QUIET:
            _append(log, batch(len(log.records), seq, [(start + W // 2, 2 + index)]), start + W // 2)
            seq += 1
        _append(log, batch(len(log.records), seq, boundary=start + W), start + W + LAG_US)
    return log


def _append(log: SourceLog, record: SourceRecord, at_us: int) -> None:
    log.records.append(record)
    log.at.append(at_us)


class RecordedReplica(Replica):
    """A replica that records its effects in the timeline."""

    world: RecordedWorld
    asking = False

    def carry_out(self, effect: Effect) -> None:
        self._tell(effect)
        super().carry_out(effect)

    def _written(self, what: FenceWriter | Publish) -> WriterEvent:
        event = super()._written(what)
        if isinstance(event, WriterLost):
            why = "fenced by another writer" if event.fenced else "outcome unknown"
            self.world.tell(self.entry("commit fails", why))
        return event

    def _tell(self, effect: Effect) -> None:
        tell = self.world.tell
        match effect:
            case Append(_, record):
                tell(record_entry(self.world.now, f"r{self.index}", record, OPS.count))
            case EmitEvent(event, detail, done):
                self._tell_event(event, detail, done)
            case SendHeartbeat(heartbeat) if heartbeat.asking != self.asking:
                self.asking = heartbeat.asking
                tell(self.entry("asks" if self.asking else "asks no more"))
            case StartRedo(job, place):
                where = PLACES[place.name.lower()] if place.name != "LOG" else "the log, inline"
                tell(self.entry("redo starts", where, job.first, job.end, job.rows))
            case CancelRedo():
                tell(self.entry("redo cancelled"))
            case FenceWriter():
                tell(self.entry("fences the writer"))
            case SaveCheckpoint(bucket):
                tell(self.entry(f"checkpoint at {bucket}"))
            case ExitReplica(reason):
                tell(self.entry("exits", reason))

    def _tell_event(self, event: str, detail: str, done: tuple[int, int, int, str, float] | None) -> None:
        tell = self.world.tell
        if event in STATES:
            tell(state_entry(self.world.now, f"r{self.index}", STATES[event], detail))
        elif done is not None:
            first, end, rows, place, _ = done
            tell(self.entry("redo done", PLACES[place], first, end, rows))
        elif event == "TOOK_OVER":
            tell(self.entry("publishes", f"from bucket {self.manager.publishing.frontier}"))
        elif event not in ("READY", "FIRST_TENTATIVE"):
            tell(self.entry(event, detail))

    def entry(self, what: str, detail: str = "", first: int = -1, end: int = -1, rows: int = 0) -> Entry:
        return Entry(self.world.now, f"r{self.index}", what, detail, first, end, rows)


class RecordedClient(Client):
    """A subscriber that records its changes in the timeline."""

    world: RecordedWorld

    def _take(self, change: Change) -> None:
        self.world.tell(change_entry(self.world.now, "client", change, OPS.count))
        super()._take(change)


class RecordedWorld(ToyWorld):
    """The toy world with a timeline of its replicas, its client, and its corrected stream."""

    def tell(self, entry: Entry) -> None:
        self.timeline.add(entry)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.timeline, self.client = Timeline(), RecordedClient(self)
        self._told = (0, 0)

    def make_replica(self, index: int, inc: int, checkpoint: SaveCheckpoint | None, role: Role) -> Replica:
        replica = RecordedReplica(self, index, inc, checkpoint, role)
        self.tell(replica.entry(ReplicaState.RECOVERING.value, f"inc {inc}, from bucket {replica.manager.f_s}"))
        return replica

    def check(self) -> None:
        super().check()
        done, rows = self._told
        progress, outputs = self.corrected.progress, self.corrected.rows
        if len(progress) == done:
            return
        first = progress[done - 1] if done else self.origin
        count = sum(len(output.rows or ()) for _, output in outputs[rows:])
        writer, commits = self.corrected.owner, len(progress) - done
        self._told = (len(progress), len(outputs))
        by = f"by r{writer[0]}" if isinstance(writer, tuple) else ""
        self.tell(Entry(self.now, "corrected", "published", by, first, progress[-1], count, commits=commits))


class ManagersScene(Scene):
    """Replicas of one node, without I/O.

        managers sources=2 replicas=1 threshold=1s failure=process stabilization=process show=r,corrected,client

    Further arguments are fields of `Timing`. `show`: which actors to print.
    """

    def __init__(self, *, sources: str = "2", replicas: str = "1", show: str = "r,corrected", **settings: str) -> None:
        super().__init__()
        timing, chosen = timing_and_delays(settings)
        self._delays = chosen
        self.world = RecordedWorld([steady(i) for i in range(int(sources))], timing, at_node(chosen, timing))
        self.world.timeline = self.timeline
        self.timeline.shown = tuple(show.split(","))
        self._lost: dict[str, list[int]] = {}
        self._paused: dict[str, Replica] = {}
        for index in range(int(replicas)):
            self.world.start(index)

    def do_run(self, until: str) -> str:
        """Let every replica take turns, 20 ms apart; every oracle looks after each step."""
        self.world.run(parse_duration(until))
        return self.timeline.take()

    def do_lose(self, source: str) -> str:
        """Cut its publisher off from the log."""
        log = self._source(source)
        self._lost[source] = list(log.at)
        log.at[:] = [at if at <= self.world.now else NEVER for at in log.at]
        return OK

    def do_return(self, source: str) -> str:
        """Reconnect its publisher, which then sends all that has waited at once."""
        log = self._source(source)
        due = zip(self._lost.pop(source), log.at, strict=True)
        log.at[:] = [max(at, self.world.now) if away == NEVER else at for at, away in due]
        return OK

    def do_redo(self, jobs: str) -> str:
        """Set what happens to redo jobs: hold (no answer), answer, or fail."""
        for replica in self.world.replicas.values():
            replica.redo = jobs
            replica.work()
        return OK

    def do_writer(self, replica: str, transactions: str) -> str:
        """Set what happens to its transactions: hold (they do not leave its process) or answer."""
        found = self._replica(replica)
        found.writer = transactions
        found.write()
        return OK

    def do_pause(self, replica: str) -> str:
        """Stop its process, which does not notice."""
        self._paused[replica] = self.world.replicas.pop(int(replica.removeprefix("r")))
        return OK

    def do_resume(self, replica: str) -> str:
        """Let it go on where it stopped."""
        self.world.replicas[int(replica.removeprefix("r"))] = self._paused.pop(replica)
        return OK

    def do_set(self, **settings: str) -> str:
        """Change the threshold or policies of every replica."""
        self._delays = delays(self._delays, **settings)
        self.world.delays = at_node(self._delays, self.world.timing)
        for replica in self.world.replicas.values():
            replica.delays = self.world.delays
        return OK

    def do_frontiers(self) -> str:
        """Print state and frontiers of each replica, and below which bucket its input is complete."""
        managers = [(k, replica.manager) for k, replica in sorted(self.world.replicas.items())]
        return "\n".join(
            f"r{k}  {m.state.value}  F_s {m.f_s}  F_l {m.f_l}  complete below {m.complete}" for k, m in managers
        )

    def do_compare(self) -> str:
        """Compare the corrected stream and each replica's stable buckets with a run without failures."""
        world = self.world
        end = world.corrected.progress[-1] if world.corrected.progress else 0
        rows = sum(len(output.rows or ()) for _, output in world.corrected.rows)
        same = world.corrected.rows == world.between(0, end)
        lines = [f"corrected  0..{end - 1}  {rows} rows  {_verdict(same)}"]
        for index, topic in sorted(world.topics.items()):
            stable = {r.bucket: r.output for r in topic if isinstance(r, StableBucket)}
            end, rows = world.stable_end(index), sum(len(output.rows or ()) for output in stable.values())
            same = sorted(stable.items()) == world.between(0, end)
            lines.append(f"r{index} stable  0..{end - 1}  {rows} rows  {_verdict(same)}")
        return "\n".join(lines)

    def _replica(self, name: str) -> Replica:
        return self._paused[name] if name in self._paused else self.world.replicas[int(name.removeprefix("r"))]

    def _source(self, name: str) -> SourceLog:
        return self.world.sources[int(name.removeprefix("s"))]


def _verdict(same: bool) -> str:
    return "as without failures" if same else "NOT as without failures"
