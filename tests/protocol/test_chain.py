"""A node that reads another node's stream: what it waits for, what it says it lacks, and what it takes from a peer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.protocol.incarnation import Disagreement, StartPoint
from borealis_py.protocol.redo import RedoDone
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import Append, AskEnds, SaveCheckpoint, StartRedo, Turn
from sunion.errors import RetentionLost
from sunion.model import Input, StableBucket, StableRange, TentativeBucket
from tests.protocol.chain_node import STREAM, D, Node, manager, rows, stable, tentative
from tests.protocol.settling import cut, settled
from tests.protocol.toy import MS, TIMING, make_world
from tests.sunion.lists import FRAGMENT, W, batch, claim
from tests.support.heartbeats import heartbeat

DELTA = TIMING.delta_us + TIMING.hop_us
"""Of the second node in a chain."""


def test_stable_buckets_run_as_they_come_from_whichever_replica() -> None:
    node = Node(STREAM)
    node.at(W, (1, stable(0)))
    node.at(2 * W, (0, stable(0)), (0, stable(1)))
    assert (node.stable_end(), node.manager.state) == (2, ReplicaState.RECOVERING)  # nobody echoes its heartbeat here
    assert node.tentative() == []


def test_while_one_replica_upstream_may_say_it_stably_a_tentative_word_waits_until_d() -> None:
    """B15: without it a stable but slower replica upstream would not prevent tentative output."""
    node = Node(STREAM)
    node.at(0, (0, stable(0)), (1, stable(0)))
    node.at(2 * W, (0, tentative(1, "a")))
    node.at(W + D - MS)  # bucket 1 was created at 0, when bucket 0 was closed
    assert node.tentative() == []
    node.at(W + D, (1, stable(1)))
    assert (node.tentative(), node.stable_end()) == ([], 2)


def test_a_tentative_bucket_of_all_replicas_runs_at_once() -> None:
    """A tentative bucket bounds itself: the next node need not wait again."""
    node = Node(STREAM)
    node.at(0, (0, stable(0)), (1, stable(0)))
    node.at(2 * W, (0, tentative(1, "a")), (1, tentative(1, "a")))
    assert [t.bucket for t in node.tentative()] == [1]


def test_a_replica_upstream_whose_last_record_was_tentative_is_not_awaited() -> None:
    """B15: it lacks what the other one lacks, and would not write the next bucket as stable either."""
    node = Node(STREAM)
    node.at(0, (0, stable(0)), (1, stable(0)))
    node.at(2 * W, (0, tentative(1, "a")), (1, tentative(1, "a")))
    node.at(3 * W, (0, tentative(2, "a")))
    assert [t.bucket for t in node.tentative()] == [1, 2]


def test_a_replica_upstream_that_died_costs_d_once() -> None:
    """B15: LATE is per feed."""
    node = Node(STREAM)
    node.at(0, (0, stable(0)), (1, stable(0)))
    node.at(2 * W, (0, tentative(1, "a")))
    node.at(W + D)
    assert [t.bucket for t in node.tentative()] == [1]
    node.at(W + D + MS, (0, tentative(2, "a")))
    assert [t.bucket for t in node.tentative()] == [1, 2]


def test_what_upstream_has_waited_is_not_waited_again() -> None:
    """B12: a source of its own is given up when upstream's bucket has used up the threshold."""
    node = Node(STREAM, Input.source("c"))
    node.at(0, (0, stable(0)), (1, stable(0)), source=[claim(0), batch(1, 0, boundary=W)])
    node.at(5 * W, (0, tentative(1, "a", held=D)), (1, tentative(1, "a", held=D)))
    assert [t.bucket for t in node.tentative()] == [1]
    assert node.tentative()[0].missing_sources == ("a", "c")


def test_lacked_names_upstreams_sources_and_completeness_multiplies() -> None:
    node = Node(STREAM, Input.source("c"))
    node.at(0, (0, stable(0)), (1, stable(0)), source=[claim(0), batch(1, 0, boundary=2 * W)])
    node.at(2 * W, (0, tentative(1, "a", completeness=0.5)), (1, tentative(1, "a", completeness=0.5)))
    (said,) = node.tentative()
    assert (said.missing_sources, said.completeness) == (("a",), 0.75)


