"""Scripts: what one or two replicas go through, failure by failure, with every oracle checked at each step.

The failures that a reader should know first are transcripts: tests/testdata.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.protocol.settings import DelayPolicy, NodeDelays
from sunion.model import RecDone, StableRange, TentativeBucket, Undo
from tests.protocol.settling import R, S, U, Z, cut, settled
from tests.protocol.toy import DELAYS, MS, TIMING, Replica, ToyWorld, make_world
from tests.sunion.lists import BUCKETS, batch

D = DELAYS.wait_us


def marks(world: ToyWorld, index: int) -> list[str]:
    """UNDO, REC_DONE and tentative runs in the topic."""
    said = []
    for record in world.topics[index]:
        name = type(record).__name__
        if isinstance(record, Undo | RecDone | TentativeBucket) and (not said or said[-1] != name):
            said.append(name)
    return said


def test_without_failures_nothing_is_tentative_and_every_bucket_leaves_at_its_end() -> None:
    world = make_world(replicas=2)
    world.run(4_000 * MS)
    assert settled(world)
    for index, replica in world.replicas.items():
        assert replica.states == [R, S]
        assert marks(world, index) == []
        assert world.stable_end(index) == 39  # the publisher's boundary for bucket 39 is 5 ms away
    assert world.corrected.progress[-1] >= 38


def test_one_failure() -> None:
    world = make_world()
    cut(world, 2_000 * MS, 5_000 * MS, 1)
    (replica,) = world.replicas.values()
    assert replica.states == [R, S, U]
    first = world.tentative(0)[0]
    assert (first.bucket, first.missing_sources, first.diverged_from) == (19, ("s1",), 19)
    assert first.completeness == 0.5
    world.run(7_000 * MS)
    assert replica.states == [R, S, U, Z, S]
    assert marks(world, 0) == ["TentativeBucket", "Undo", "TentativeBucket", "RecDone"] or marks(world, 0) == [
        "TentativeBucket",
        "Undo",
        "RecDone",
    ]
    assert settled(world)


def test_two_replicas_reconcile_one_after_the_other() -> None:
    world = make_world(replicas=2)
    cut(world, 2_000 * MS, 6_000 * MS, 1)
    for replica in world.replicas.values():
        replica.redo = "hold"
    both = False
    while not settled(world):
        world.run(world.now + 20 * MS)
        states = [r.manager.state for r in world.replicas.values()]
        both |= states == [Z, Z]
        for replica in world.replicas.values():
            replica.work_now()
        assert world.now < 12_000 * MS
    assert not both


def test_behind_a_head_that_hangs_the_other_goes_on_after_t() -> None:
    world = make_world(replicas=2)
    for replica in world.replicas.values():
        replica.redo = "hold"
    cut(world, 2_000 * MS, 6_000 * MS, 1)
    world.run(6_200 * MS)
    (head,) = (i for i, r in world.replicas.items() if r.manager.state is Z)
    stuck = world.replicas.pop(head)  # it hangs: no turns, no heartbeats
    (other,) = world.replicas.values()
    other.redo = "answer"
    world.run(6_300 * MS + TIMING.suspicion_us // 2)
    assert other.manager.state is U
    world.run(6_300 * MS + TIMING.stagger_us + 1_000 * MS)
    assert other.manager.state is S
    stuck.redo = "answer"
    stuck.work()
    world.replicas[head] = stuck
    world.run(world.now + 3_000 * MS)
    assert settled(world)


@pytest.mark.parametrize("redo", ["fail", "hold"])
def test_a_redo_that_fails_or_hangs_runs_inline(redo: str) -> None:
    world = make_world()
    world.replicas[0].redo = redo
    cut(world, 2_000 * MS, 5_000 * MS, 1)
    world.run(5_000 * MS + TIMING.redo_deadline_us + 1_500 * MS)
    assert settled(world)
    assert any(n.event == "REDO_FAILED" for n in world.replicas[0].notes)
    world.replicas[0].redo = "answer"
    world.replicas[0].work()  # the late answer changes nothing
    world.run(world.now + 500 * MS)


def test_a_failed_local_redo_is_tried_again_and_then_the_replica_rests() -> None:
    world = make_world(timing=replace(TIMING, buffer_rows_max=5))
    replica = world.replicas[0]
    replica.redo = "fail"
    cut(world, 2_000 * MS, 5_000 * MS, 1)
    world.run(6_000 * MS)
    replica.redo = "answer"
    world.run(9_000 * MS)  # `turns` would tell if it span
    assert settled(world)


def test_buffers_stay_bounded_while_an_input_is_missing() -> None:
    for failure in DelayPolicy:
        delays = NodeDelays(DELAYS.wait_us, failure, DelayPolicy.PROCESS)
        world = make_world(timing=replace(TIMING, buffer_rows_max=30), failure=delays.failure)
        replica = world.replicas[0]
        world.run(1_000 * MS)
        replica.cut = {1}
        most = 0
        while world.now < 9_000 * MS:
            world.run(world.now + 100 * MS)
            most = max(most, replica.manager.union.kept_rows)
        assert most < 60, failure
        replica.cut = set()
        world.run(13_000 * MS)
        assert settled(world)


def test_with_less_memory_than_a_job_lets_come_in_the_replica_is_stable_in_the_end() -> None:
    """Simulator, seed 351590: every job found the rows after it evicted, and asked for one more."""
    world = make_world(timing=replace(TIMING, buffer_rows_max=5), failure=DelayPolicy.DELAY)
    replica = world.replicas[0]
    replica.delays = NodeDelays(DELAYS.wait_us, DelayPolicy.DELAY, DelayPolicy.DELAY)
    replica.redo = "hold"
    cut(world, 2_000 * MS, 5_000 * MS, 1)
    while world.now < 12_000 * MS:
        world.run(world.now + 900 * MS)
        replica.work_now()
    assert replica.manager.state is S, "input still comes, for 8 s more"


def test_a_policy_that_turns_to_suspend_does_not_fill_the_memory() -> None:
    world = make_world(timing=replace(TIMING, buffer_rows_max=30))
    replica = world.replicas[0]
    cut(world, 1_000 * MS, 3_000 * MS, 1)
    replica.cut = {1}
    world.run(4_000 * MS)
    replica.delays = NodeDelays(DELAYS.wait_us, DelayPolicy.SUSPEND, DelayPolicy.SUSPEND)
    world.run(9_000 * MS)
    assert replica.manager.f_s < replica.manager.f_l
    assert replica.manager.union.kept_rows < 60


def test_a_crash_at_any_time_leaves_no_hole() -> None:
    world = make_world(replicas=2)
    for at in (700, 1_900, 3_300, 4_100):
        world.run(at * MS)
        replica = world.start(0)
        replica.acks = at != 1_900
    world.replicas[0].acks = True
    world.run(8_000 * MS)
    assert settled(world)
    assert world.checkpoints[0].bucket > 50


def test_a_replica_that_pauses_finds_its_inputs_unread_and_expires_nothing() -> None:
    world = make_world(replicas=2)
    world.run(2_000 * MS)
    paused = world.replicas.pop(0)
    world.run(6_000 * MS)
    world.replicas[0] = paused
    world.run(7_000 * MS)
    assert settled(world)
    assert world.tentative(0) == []


def test_a_bucket_does_not_expire_while_its_input_lies_unread_in_the_log() -> None:
    world = make_world()
    world.run(2_000 * MS)
    (replica,) = world.replicas.values()
    world.replicas.clear()
    world.now += 4_000 * MS
    world.replicas[0] = replica
    replica.slow = {1: 1}  # a backlog of four seconds takes longer than D to read
    world.run(world.now + 2 * D)
    assert world.stable_end(0) < 60
    assert world.tentative(0) == []
    world.run(world.now + 4_000 * MS)
    assert settled(world)


@pytest.mark.parametrize("writer", ["unknown", "lost"])
def test_unknown_outcomes_repeat_nothing(writer: str) -> None:
    world = make_world(replicas=2)
    world.run(1_000 * MS)
    for replica in world.replicas.values():
        replica.writer = writer
    world.run(3_000 * MS)
    for replica in world.replicas.values():
        replica.writer = "answer"
    world.run(6_000 * MS)
    assert world.corrected.progress[-1] > 55


def test_a_backlog_leaves_in_transactions_that_are_small_enough() -> None:
    """However little goes into one. `Replica` refuses more."""
    for rows in (1, 5):
        world = make_world(timing=replace(TIMING, publish_rows=rows))
        replica = world.replicas[0]
        world.run(1_000 * MS)
        replica.writer = "hold"
        world.run(4_000 * MS)
        replica.writer = "answer"
        replica.write()
        world.run(5_000 * MS)
        assert world.corrected.progress[-1] > 45


def test_rows_beyond_memory_are_published_from_the_own_topic() -> None:
    world = make_world(timing=replace(TIMING, publish_rows=5))
    replica = world.replicas[0]
    replica.manager.output._rows_max = 0
    for _ in range(30):
        replica.acks = not replica.acks
        world.run(world.now + 130 * MS)
    replica.acks = True
    world.run(world.now + 1_000 * MS)
    assert world.corrected.progress[-1] > 40


def test_a_crash_with_records_in_flight() -> None:
    """None of its appends is acknowledged; the next incarnation starts from the last checkpoint."""
    world = make_world()
    world.run(2_000 * MS)
    world.replicas[0].acks = False
    world.run(3_500 * MS)
    world.start(0)
    world.run(5_000 * MS)
    assert settled(world)
    assert world.corrected.progress[-1] > 45


def test_who_takes_over_without_having_read_the_progress_reads_it() -> None:
    """The publisher dies; the other one has not read the progress for a while."""
    world = make_world(replicas=2)
    world.run(1_000 * MS)
    world.replicas[1].deaf = True
    world.run(3_000 * MS)
    world.replicas.pop(0)
    world.run(6_000 * MS)
    world.replicas[1].deaf = False
    world.run(7_000 * MS)
    assert world.corrected.progress[-1] > 65


def test_a_replica_cut_from_its_own_topic_stalls_and_bounds_its_outbox() -> None:
    world = make_world(seconds=30, timing=replace(TIMING, outbox_max=10))
    world.run(1_000 * MS)
    world.replicas[0].acks = False
    world.run(6_000 * MS)
    assert world.replicas[0].manager.output.waiting <= 10 + 3
    world.replicas[0].acks = True
    world.run(10_000 * MS)
    assert settled(world)


def test_a_replica_that_hears_nobody_still_reconciles_after_t() -> None:
    world = make_world(replicas=2)
    world.run(1_500 * MS)
    world.replicas[1].deaf = True
    cut(world, 2_000 * MS, 4_000 * MS, 1)
    world.run(4_000 * MS + TIMING.stagger_us + 2_000 * MS)
    assert world.replicas[1].manager.state is S


def test_when_all_inputs_have_ended_the_last_window_is_run_and_end_is_passed_on() -> None:
    world = make_world(seconds=2.05)
    for source in world.sources:
        source.records.append(batch(len(source.records), 10**6, boundary=2**62))
        source.at.append(source.at[-1])
    world = ToyWorld(world.sources)
    world.start(0)
    world.run(4_000 * MS)
    (replica,) = world.replicas.values()
    assert replica.manager.f_s == BUCKETS.last
    assert isinstance(world.topics[0][-1], StableRange)
    assert world.corrected.progress[-1] == BUCKETS.last
    assert max(world.truth) == 19  # a window of four buckets, the last of which had not begun


def test_while_ends_are_not_answered_nothing_expires_and_nothing_spins() -> None:
    world = make_world(replicas=2)
    world.run(2_000 * MS)
    for replica in world.replicas.values():
        replica.ends = False
        replica.cut = {1}
    world.run(5_000 * MS)
    assert all(world.tentative(i) == [] for i in world.replicas)
    for replica in world.replicas.values():
        replica.ends = True
    world.run(5_200 * MS)
    assert all(world.tentative(i) for i in world.replicas)


def test_who_waits_for_the_ends_to_take_over_does_not_spin() -> None:
    world = make_world(replicas=2)
    world.run(2_000 * MS)
    world.replicas.pop(0)
    (other,) = world.replicas.values()
    other.ends = False
    world.run(5_000 * MS)
    assert world.corrected.progress[-1] < 21
    other.ends = True
    world.run(6_000 * MS)
    assert world.corrected.progress[-1] > 55


def test_an_input_that_heals_with_a_lag_between_delta_and_d_is_waited_for_again() -> None:
    """Else the live frontier outruns it for ever, though waiting D would make every bucket stable."""
    world = make_world(seconds=30)
    replica: Replica = world.replicas[0]
    cut(world, 2_000 * MS, 5_000 * MS, 1)
    source = world.sources[1]
    source.at[:] = [at + 400 * MS for at in source.at]
    world.run(12_000 * MS)
    assert replica.manager.state is S
    assert not replica.manager.intake.late(1)
