"""A running app of real processes, to break: replicas, publishers, subscribers, each a process that can be killed.

Processes are `borealis_py.runtime.process`, as `borealis up` and `borealis replica` start them. Everything waits for
conditions that the status topic or a subscriber's own file shows.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName, first_arguments
from borealis_py.app.state import AppState
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed, LogError
from borealis_py.log.messages import Status
from borealis_py.protocol.settings import Timing
from borealis_py.verify import Verdict, judge, read_evidence
from borealis_py.verify.envelope import Raw
from borealis_py.verify.evidence import Blackout
from borealis_py.verify.kafka_reader import TopicReader
from borealis_py.verify.report import show
from sunion.bucket import Buckets
from tests.harness import feeders
from tests.harness.app import drill_app
from tests.harness.feeders import Feeding
from tests.harness.foreign import Foreign
from tests.harness.launching import cut_off, described
from tests.harness.network import BUCKET_US, QUERY, SOURCES
from tests.harness.plan import INDEX, Member, Plan
from tests.harness.poison import KERNEL, PoisonPlan
from tests.harness.processes import PROCESS, Process, spawn
from tests.harness.statuses import Statuses
from tests.harness.trimming import delete_before
from tests.harness.waiting import PATIENCE_S, until, wall_us
from tests.harness.watcher import Watcher

LOST_US = 600_000_000
QUIET_US = 2_000_000


@dataclass
class Cluster:
    """The app, its processes, and what they say. Made by `cluster`.

    `addresses`: where processes, by name, find the broker if not at `bootstrap`. `bounded`: X is judged.
    """

    bootstrap: str
    plan: Plan
    directory: Path
    addresses: Mapping[str, str] = field(default_factory=dict)
    bounded: bool = True
    log: KafkaLog = field(init=False)
    state: AppState = field(init=False)
    poison: PoisonPlan = field(init=False)
    foreign: Foreign = field(init=False)
    replicas: dict[Member, Process] = field(default_factory=dict)
    feeders: dict[str, Process] = field(default_factory=dict)
    watchers: list[Watcher] = field(default_factory=list)
    statuses: Statuses = field(init=False)
    blackouts: list[Blackout] = field(default_factory=list)
    quiet_us: tuple[int, int] = (0, 0)
    start_us: int = 0
    all_started: list[Process] = field(default_factory=list)
    kept: dict[str, list[Raw]] = field(default_factory=dict)
    waits: list[tuple[float, str]] = field(default_factory=list)
    """Seconds that the drill waited, and for what."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.log = KafkaLog(self.bootstrap)
        threshold = f"{plan.threshold_us // 1000}ms"
        self.foreign = Foreign(self)
        if plan.foreign:
            self.foreign.create()
        shape = (plan.replicas, plan.partitions, plan.sources, plan.retain, plan.recovery)
        app = drill_app(plan.name, plan.chain, threshold, *shape)
        self.state = described(self.log, app, Timing(**dict(plan.timing)))
        self.statuses = Statuses(self.log, plan.name, wall_us() // 1000)
        self.poison = PoisonPlan(self.directory / "poison.jsonl")

    # Processes --------------------------------------------------------------------------------------------------------

    def start(self, *members: Member) -> None:
        """Start replicas (again): the processes that run them. Does not wait."""
        for member in dict.fromkeys(map(self.plan.process, members)):
            self.replicas[member] = self._replica(str(member), member, self.directory, self.plan.host)

    def _replica(self, name: str, member: Member, data_dir: Path, host: str, module: str = PROCESS) -> Process:
        log = KafkaLog(self.addresses.get(str(member), self.bootstrap))
        spec = ProcessSpec.unconfigured(log, data_dir, host)
        apart = self.plan.chain and member.node != INDEX
        process = ProcessName(member.k, member.node if apart else "")
        arguments = [*process.arguments(self.plan.name), *first_arguments(take_over=True)]
        return self.spawn(name, module, arguments, spec.environment())

    def feed(self, sources: Sequence[str], take_over: bool = False) -> Process:
        """Start a publisher of these sources."""
        self.start_us = self.start_us or wall_us()
        name = f"feeder-{''.join(sources)}"
        arguments = self.feeding.publish(self.addresses.get(name, self.bootstrap), sources, take_over)
        process = self.spawn(name, feeders.MODULE, arguments)
        self.feeders.update(dict.fromkeys(sources, process))
        return process

    @property
    def feeding(self) -> Feeding:
        """What its feeders share, once the first one has begun."""
        return Feeding(self.plan.name, self.start_us, self.acks, self.poison.file, self.plan.period_us)

    @property
    def acks(self) -> Path:
        return self.directory / "acks.jsonl"

    def watch(self) -> Watcher:
        """Start a subscriber."""
        history = self.directory / f"seen-{len(self.watchers)}.jsonl"
        arguments = ["--bootstrap", self.bootstrap, "--app", self.plan.name, "--query", QUERY, "--out", str(history)]
        process = self.spawn(f"watcher-{len(self.watchers)}", "tests.harness.watcher", arguments)
        self.watchers.append(Watcher(process, history, len(self.plan.results)))
        return self.watchers[-1]

    def spawn(
        self, name: str, module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Process:
        """Start a process; its output goes into a file of its own."""
        output = self.directory / f"{name}-{len(self.all_started)}.log"
        self.all_started.append(spawn(module, arguments, output, environment))
        return self.all_started[-1]

    # What they say ----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take in new statuses and what subscribers saw; a process that ended by itself fails the drill."""
        self.hear()
        for watcher in self.watchers:
            watcher.look()
        for process in self.all_started:
            if not process.may_end and process.popen.poll() is not None:
                self.ended(process)

    def hear(self) -> None:
        """Take in new statuses."""
        with suppress(LogError):  # a broker that just came back does not lead all of its topics yet
            self.statuses.poll()

    def ended(self, process: Process) -> None:
        """What to do about a process that ended by itself."""
        raise AssertionError(f"{process.output.name} ended by itself, code {process.popen.returncode}")

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait for a condition, looking again and again."""

        def met() -> bool:
            self.look()
            return condition()

        begin = time.monotonic()
        try:
            until(met, what, timeout_s)
        except AssertionError:
            self.tell()
            raise
        self.waits.append((time.monotonic() - begin, what))

    def said(self, member: Member, since_us: int = 0) -> list[Status]:
        """Its statuses, in order."""
        return self.statuses.of(member.node, member.k, since_us)

    def newest(self, member: Member) -> Status | None:
        """What it said last."""
        return self.statuses.newest(member.node, member.k)

    def events(self, member: Member, since_us: int = 0) -> list[str]:
        """Names of what happened to it, in order."""
        return self.statuses.events(member.node, member.k, since_us)

    def until_event(self, member: Member, event: str, since_us: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until something happens to it."""
        self.until(lambda: event in self.events(member, since_us), f"{member} says {event}", timeout_s)

    def until_state(
        self, member: Member, states: Collection[str], since_us: int, timeout_s: float = PATIENCE_S
    ) -> None:
        """Wait until it is in one of these states."""

        def there() -> bool:
            status = self.newest(member)
            return status is not None and status.at_wall_us >= since_us and status.state in states

        self.until(there, f"{member} is {' or '.join(states)}", timeout_s)

    def until_well(self, *members: Member, timeout_s: float = PATIENCE_S) -> None:
        """Wait until these (default: all) are STABLE or stand by, and all of today so far is published and was seen."""
        now = wall_us()
        for member in members or self.plan.members:
            settled = ("STABLE", "STANDBY") if self.plan.stands_by(member.node) else ("STABLE",)
            self.until_state(member, settled, now, timeout_s)
        bucket = now // BUCKET_US
        self.until(lambda: self.watchers[-1].stable_until > bucket, f"{bucket} is seen as stable", timeout_s)
        self.until(lambda: self.watchers[-1].corrected_until > bucket, f"{bucket} is published", timeout_s)

    def checkpoint(self, member: Member) -> int:
        """The bucket of its newest checkpoint, as its status says."""
        newest = self.newest(member)
        return 0 if newest is None else newest.checkpoint_bucket

    def publishing(self, query: str = QUERY) -> Member:
        """The replica that writes the corrected stream, of one of its partitions where there are several."""
        found: list[Member] = []

        def one() -> bool:
            members = [m for m in self.plan.members if m.node == query]
            newest = [(m, self.newest(m)) for m in members]
            found[:] = [m for m, s in newest if s is not None and s.publishing]
            return len(found) == 1

        self.until(one, "one replica publishes")
        return found[0]

    def lose(self, source: str) -> int:
        """Cut a source off as `borealis fail source` does, until `heal`. Returns when, wall microseconds."""
        begin = wall_us()
        cut_off(self.log, self.plan.name, [source], begin + LOST_US)
        return begin

    def heal(self, source: str) -> int:
        """Let replicas read the source again. Returns when, wall microseconds."""
        end = wall_us()
        cut_off(self.log, self.plan.name, [source], end)
        return end

    def until_behind(self, member: Member, buckets: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until so many of its buckets ran tentatively and are to be corrected."""

        def there() -> bool:
            status = self.newest(member)
            return status is not None and status.state == "UPSTREAM_FAILURE" and status.f_l - status.f_s >= buckets

        self.until(there, f"{member} has {buckets} buckets to correct", timeout_s)

    @contextmanager
    def blackout(self, why: str) -> Iterator[None]:
        """Nothing can be processed or seen in it: the bound counts anew from its end."""
        begin = wall_us()
        yield
        self.blackouts.append(Blackout(begin, wall_us(), why))

    def tell(self) -> None:
        """What everybody said last: pytest shows it when a drill fails."""
        for member in self.plan.members:
            print(member, self.newest(member), self.events(member)[-12:])
        for process in self.all_started:
            print(f"--- {process.output.name}, code {process.popen.poll()}", process.said[-1500:], sep="\n")

    # Life -------------------------------------------------------------------------------------------------------------

    def bring_up(self) -> None:
        """Start everything; then a while without failures to compare with."""
        self.start(*self.plan.processes)
        self.watch()
        self.feed(SOURCES[:1])
        self.feed(self.plan.published[1:])
        if self.plan.foreign:
            self.foreign.begin()
        for member in self.plan.members:
            self.until_event(member, "READY", 0, self.plan.ready_s)
        self.until_well(timeout_s=self.plan.ready_s)
        begin = wall_us()
        self.until(lambda: self.watchers[0].stable_until * BUCKET_US > begin + QUIET_US, "a quiet while")
        self.quiet_us = begin, wall_us()

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """End the sources; wait until subscribers have seen the end; stop the replicas."""
        feeders = list({id(p): p for p in self.feeders.values()}.values())
        last = self.watchers[-1]
        for process in (*feeders, last.process):
            process.may_end = True
        for process in feeders:
            process.signal(signal.SIGTERM)
        if self.plan.foreign:
            self.foreign.end(timeout_s)
        self.until(lambda: last.ended == {"live", "corrected"}, "the subscriber sees the end", 3 * timeout_s)
        for node in {member.node for member in self.plan.members}:  # one that no subscriber reads may be later
            self.until(partial(self._published, node), f"all of {node} is published", timeout_s)
        for process in feeders:
            assert process.popen.wait(timeout_s) == 0, process.said
        for process in self.replicas.values():
            process.may_end = True
            process.signal(signal.SIGTERM)
        for member, process in self.replicas.items():
            assert process.popen.wait(timeout_s) == 0, f"{member}: {process.said[-3000:]}"

    def _published(self, node: str) -> bool:
        newest = [self.newest(member) for member in self.plan.members if member.node == node]
        return any(status is not None and status.progress >= Buckets(BUCKET_US).last for status in newest)

    def delete_records(self, stream: str, before: int | None) -> None:
        """Delete what a stream's topic holds of the buckets before `before` (None: all); the checker still knows it.

        The first record at or after that bucket's start stays: that is where a checkpoint at `before` continues.
        """
        topic = f"{self.plan.name}.{stream}"
        topics = TopicReader(self.bootstrap)
        kept = self.kept.setdefault(topic, [])
        last = kept[-1].offset if kept else -1
        kept += [record for record in topics.read(topic) if record.offset > last]
        # Not beyond what was read: what came in between the checker would miss.
        offset = kept[-1].offset + 1 if before is None else topics.first_at(topic, before * BUCKET_US // 1000)
        delete_before(self.bootstrap, Feed(topic), offset)
        topics.close()

    def judge(self, healed: bool = True) -> Verdict:
        """Read everything, judge it, print the table."""
        network = self.plan.network
        counts = [self.plan.replicas] * len(network.stages)
        histories = [w.history for w in self.watchers]
        life, origin_us = self.state.app_uid, self.origin_us
        topics = TopicReader(self.bootstrap)
        try:
            evidence = read_evidence(topics, self.plan.name, network, counts, origin_us, histories, self.kept, life)
        finally:
            topics.close()
        evidence.healed = healed
        evidence.threshold_us = self.plan.threshold_us if self.bounded else None
        evidence.quiet_us, evidence.one_runs = self.quiet_us, self.plan.one_runs
        evidence.blackouts, evidence.acknowledged = self.blackouts, self.acknowledged()
        evidence.poison = {s: {n: w in KERNEL for n, w in self.poison.by_source(s).items()} for s in self.plan.sources}
        verdict = judge(evidence)
        self.present(verdict)
        return verdict

    def present(self, verdict: Verdict) -> None:
        """Print the table, and what everybody said last where something is wrong."""
        show(verdict, self.plan.name)
        print("longest waits:", ", ".join(f"{what} {s:.1f} s" for s, what in sorted(self.waits, reverse=True)[:8]))
        if verdict.anomalies:
            self.tell()

    @property
    def origin_us(self) -> int:
        """Start of the app's first bucket."""
        return self.state.origin * BUCKET_US

    def acknowledged(self) -> dict[str, int]:
        """By source, the last tuple that its publisher or producer was told is there."""
        return feeders.acknowledged(self.acks)

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.all_started:
            if process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                process.kill()
        self.statuses.close()


@contextmanager
def cluster(bootstrap: str, plan: Plan, directory: Path) -> Iterator[Cluster]:
    """A cluster that runs and is well; ended whatever happens."""
    it = Cluster(bootstrap, plan, directory)
    try:
        it.bring_up()
        yield it
    finally:
        it.close()