def test_what_upstreams_windows_lacked_is_named_and_not_counted_as_missing() -> None:
    """Upstream's bucket had all sources, its window had not."""
    node = Node(STREAM)
    node.at(0, (0, stable(0)), (1, stable(0)))
    said = replace(tentative(1, "a"), missing=(), diverged_from=-3)
    node.at(2 * W, (0, said), (1, said))
    (told,) = node.tentative()
    assert (told.missing_sources, told.missing, told.completeness, told.diverged_from) == (("a",), (), 0.5, -3)


def test_a_missing_stream_lacks_all_its_sources() -> None:
    node = Node(STREAM, Input.source("c"))
    node.at(0, (0, stable(0)), (1, stable(0)), source=[claim(0), batch(1, 0, boundary=W)])
    node.at(W, source=[batch(2, 0, [(W, 3)], boundary=2 * W)])
    node.at(2 * W + D + MS)
    (said, *_) = node.tentative()
    assert (said.bucket, said.missing_sources, said.completeness) == (1, ("a", "b"), 0.5)


def beside_a_late_source() -> tuple[Node, int]:
    """A node that has run bucket 1 without source `c`, and a time just after that."""
    node = Node(STREAM, Input.source("c"))
    node.at(0, (0, stable(0)), (1, stable(0)), source=[claim(0), batch(1, 0, boundary=W)])
    node.at(2 * W + D + MS, (0, tentative(1, "a")), (1, tentative(1, "a")))
    node.at(4 * W + D + MS)
    assert [t.bucket for t in node.tentative()] == [1]
    return node, 4 * W + D + 2 * MS


def test_a_late_missing_input_is_not_waited_for_beside_a_tentative_one() -> None:
    """B11: its time has passed upstream."""
    node, now = beside_a_late_source()
    node.at(now, (0, tentative(2, "a")), (1, tentative(2, "a")))
    assert [t.bucket for t in node.tentative()] == [1, 2]


@pytest.mark.parametrize("before", [(), ("a",)], ids=["its state has diverged", "its window lacked a source"])
def test_beside_a_tentative_input_that_lacks_nothing_a_late_one_is_waited_for(before: tuple[str, ...]) -> None:
    """Simulator, seed 815636: upstream had not waited, and a source that was back stayed LATE by 2 ms a bucket."""
    node, now = beside_a_late_source()
    said = replace(tentative(2, *before), missing=())
    node.at(now, (0, said), (1, said))
    assert [t.bucket for t in node.tentative()] == [1]
    node.at(now + W + DELTA)
    assert [t.bucket for t in node.tentative()] == [1, 2]


def test_the_tentative_rows_that_lack_least_are_used() -> None:
    node = Node(STREAM)
    node.at(0, (0, stable(0)), (1, stable(0)))
    node.at(2 * W, (0, tentative(1, "a", "b")), (1, replace(tentative(1, "a"), output=rows(1, 3))))
    (said,) = node.tentative()
    assert said.output.rows == ((W, 0, 3),)
    assert said.missing_sources == ("a",)


def test_a_correction_upstream_is_corrected_here_while_upstream_still_corrects() -> None:
    node = Node(STREAM)
    node.at(0, (0, stable(0)), (1, stable(0)))
    for bucket in range(1, 6):
        node.at((bucket + 1) * W, (0, tentative(bucket, "a")), (1, tentative(bucket, "a")))
    assert (node.manager.f_s, node.manager.f_l) == (1, 6)
    node.at(8 * W, (0, stable(1)))
    assert node.manager.stagger.asking


def test_retention_at_every_replica_upstream_is_an_error() -> None:
    node = Node(STREAM)
    with pytest.raises(RetentionLost, match="stream up: retention has deleted bucket 0"):
        node.at(0, (0, stable(3)), (1, stable(4)))


def test_a_node_without_a_corrected_stream_publishes_only_dead_letters() -> None:
    made = manager(Input.source("a"), corrected=False)
    made.handle(Turn(0, inputs={0: [claim(0), batch(1, 0, [(0, 5), (7, -13)], boundary=3 * W)]}))
    assert made.f_s == 3
    kept = made.output.unpublished(0, 3, TIMING.publish_most)
    assert kept is not None
    assert [(b, o.rows, len(o.rejects)) for b, o in kept[0].items()] == [(0, None, 1)]


