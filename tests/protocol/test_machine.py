"""Random lives of two replicas: inputs cut and healed, redos and writers that misbehave, crashes, zombies, settings.

After every step all oracles of `toy.ToyWorld` hold. At the end everything is healed, and within a bounded time all is
stable, published and shown.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from borealis_py.protocol.roles import Role
from borealis_py.protocol.settings import DelayPolicy, NodeDelays
from borealis_py.protocol.states import ReplicaState
from tests.examples import examples
from tests.protocol.toy import MS, TIMING, Broken, Replica, make_world
from tests.sunion.lists import FRAGMENT

STEP = 40 * MS
SECONDS = 100.0
SMALL = replace(TIMING, buffer_rows_max=25, outbox_max=12)
WITHIN = TIMING.stagger_us + TIMING.redo_deadline_us + 4_000 * MS

replicas = st.integers(0, 1)
inputs = st.integers(0, 1)


SETTLED = (ReplicaState.STABLE, ReplicaState.STANDBY)


class Lives(RuleBasedStateMachine):
    """Two replicas of one node with two sources."""

    role = Role.ALWAYS_RUNS

    @initialize(seed=st.integers(0, 3), small=st.booleans(), peers=st.booleans(), rebuilt=st.booleans())
    def begin(self, seed: int, small: bool, peers: bool, rebuilt: bool) -> None:
        timing, lookback = SMALL if small else TIMING, FRAGMENT.lookback_buckets if rebuilt else None
        self.world = make_world(
            seed, seconds=SECONDS, replicas=2, timing=timing, role=self.role, rebuild_buckets=lookback
        )
        self.world.peers = peers
        self.paused: dict[int, Replica] = {}

    def all(self) -> list[Replica]:
        return [*self.world.replicas.values(), *self.paused.values()]

    def pick(self, index: int) -> Replica:
        return self.world.replicas.get(index) or self.paused[index]

    # What happens -----------------------------------------------------------------------------------------------------

    @rule(steps=st.integers(20, 60))
    def a_while_passes(self, steps: int) -> None:
        self.time_passes(steps)

    @rule(steps=st.integers(1, 10))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            self.world.run(self.world.now + STEP, STEP)
            for replica in self.world.replicas.values():
                self.check_bound(replica)

    @rule(index=replicas, source=inputs)
    def an_input_is_cut_off(self, index: int, source: int) -> None:
        self.pick(index).cut.add(source)

    @rule(source=inputs)
    def a_source_is_cut_off(self, source: int) -> None:
        for replica in self.all():
            replica.cut.add(source)

    @rule(source=inputs)
    def a_source_heals(self, source: int) -> None:
        for replica in self.all():
            replica.cut.discard(source)

    @rule(index=replicas, source=inputs, records=st.sampled_from([1, 2, 10**9]))
    def an_input_is_slow_to_read(self, index: int, source: int, records: int) -> None:
        self.pick(index).slow = {source: records}

    @rule(index=replicas, how=st.sampled_from(["answer", "fail", "hold"]))
    def redos(self, index: int, how: str) -> None:
        self.pick(index).redo = how

    @rule(index=replicas)
    def a_held_redo_answers(self, index: int) -> None:
        self.pick(index).work_now()

    @rule(index=replicas, how=st.sampled_from(["answer", "unknown", "lost", "hold"]))
    def writers(self, index: int, how: str) -> None:
        self.pick(index).writer = how
        self.pick(index).write()

    @rule(index=replicas, on=st.booleans())
    def acknowledgements(self, index: int, on: bool) -> None:
        self.pick(index).acks = on

    @rule(index=replicas, on=st.booleans())
    def answers_for_ends(self, index: int, on: bool) -> None:
        self.pick(index).ends = on

    @rule(index=replicas, on=st.booleans())
    def control_log_is_read(self, index: int, on: bool) -> None:
        self.pick(index).deaf = not on

    @rule(index=replicas)
    def pause_or_go_on(self, index: int) -> None:
        if index in self.world.replicas:
            self.paused[index] = self.world.replicas.pop(index)
        else:
            self.world.replicas[index] = self.paused.pop(index)

    @rule(index=replicas, landing=st.integers(0, 3))
    def crash_and_restart(self, index: int, landing: int) -> None:
        """Some of what was in flight still lands."""
        old = self.pick(index)
        self.paused.pop(index, None)
        for _ in range(min(landing, len(old.sent))):
            self.world.topics[index].append(old.sent.popleft()[1])
        self.world.start(index).cut = set(old.cut)

    @rule(index=replicas)
    def a_successor_starts_beside_a_zombie(self, index: int) -> None:
        if index in self.world.replicas:
            self.world.zombies.append(self.world.replicas[index])
            self.world.start(index)

    @rule(
        threshold=st.sampled_from([400, 1_000, 3_000]),
        failure=st.sampled_from(DelayPolicy),
        stabilization=st.sampled_from(DelayPolicy),
    )
    def settings_change(self, threshold: int, failure: DelayPolicy, stabilization: DelayPolicy) -> None:
        self.world.delays = NodeDelays(threshold * MS - self.world.timing.slack_us, failure, stabilization)
        for replica in [*self.all(), *self.world.zombies]:
            replica.delays = self.world.delays

    # What must hold ---------------------------------------------------------------------------------------------------

    def check_bound(self, replica: Replica) -> None:
        """Every bucket leaves D after its end at the latest (D + one turn), if it may at all."""
        delays = replica.manager.delays
        process = delays.failure is delays.stabilization is DelayPolicy.PROCESS
        if process and replica.ends and replica.acks and not replica.slow and not replica.dead and replica.overdue():
            raise Broken(f"bucket {replica.manager.f_l} is {replica.overdue()} us overdue")

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.replicas |= self.paused
        world.zombies.clear()
        self.settings_change(1_000, DelayPolicy.PROCESS, DelayPolicy.PROCESS)
        for index, replica in list(world.replicas.items()):
            if replica.dead:
                world.start(index)
        for replica in world.replicas.values():
            replica.cut, replica.slow, replica.deaf = set(), {}, False
            replica.acks = replica.ends = True
            replica.redo = replica.writer = "answer"
            replica.work()
            replica.write()
        healed = world.now
        world.run(world.now + STEP, STEP)
        while not self.settled():
            world.run(world.now + STEP, STEP)
            if world.now > healed + WITHIN:
                raise Broken(f"not settled {WITHIN} us after healing: {self.describe()}")

    def settled(self) -> bool:
        world, managers = self.world, [r.manager for r in self.world.replicas.values()]
        low = min(m.f_s for m in managers)
        assert world.client.reader is not None
        return (
            all(m.state in SETTLED and m.f_s >= m.complete for m in managers)
            and sum(m.speaking.runs for m in managers) == (1 if self.role is Role.STANDS_BY else len(managers))
            and low >= world.now // 100_000 - 2
            and world.corrected.progress[-1:] >= [low - 4]
            and world.client.reader.next >= low
            and not world.client.undone
        )

    def describe(self) -> list[object]:
        world = self.world
        return [
            *((r.manager.state, r.manager.f_s, r.manager.f_l, r.manager.complete) for r in world.replicas.values()),
            world.corrected.progress[-1:],
            world.client.stable,
            world.now,
        ]


class LivesWithStandby(Lives):
    """The same where one of them speaks for both (R17.1)."""

    role = Role.STANDS_BY

    @rule(index=replicas)
    def one_that_runs_moves(self, index: int) -> None:
        found = self.world.replicas.get(index)
        if found is not None and found.manager.speaking.runs:
            self.world.move(index).like(found)


TestLives = Lives.TestCase
TestLivesWithStandby = LivesWithStandby.TestCase
TestLivesWithStandby.settings = TestLives.settings = settings(
    max_examples=examples(60),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
