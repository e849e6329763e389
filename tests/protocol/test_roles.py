"""Who runs (R17): the fold of heartbeats, and what it makes of replicas that die, hang and claim at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.incarnation import Heartbeat, Identity, StartPoint
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.roles import (
    CALM_BEATS,
    CLAIM_BEATS,
    PATIENT_BEATS,
    PERSIST_BEATS,
    STEP_BEATS,
    YIELD_BEATS,
    Role,
    RoleFold,
)
from borealis_py.protocol.settings import NodeDelays
from borealis_py.protocol.turn import Append, Effect, SendHeartbeat, StepBack, Turn
from sunion.model import Input, StableBucket, StableRange, StreamRecord
from sunion.units import Bucket, MonotonicUs, Offset
from tests.protocol.chain_node import D
from tests.protocol.toy import MS, TIMING
from tests.sunion.lists import FRAGMENT, W, batch, claim
from tests.support.managers import toy_config


def beat(replica: int, runs: bool, ack_s: int = 0) -> Heartbeat:
    return Heartbeat(
        app_uid="life", replica=replica, inc=1, uid=f"r{replica}", state="STABLE", ack_s=Bucket(ack_s),
        ack_l=Bucket(ack_s), asking=False, progress=Bucket(0), runs=runs,
    )  # fmt: skip


def fold(replica: int, *beats: Heartbeat) -> RoleFold:
    found = RoleFold(replica)
    for one in beats:
        found.read(one)
    return found


def test_a_standby_runs_after_three_own_heartbeats_without_one_of_a_runner() -> None:
    two = [beat(0, False)] * (CLAIM_BEATS - 1)
    assert not fold(0, *two).due
    assert fold(0, *two, beat(0, False)).due
    assert not fold(0, *two, beat(1, True), beat(0, False)).due


def test_the_next_standby_waits_longer() -> None:
    own = [beat(2, False)] * (CLAIM_BEATS + STEP_BEATS)
    assert fold(2, *own[STEP_BEATS:]).due
    assert not fold(2, beat(1, False), *own[1:]).due
    assert fold(2, beat(1, False), *own).due


def test_of_two_that_claim_the_later_one_steps_back() -> None:
    log = [beat(0, False), beat(1, False)] * CLAIM_BEATS
    log += [beat(0, True), beat(1, True)]
    assert fold(0, *log).runs
    assert not fold(1, *log).runs


def test_a_replica_that_was_away_finds_that_another_one_runs() -> None:
    log = [beat(0, True), *[beat(1, False)] * CLAIM_BEATS, beat(1, True), beat(0, True)]
    assert not fold(0, *log).runs
    assert fold(1, *log).runs


def test_a_runner_that_stands_by_leaves_its_place_at_once() -> None:
    log = [beat(0, True), *[beat(1, False)] * (CLAIM_BEATS + STEP_BEATS), beat(0, False)]
    assert fold(1, *log).runner is None
    assert fold(1, *log).due


def test_who_took_over_and_could_not_begin_lets_others_try() -> None:
    claim = replace(beat(0, True), state="STANDBY")
    both = [beat(0, False), beat(1, False)] * CLAIM_BEATS
    failed = [*both, claim, replace(claim, state="RECOVERING"), *both]
    assert fold(1, *failed).due
    assert not fold(0, *failed).due
    began = [*both, claim, beat(0, True), *both]
    assert fold(0, *began).due
    assert not fold(1, *began).due
    again = [*failed, *[beat(0, False)] * STEP_BEATS]
    assert fold(0, *again).due, "it tries again if nobody else does"


def starting(replica: int) -> Heartbeat:
    return replace(beat(replica, True), state="STANDBY")


def test_who_has_started_takes_the_place_of_one_that_starts() -> None:
    log = [beat(1, False)] * (CLAIM_BEATS + STEP_BEATS) + [starting(1), *[beat(0, False)] * CLAIM_BEATS, starting(0)]
    assert fold(0, *log).runs
    assert fold(1, *log, beat(1, True)).runs


def test_who_was_only_late_goes_on_while_the_one_that_took_over_starts() -> None:
    log = [beat(0, True), *[beat(1, False)] * (CLAIM_BEATS + STEP_BEATS), starting(1), beat(0, True)]
    assert fold(0, *log).runs
    assert fold(1, *log).patient
    assert not fold(1, *log, starting(1)).runs


def test_one_that_starts_never_takes_the_place_of_one_that_has_started_by_going_on() -> None:
    """It reads nothing, and so does not know that another one runs."""
    log = [starting(0), *[beat(1, False)] * (CLAIM_BEATS + STEP_BEATS), beat(1, True)]
    goes_on = [starting(0), beat(1, True)] * (2 * PERSIST_BEATS)
    assert fold(1, *log, *goes_on).runs
    assert fold(1, *log, *goes_on, beat(0, True)).runs, "nor when it has started, too"


def test_one_that_starts_regains_its_place_where_who_took_that_dies() -> None:
    log = [starting(0), *[beat(1, False)] * (CLAIM_BEATS + STEP_BEATS), beat(1, True)]
    assert fold(0, *log, *[starting(0)] * (CLAIM_BEATS + 1)).runs


def test_what_arrives_at_once_after_a_cut_is_no_going_on() -> None:
    """Who has read the claim steps back; if it were the runner by what it had said before, both would."""
    log = [beat(0, True), *[beat(1, False)] * (CLAIM_BEATS + STEP_BEATS), beat(1, True)]
    assert fold(1, *log, *[beat(0, True)] * (2 * PERSIST_BEATS)).runs


def test_who_was_replaced_before_it_could_begin_lets_others_try() -> None:
    """Two whose starts fail kept out a third, since each was back before the other had failed."""
    claim = [beat(1, False)] * (CLAIM_BEATS + STEP_BEATS)
    log = [beat(0, False), starting(0), *claim, starting(1), *[beat(1, False)] * 2, beat(0, False), beat(2, False)]
    found = fold(2, *log, *[beat(2, False)] * (CLAIM_BEATS - 1))
    assert found.due


def begins(replica: int, ack_s: int) -> Heartbeat:
    return replace(beat(replica, True, ack_s), state="RECOVERING")


TAKEN_OVER = [beat(0, True, 7), *[beat(1, False)] * (CLAIM_BEATS + STEP_BEATS), starting(1), begins(1, 7)]
"""0 was busy with one bucket, so that 1 took over, which is busy with the same one now."""


def test_who_was_taken_for_dead_goes_on_where_it_is_further_than_the_one_that_took_over_and_has_not_begun() -> None:
    """Simulator, seed 83001655: a bucket that took 4 s to run was begun by one after the other, for ever."""
    assert not fold(0, *TAKEN_OVER).yields, "it may have run what held it up"
    assert fold(0, *TAKEN_OVER, beat(0, True, 8)).runs
    as_far = fold(0, *TAKEN_OVER, beat(0, True, 7))
    assert not as_far.runs
    assert not as_far.yields, "what it has run is not acknowledged yet"
    assert not fold(0, *TAKEN_OVER, beat(1, True, 7), beat(0, True, 8)).runs, "the other one has begun"


def test_who_got_no_further_than_when_it_lost_its_place_does_not_regain_it() -> None:
    """Review: who reached no input and was silent now and then kept out one that recovered from an older checkpoint."""
    behind = [*TAKEN_OVER[:-1], begins(1, 3)]
    assert not fold(0, *behind, beat(0, True, 7)).runs
    assert fold(0, *behind, beat(0, True, 8)).runs
    live = replace(beat(0, True, 7), ack_l=Bucket(9), state="UPSTREAM_FAILURE")
    assert fold(0, *behind, live).runs, "live buckets count, too"


def test_two_that_recover_do_not_take_the_place_from_each_other_in_turn() -> None:
    log = [*TAKEN_OVER, begins(0, 8)]
    assert fold(0, *log, begins(1, 9), begins(0, 9), begins(1, 10)).runs


def test_who_regained_its_place_and_died_leaves_it_to_the_other_one() -> None:
    alone = [beat(1, True, 9)] * PERSIST_BEATS
    assert not fold(1, *TAKEN_OVER, beat(0, True, 8), *alone).runs
    assert fold(1, *TAKEN_OVER, beat(0, True, 8), *alone, beat(1, True, 9)).runs
    assert not fold(1, *TAKEN_OVER, beat(0, True, 8), *alone, beat(0, True, 9), beat(1, True, 9)).runs, "it lives"


def test_who_is_no_further_yields_to_the_one_that_took_over_after_some_heartbeats() -> None:
    found = fold(0, *TAKEN_OVER)
    for _ in range(YIELD_BEATS):
        assert not found.yields
        found.read(begins(1, 7))
        found.read(beat(0, True, 7))
    assert found.yields


def test_a_claim_that_was_said_before_its_replica_died_ends_nobody() -> None:
    """It arrives late. Nobody would run, and who had taken over would have to start again."""
    took_over = fold(1, *TAKEN_OVER, beat(0, True, 8), *[begins(1, 8)] * (2 * YIELD_BEATS))
    assert not took_over.runs
    assert not took_over.yields
    for _ in range(YIELD_BEATS):
        took_over.read(beat(0, True, 9))
        took_over.read(begins(1, 8))
    assert took_over.yields, "it lives"


@pytest.mark.parametrize(("state", "ends"), [("STANDBY", False), ("RECOVERING", False), ("STABLE", True)])
def test_who_has_started_goes_on_where_another_one_starts_and_ends_where_that_has_begun(state: str, ends: bool) -> None:
    control = ControlFold(1, 1, "r1", suspicion_beats=5)
    silent = [beat(0, False)] * (CLAIM_BEATS + STEP_BEATS)
    for at, one in enumerate([starting(1), *silent, replace(beat(0, True), state=state)]):
        control.read(Offset(at), one)
    identity, start = Identity(1, 1, "r1", "life"), StartPoint(0, FRAGMENT.initial())
    of = toy_config(Input.source("s"), timing=TIMING), NodeDelays(D)
    took_over = Manager(of[0], identity=identity, start=start, delays=of[1], role=Role.TOOK_OVER, control=control)
    effects = took_over.handle(Turn(1_000))
    assert any(isinstance(effect, StepBack) for effect in effects) is ends
    beats = [effect.heartbeat for effect in effects if isinstance(effect, SendHeartbeat)]
    assert [one.state for one in beats] == (["STANDBY"] if ends else ["RECOVERING"]), "it says once more that it lives"
    assert all(one.runs for one in beats)


@pytest.mark.parametrize("role", Role)
def test_only_who_took_over_publishes_at_once(role: Role) -> None:
    identity, start = Identity(1, 1, "r1", "life"), StartPoint(0, FRAGMENT.initial())
    config = toy_config(Input.source("s"), timing=TIMING)
    it = Manager(config, identity=identity, start=start, delays=NodeDelays(D), role=role)
    assert it.publishing.at_once is (role is Role.TOOK_OVER)
    if role is Role.STANDS_BY:
        for at, one in enumerate([beat(1, False)] * (CLAIM_BEATS + STEP_BEATS)):
            it.control.read(Offset(at), one)
        it.handle(Turn(1_000))
        assert it.speaking.runs
        assert it.publishing.at_once, "it computed before, and speaks now"


def test_what_a_standby_says_when_it_takes_over_has_waited_since_it_was_ready() -> None:
    """Or a node downstream takes it for fresh, and waits its whole delay once more (B12)."""
    identity, start = Identity(0, 1, "r0", "life"), StartPoint(0, FRAGMENT.initial())
    config = toy_config(Input.source("s"), timing=TIMING)
    always, standby = (
        Manager(config, identity=identity, start=start, delays=NodeDelays(D), role=role)
        for role in (Role.ALWAYS_RUNS, Role.STANDS_BY)
    )
    takes_over_us, withheld_us = W + 700 * MS, (700 * MS, 300 * MS)
    logs = [claim(0), batch(1, 0, [(1, 5)], boundary=W)], [batch(2, 1, boundary=2 * W)]
    expected = []
    for withheld, records in zip(withheld_us, logs, strict=True):
        turn = Turn(MonotonicUs(takes_over_us - withheld), inputs={0: records})
        assert _said(standby.handle(turn)) == [], "it stands by"
        (one,) = _said(always.handle(turn))
        assert isinstance(one, StableBucket | StableRange)
        expected.append(replace(one, waited_us=one.waited_us + withheld))
    beats = [(Offset(at), beat(0, False)) for at in range(CLAIM_BEATS)]
    assert _said(standby.handle(Turn(MonotonicUs(takes_over_us), beats=beats))) == expected


def _said(effects: Sequence[Effect]) -> list[StreamRecord]:
    return [effect.record for effect in effects if isinstance(effect, Append)]


def test_the_runner_says_how_far_it_has_spoken() -> None:
    found = fold(1, beat(0, True, 4), beat(0, True, 7))
    assert found.runner is not None
    assert found.runner.ack_s == 7


def test_of_two_that_have_not_read_of_each_other_s_claim_the_lower_index_stays() -> None:
    """The log had deleted those heartbeats before one of them read it."""
    both = [beat(0, True), beat(1, True)] * (PERSIST_BEATS + 1)
    for first in ([beat(0, True)], [beat(1, True)]):
        assert fold(0, *first, *both).runs
        assert not fold(1, *first, *both).runs
    assert fold(1, beat(1, True), *both[: 2 * PERSIST_BEATS]).runs, "it has had no time to step back"


def late(times: int) -> list[Heartbeat]:
    """So often a standby takes over from a replica that lives, and is heard again."""
    log: list[Heartbeat] = []
    for n in range(times):
        old, new = n % 2, 1 - n % 2
        log += [beat(old, True), *[beat(new, False)] * PATIENT_BEATS, beat(new, True), beat(old, True)]
    return log


def test_standbys_are_more_patient_where_one_that_lived_was_taken_for_dead() -> None:
    for times, patience in ((0, CLAIM_BEATS), (1, 2 * CLAIM_BEATS), (3, PATIENT_BEATS)):
        runs = times % 2
        log = [*late(times), beat(runs, True)]
        me = 1 - runs
        waits = [beat(me, False)] * patience
        assert not fold(me, *log, *waits[1:]).due
        assert fold(me, *log, *waits).due


def test_a_claim_counts_as_before_however_patient_standbys_are() -> None:
    log = [*late(3), beat(1, True), *[beat(0, False)] * CLAIM_BEATS, beat(0, True)]
    assert fold(0, *log).runs


def test_patience_is_forgotten_where_one_runs_for_long() -> None:
    log = [*late(1), *[beat(1, True)] * CALM_BEATS]
    assert fold(0, *log, *[beat(0, False)] * CLAIM_BEATS).due


def test_a_replica_that_died_makes_nobody_more_patient() -> None:
    log = [beat(0, True), *[beat(1, False)] * CLAIM_BEATS, beat(1, True), beat(0, False)]
    assert fold(0, *log, *[beat(0, False)] * (CLAIM_BEATS - 1)).due


@dataclass
class Node:
    """A replica that follows the rules, in steps of one heartbeat."""

    fold: RoleFold
    runs: bool = False
    echoed: bool = False
    read: int = 0
    alive: bool = True


@dataclass
class Log:
    """A control log and who writes to it."""

    nodes: list[Node]
    beats: list[Heartbeat] = field(default_factory=list)

    def step(self, k: int, lag: int) -> None:
        """Replica k reads all but the last `lag` records, decides, and sends a heartbeat."""
        node = self.nodes[k]
        end = max(node.read, len(self.beats) - lag)
        for one in self.beats[node.read : end]:
            node.fold.read(one)
            node.echoed |= one.replica == k and one.runs
        node.read = end
        if node.runs and node.echoed and not node.fold.runs:
            node.runs = node.echoed = False
        elif not node.runs and node.fold.due:
            node.runs = True
        self.beats.append(beat(k, node.runs))


@settings(max_examples=300, deadline=None)
@given(
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["run", "die", "wake"])), max_size=80),
)
def test_whatever_happened_one_runs_soon(count: int, life: list[tuple[int, int, str]]) -> None:
    log = Log([Node(RoleFold(k)) for k in range(count)])
    for k, lag, what in life:
        node = log.nodes[k % count]
        if what != "run":
            node.alive = what == "wake"
        elif node.alive:
            log.step(k % count, lag)
    live = [k for k, node in enumerate(log.nodes) if node.alive]
    for _ in range(2 * (PATIENT_BEATS + STEP_BEATS * count) + 6):
        for k in live:
            log.step(k, 0)
    running = [k for k in live if log.nodes[k].runs]
    assert len(running) == bool(live)