# A peer's checkpoint (B44) --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kept", "peer"), [((20, 30), 2), ((30, 20), 1), ((43, 5), 2), ((3, 4), 2), ((3, 3), None)])
def test_of_the_checkpoints_that_save_work_the_furthest_is_adopted(kept: tuple[int, int], peer: int | None) -> None:
    timing = replace(TIMING, inline_us=0, inline_buckets=3, slice_rows=1_000)
    node = Node(Input.source("b"), Input.source("c"), timing=timing)
    node.at(0, source=[claim(0), batch(1, 0, [(at * W, at) for at in range(41)], boundary=41 * W)])
    for step in range(20):
        node.at(100 * W + step)
    assert (node.manager.f_s, node.manager.f_l) == (0, 42)
    beats = [(i, heartbeat(i, checkpoint_bucket=each)) for i, each in enumerate(kept, 1)]
    node.manager.handle(Turn(101 * W, beats=beats))
    found = node.at(102 * W, source=[claim(0), batch(1, 0, boundary=50 * W)], index=0)
    assert [effect.job.peer for effect in found if isinstance(effect, StartRedo)] == ([] if peer is None else [peer])


def test_after_a_disagreement_no_checkpoint_is_adopted() -> None:
    timing = replace(TIMING, inline_us=0, inline_buckets=3, slice_rows=1_000)
    node = Node(Input.source("b"), Input.source("c"), timing=timing)
    node.at(0, source=[claim(0), batch(1, 0, [(at * W, at) for at in range(41)], boundary=41 * W)])
    for step in range(20):
        node.at(100 * W + step)
    found = Disagreement(0, 0, "aa", 1, "bb", "q")
    node.manager.handle(Turn(101 * W, beats=[(1, heartbeat(1, checkpoint_bucket=20))], disagreements=[found]))
    node.at(102 * W)  # whose state is wrong is not known
    said = node.at(103 * W, source=[claim(0), batch(1, 0, boundary=50 * W)], index=0)
    assert [effect.job.peer for effect in said if isinstance(effect, StartRedo)] in ([], [None])


def test_a_checkpoint_beyond_the_live_frontier_is_not_adopted() -> None:
    world = make_world(replicas=2, timing=replace(TIMING, inline_us=0))
    world.peers = True
    cut(world, 2_000 * MS, 4_000 * MS, 1)
    world.run(8_000 * MS)
    for replica in world.replicas.values():
        assert all(n.redo is None or n.redo[1] <= replica.manager.f_l for n in replica.notes)
    assert settled(world)


def test_an_adoption_that_fails_is_not_tried_again_and_the_work_is_done_alone() -> None:
    world = make_world(replicas=2, timing=replace(TIMING, inline_us=0))
    world.peers = True
    cut(world, 2_000 * MS, 6_000 * MS, 1)
    world.replicas[1].redo = "fail"
    world.run(12_000 * MS)
    assert settled(world)
    assert any(n.event == "ADOPT_FAILED" for n in world.replicas[1].notes)


def test_a_start_from_a_peers_checkpoint_fills_the_own_topic_first() -> None:
    """B2: first occurrences of stable buckets in the own topic have no hole."""
    start = StartPoint(7, FRAGMENT.initial(), None, own=4, outputs={5: rows(5)})
    made = manager(STREAM, start=start, position=2)
    said = [e.record for e in made.handle(Turn(0)) if isinstance(e, Append)]
    assert said == [StableRange(1, 4, 5), StableBucket(1, 5, rows(5)), StableRange(1, 6, 7)]
    assert made.f_s == 7
    beats = [(0, heartbeat(0, uid="u"))]
    saved = [e for e in made.handle(Turn(3_000 * MS, beats=beats)) if isinstance(e, SaveCheckpoint)]
    assert saved == []


def test_what_was_said_before_the_start_runs_live_unheard() -> None:
    """Simulator, seed 99768157: an input could not be read, and who had taken over said nothing until it could."""
    node = Node(STREAM, Input.source("c"), start=StartPoint(3, FRAGMENT.initial(), own=6))
    node.at(0, source=[claim(0), batch(1, 0, boundary=8 * W)])
    node.at(W + D + MS)
    found = [(t.bucket, t.diverged_from, t.missing_sources) for t in node.tentative()]
    assert found == [(6, 3, ("a", "b")), (7, 3, ("a", "b")), (8, 3, ("a", "b", "c"))]
    assert node.manager.speaking.counts.tentative_buckets == 3
    node.at(W + D + 2 * MS, *((0, stable(bucket)) for bucket in range(8)))
    node.at(W + D + 3 * MS, beats=[(0, heartbeat(0, uid="u", asking=True))])
    assert node.stable_end() == 8
    said = [r.bucket for r in node.said if isinstance(r, StableBucket)]
    assert said == [6, 7], "the others were said before"


