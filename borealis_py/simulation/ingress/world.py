"""Runs one simulated world of ingresses to its end, and judges it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from borealis_py.client.target import Target
from borealis_py.ingress.plan import IngressPlan
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.messages import EndOfSource, ExpectedSilence, PartitionSkip, encode
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.ingress.oracle import InputJudged, TopicLife, judge, judge_input
from borealis_py.simulation.ingress.process import SimIngress
from borealis_py.simulation.ingress.producers import Producers
from borealis_py.simulation.ingress.scenario import (
    SECOND,
    TOPIC,
    ClockJump,
    IngressFault,
    IngressScenario,
    IngressSetting,
    MadeAgain,
    SourceFault,
    draw_ingress,
)
from borealis_py.simulation.latency import Latencies, between
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.log.network import Cut, CutDirection, cut_of
from borealis_py.simulation.parallel import in_parallel
from borealis_py.simulation.quiet import quiet

START_US = 1_700_000_000 * SECOND
WIDTH_US = 100_000
COLUMNS = {"n": "int64", "shop": "string", "at": "int64"}
SETTLE_US = 9 * SECOND
"""After the last fault: everything must be copied, and promised, by then."""
OWNED_US = 4 * SECOND
"""How long no ingress that could may own the inputs: silence of an owner, patience, and the claims."""
LOOK_US = 50_000
_SLOW = Latencies(append=between(5_000, 80_000), fetch=between(5_000, 80_000), ends=between(5_000, 120_000))

Undo = Callable[[], object]


@dataclass(frozen=True, slots=True)
class IngressOutcome:
    """What came of a world: `violations`, none if every promise held; numbers of `rows`, dead `letters`, and
    `take_overs`; how long it lived (`simulated_s`)."""

    seed: int
    violations: tuple[str, ...]
    rows: int
    letters: int
    take_overs: int
    simulated_s: float

    @property
    def ok(self) -> bool:
        return not self.violations


class IngressWorld:
    """A foreign topic, its producers, and the ingresses that copy it into a source."""

    def __init__(self, scenario: IngressScenario) -> None:
        self.scenario = scenario
        self.scheduler = Scheduler(START_US)
        self.memory = MemoryLog(self.scheduler, scenario.seed)
        spec = scenario.spec
        targets = tuple(
            Target("sim", "a1", f"orders.{i}", WIDTH_US, START_US // WIDTH_US, ahead_max_us=60 * SECOND)
            for i in range(spec.inputs)
        )
        self.plan = IngressPlan(spec, COLUMNS, targets)
        admin = self.memory.client("admin").admin()
        admin.create(
            [TopicSpec("sim.orders", spec.inputs), TopicSpec("sim.settings"), TopicSpec(TOPIC, scenario.partitions)]
        )
        self.producers = Producers(self.scheduler, self.memory, scenario)
        self.ingresses = [
            SimIngress(self.scheduler, self.memory, self.plan, f"ingress{i}", i) for i in range(scenario.ingresses)
        ]
        self.take_overs = 0
        self._owner: SimIngress | None = None
        self._owned_us = START_US
        """When an ingress that was able to owned the inputs last."""
        self._able_us = dict.fromkeys((one.name for one in self.ingresses), START_US)
        """When each was last unable to."""
        self._deleted: list[TopicLife] = []
        """The topic before it was made again."""
        self._source_behind = 0
        """How many faults there are by which what is written into the source cannot be read."""
        self.violations: list[str] = []

    def run(self) -> IngressOutcome:
        """Run to the end, and judge."""
        for fault in self.scenario.faults:
            self.scheduler.at(START_US + fault.at_us, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        for one in self.scenario.settings:
            self.scheduler.at(START_US + one.at_us, lambda one=one: self._set(one))  # type: ignore[misc]
        if self.scenario.lasting is not None:
            self._lose(*self.scenario.lasting)
        for jump in self.scenario.jumps:
            self._jump(jump)
        for of_source in self.scenario.source_faults:
            self.scheduler.at(START_US + of_source.at_us, lambda of=of_source: self._strike_source(of))  # type: ignore[misc]
        if (made_again := self.scenario.made_again) is not None:
            self.scheduler.at(START_US + made_again.at_us, lambda: self._delete(made_again.down))
            self.scheduler.at(START_US + made_again.again_us, lambda: self._make_again(made_again))
        self.scheduler.after(LOOK_US, self._look)
        settled_us = START_US + self.scenario.heal_us + SETTLE_US // 2
        if self.scenario.lasting is not None:
            self.scheduler.run_until(settled_us - 1)
            if all(judged.first for judged in self._judged()):  # else it could not begin (B49)
                self._check_fresh(" of a partition that was given up")
            self.memory.elect_partition(Feed(TOPIC, self.scenario.lasting[0]))
            # A row stamped ahead waits for the others' time to come, which may be as far behind as silence is missing.
            settled_us += SECOND + max(expect_us or 0 for _, expect_us in self.scenario.expected())
        self.scheduler.run_until(settled_us)
        self.producers.stop()
        end_us = START_US + self.scenario.heal_us + SETTLE_US
        self.scheduler.run_until(end_us)
        inputs = self._judged()
        broker = self.memory.broker
        lives = [*self._deleted, TopicLife(broker.found(TOPIC).topic_id, broker.partitions(TOPIC))]
        source = broker.partitions("sim.orders")
        self.violations += judge(self.scenario, lives, inputs, source, self.producers.sent, START_US)
        self._check_fresh("")
        rows, letters = sum(len(j.numbers) for j in inputs), sum(len(j.letters) for j in inputs)
        return IngressOutcome(
            self.scenario.seed, tuple(self.violations), rows, letters, self.take_overs, (end_us - START_US) / SECOND
        )

    def _judged(self) -> list[InputJudged]:
        return [judge_input(self.memory.committed(target.feed), START_US) for target in self.plan.targets]

    def _check_fresh(self, why: str) -> None:
        """Every input that goes by the clock is close behind it, once all that may last has been over for a while."""
        if self.scenario.spec.boundary == "data" or self.scenario.expected()[-1][1] is not None:
            return
        for i, judged in enumerate(self._judged()):
            behind_us = self.scheduler.now_us - judged.boundary - self.scenario.spec.lateness_us
            if behind_us > 5 * WIDTH_US:
                self.violations.append(f"input {i}: its boundary is {behind_us} us behind{why} after all has healed")

    # Settings ---------------------------------------------------------------------------------------------------------

    def _set(self, one: IngressSetting) -> None:
        """Write what a user sets."""
        value: msgspec.Struct
        if one.kind == "end":
            key, value = "end/orders", EndOfSource("a1")
        elif one.kind == "expect":
            key, value = "expect/orders", ExpectedSilence("a1", one.expect_us)
        else:
            key, value = f"skip/orders/{one.partition}", PartitionSkip("a1", one.kind == "skip")
        self.memory.broker.append(NewRecord(Feed("sim.settings"), encode(value), key.encode()))

    def _lose(self, partition: int, at_us: int) -> None:
        """A partition has no leader from then on, whatever elects one in between."""
        feed = Feed(TOPIC, partition)
        again_us = max(at_us, self.scenario.heal_us)
        for when_us in (at_us, again_us):
            self.scheduler.at(START_US + when_us, lambda: self.memory.depose_partition(feed))

    def _jump(self, jump: ClockJump) -> None:
        struck = self.ingresses if jump.ingress is None else [self.ingresses[jump.ingress]]

        def to(ahead_us: int, boots: bool) -> None:
            for one in struck:
                if boots:
                    one.kill()
                one.set_clock(ahead_us)
                one.start()

        self.scheduler.at(START_US + jump.at_us, lambda: to(jump.ahead_us, jump.boots))
        self.scheduler.at(START_US + jump.until_us, lambda: to(0, boots=False))

    # The topic made again ---------------------------------------------------------------------------------------------

    def _delete(self, down: bool) -> None:
        if down:
            for one in self.ingresses:
                one.kill()
        broker = self.memory.broker
        self._deleted.append(TopicLife(broker.found(TOPIC).topic_id, broker.partitions(TOPIC)))
        broker.delete(TOPIC)

    def _make_again(self, how: MadeAgain) -> None:
        self.memory.client("admin").admin().create([TopicSpec(TOPIC, self.producers.partitions)])
        for p, before in enumerate(self._deleted[-1].partitions) if how.refilled is not None else ():
            self.producers.refill(p, max(0, len(before.records) + (how.refilled or 0)))
        for one in self.ingresses if how.down else ():
            one.start()

    # Faults -----------------------------------------------------------------------------------------------------------

    def _strike(self, fault: IngressFault) -> None:
        self.scheduler.at(START_US + fault.until_us, self._begin(fault))

    def _begin(self, fault: IngressFault) -> Undo:
        memory, kind = self.memory, fault.kind
        if kind == "grow":
            self.producers.partitions += 1  # a topic that is made again gets as many
            if memory.broker.exists(TOPIC):
                memory.broker.grow(TOPIC, self.producers.partitions)
            return lambda: None
        if kind in ("no_leader", "transaction", "retention"):
            return self._on_partition(kind, Feed(TOPIC, fault.target))
        if kind == "no_source_leader":
            memory.depose(["sim.orders"])
            return lambda: memory.elect(["sim.orders"])
        process = self.ingresses[fault.target]
        if kind == "kill":
            memory.late(process.name, 500_000 if fault.until_us % 2 else 0)
            process.kill()
            return process.start
        if kind == "pause":
            process.pause()
            return process.resume
        if kind == "slow":
            memory.set_delays(process.name, _SLOW)
            return lambda: memory.link(process.name).fast(_SLOW)
        ways = {"deaf": CutDirection.IN, "mute": CutDirection.OUT}
        cut = cut_of([TOPIC] if kind == "cut_topic" else None, ways.get(kind, CutDirection.BOTH))
        memory.add_cut(process.name, cut)
        return lambda: memory.heal(process.name, cut)

    def _strike_source(self, fault: SourceFault) -> None:
        self._source_behind += 1
        undo = self._strangers() if fault.kind == "stranger" else self._lagging(fault.kind == "truncated")

        def end() -> None:
            undo()
            self._source_behind -= 1

        self.scheduler.at(START_US + fault.until_us, end)

    def _lagging(self, truncated: bool) -> Undo:
        release = self.memory.hold(["sim.orders"])
        return lambda: release(truncated)

    def _strangers(self) -> Undo:
        broker, stranger = self.memory.broker, f"stranger since {self.scheduler.now_us}"
        epoch = broker.init_producer(stranger)
        broker.write(stranger, epoch, [NewRecord(one.feed, b"a stranger's") for one in broker.partitions("sim.orders")])
        return lambda: broker.abort(stranger, epoch)

    def _on_partition(self, kind: str, feed: Feed) -> Undo:
        memory = self.memory
        if kind == "no_leader":
            memory.depose_partition(feed)
            return lambda: memory.elect_partition(feed)
        if kind == "transaction":
            self.producers.begin(feed.partition)
            return lambda: self.producers.end(feed.partition)
        if (partition := memory.broker.existing(feed)) is not None:
            memory.delete_before(feed, partition.stable_end)
            memory.healed()
        return lambda: None

    # Who owns the inputs ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """While some ingress has been able to for long enough, one that is able to owns the inputs."""
        now = self.scheduler.now_us
        for one in self.ingresses:
            behind = one.ahead_us < 0 or one.stands
            if not self._able(one) or self.memory.link(one.name).delays is _SLOW or behind:
                self._able_us[one.name] = now
        able = [one for one in self.ingresses if now - self._able_us[one.name] > 0]
        owner = next((one for one in self.ingresses if one.owner and self._able(one)), None)  # slow or not
        if owner is not None and owner is not self._owner:
            self.take_overs += 1
            self._owner = owner
        for one in able:
            waited_us = now - max(self._able_us[one.name], self._owned_us)
            if owner is None and waited_us > OWNED_US:
                self.violations.append(f"no ingress owns the inputs at {now}: {one.name} could, for {waited_us} us")
                self._owned_us = now
        if owner is not None:
            self._owned_us = now
        self.scheduler.after(LOOK_US, self._look)

    def _able(self, process: SimIngress) -> bool:
        """Whether it can do everything that an owner must."""
        return (
            process.session is not None
            and not process.paused
            and not any(cut.blocks("sim.orders", out) for cut in self._cuts(process) for out in (True, False))
            and not self.memory.leaderless("sim.orders")
            and not self._source_behind
            and (
                (self._abandoned and self._owner is not None) or self._learnable(process)
            )  # to begin it reads all (B49)
        )

    def _cuts(self, process: SimIngress) -> list[Cut]:
        return self.memory.link(process.name).cuts

    def _learnable(self, process: SimIngress) -> bool:
        """Whether it can learn some end of the topic: an owner that learns none falls silent."""
        broker = self.memory.broker
        there = broker.partitions(TOPIC) if broker.exists(TOPIC) else ()
        readable = any(one.feed not in self.memory.unled for one in there) or not there  # that is known, too
        return readable and not self._cuts(process)

    @property
    def _abandoned(self) -> bool:
        """Whether all partitions of the topic are given up, so that no end of it need be learned."""
        now = self.scheduler.now_us - START_US
        return any(at_us <= now < until_us for at_us, until_us in self.scenario.abandoned())


def run_ingress(seed: int, scenario: IngressScenario | None = None) -> IngressOutcome:
    """Run the world of a seed."""
    with quiet():
        return IngressWorld(scenario or draw_ingress(seed)).run()


def run_ingresses(n: int, first: int, processes: int | None) -> Iterator[IngressOutcome]:
    """The worlds of seeds [first, first + n), as they end. `processes`: None: one per core."""
    return in_parallel(run_ingress, [(seed,) for seed in range(first, first + n)], processes)