def test_after_an_adoption_a_replica_upstream_that_was_heard_is_waited_for_again() -> None:
    """B13. Simulator, seed 99761798: it said the next bucket as stable 1 ms after the other one's tentative word."""
    node = Node(STREAM, timing=replace(TIMING, inline_us=0, inline_buckets=3))
    node.at(0, (0, stable(0)), (1, stable(0)))
    for bucket in range(1, 9):
        node.at(bucket * W + D + MS, (0, tentative(bucket, "a")))
    assert (node.manager.f_s, node.manager.f_l) == (1, 9)
    node.manager.handle(Turn(10 * W + D, beats=[(1, heartbeat(1, checkpoint_bucket=9))]))
    found = node.at(10 * W + D, (1, stable(1)))  # what it was behind with
    (job,) = [effect.job for effect in found if isinstance(effect, StartRedo)]
    assert job.peer == 1
    node.manager.handle(Turn(10 * W + D, redo=[RedoDone(job.id, FRAGMENT.initial(), {}, "peer", 0.0)]))
    assert (node.manager.f_s, node.manager.f_l) == (9, 9)
    node.at(10 * W + D + MS, (0, tentative(9, "a")))
    assert [t.bucket for t in node.tentative()] == list(range(1, 9))
    node.at(10 * W + D + 2 * MS, *((1, stable(bucket)) for bucket in range(2, 10)))
    assert (node.stable_end(), node.tentative()[-1].bucket) == (10, 8)


def test_an_adopted_state_counts_only_at_the_frontier_it_was_asked_for() -> None:
    """B4, also for adoptions."""
    world = make_world(replicas=2, timing=replace(TIMING, inline_us=0))
    world.peers = True
    cut(world, 2_000 * MS, 6_000 * MS, 1)
    second = world.replicas[1]
    second.redo = "hold"
    world.run(7_500 * MS)
    (job, *_) = [j for j in second.jobs if j.peer is not None]
    wrong = RedoDone(job.id + 1, "nonsense", {}, "peer", 0.0)
    second.results.append(wrong)
    world.run(7_600 * MS)
    second.redo = "answer"
    world.run(12_000 * MS)
    assert settled(world)


def test_an_adoption_is_started_as_a_job_of_its_own() -> None:
    world = make_world(replicas=2, timing=replace(TIMING, inline_us=0))
    world.peers = True
    cut(world, 2_000 * MS, 6_000 * MS, 1)
    world.replicas[1].redo = "hold"
    world.run(7_500 * MS)
    adoptions = [j for j in world.replicas[1].jobs if j.peer is not None]
    assert adoptions
    assert all((j.ranges, j.rows) == ((), 0) for j in adoptions)


def test_after_a_pause_nothing_tentative_runs_before_all_was_read() -> None:
    """B14: a stable word may lie unread behind the tentative one."""
    node = Node(STREAM)
    node.at(0, (0, stable(0)), (1, stable(0)))
    node.at(2 * W, (0, tentative(1, "a")), (1, tentative(1, "a")))
    away = 2 * W + TIMING.gap_us + MS
    effects = node.manager.handle(Turn(away, streams={0: [(0, tentative(2, "a")), (1, tentative(2, "a"))]}))
    assert any(isinstance(e, AskEnds) for e in effects)
    assert [t.bucket for t in node.tentative()] == [1]
    assert node.manager.next_wakeup() > away  # the answer wakes it, nothing else does
    effects = node.manager.handle(Turn(away + MS, streams={0: [(1, StableRange(1, 1, 3))]}, read_to=away))
    said = [e.record for e in effects if isinstance(e, Append)]
    found = [(r.bucket, r.missing_sources, r.missing) for r in said if isinstance(r, TentativeBucket)]
    assert found == [(2, ("a",), ())]  # its state has diverged, and its window reaches back to bucket 1


def test_each_bucket_of_a_stable_run_says_how_long_it_has_waited_itself() -> None:
    """Simulator, seed 5304: the first said what the last had waited, and the next node waited for it again."""
    node = Node(Input.source("a"))
    node.at(0, source=[claim(0), batch(1, 0, boundary=W)], index=0)
    node.at(2 * W, source=[batch(2, 0, [(W, 5)])], index=0)
    late = [batch(3, 1, boundary=2 * W), batch(4, 1, [(2 * W, 6)], boundary=3 * W)]
    node.at(9 * W, source=late, index=0)
    held = {r.bucket: r.waited_us for r in node.said if isinstance(r, StableBucket)}
    assert held == {1: 8 * W, 2: 0}  # bucket 2 came into being when bucket 1 was closed, just now
