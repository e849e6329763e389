"""What a replica says while it corrects (R4): UNDO first, and of corrected buckets no wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from borealis_py.protocol.redo import RedoDone, RedoPlace
from borealis_py.protocol.turn import Append, SendHeartbeat, StartRedo, Turn
from sunion.model import Input, Output, StableBucket, StableRange, Undo
from tests.protocol.chain_node import Node
from tests.protocol.toy import MS, TIMING
from tests.sunion.lists import FRAGMENT, W, batch, claim
from tests.support.heartbeats import heartbeat


def failed(**more: Any) -> Node:
    """Source `b` was silent for so long that all of `a` is tentative."""
    node = Node(Input.source("a"), Input.source("b"), **more)
    node.at(0, source=[claim(0), batch(1, 0, [(i * W, i) for i in range(20)], boundary=20 * W)], index=0)
    node.at(0, source=[claim(0)])
    node.at(5_000 * MS)
    assert len(node.tentative()) > 15
    return node


def test_a_replica_that_is_granted_says_undo_also_when_it_adopts_in_the_same_turn() -> None:
    node = failed()
    node.at(5_010 * MS, source=[batch(1, 0, [(0, 1)], boundary=20 * W)])
    own = heartbeat(0, uid="u", asking=True, app_uid="")
    peer = heartbeat(1, checkpoint_bucket=15, ack_s=20, ack_l=20)
    effects = node.manager.handle(Turn(5_020 * MS, beats=[(7, own), (8, peer)]))
    assert [e.record for e in effects if isinstance(e, Append)] == [Undo(1, 0)]
    assert [(e.job.end, e.place) for e in effects if isinstance(e, StartRedo)] == [(15, RedoPlace.PEER)]


def test_a_corrected_bucket_has_not_waited_though_its_tentative_content_had() -> None:
    """Whoever reads it counts the wait once (B11)."""
    node = failed()
    assert all(said.waited_us > 0 for said in node.tentative())
    node.at(5_010 * MS, source=[batch(1, 0, [(0, 1)], boundary=20 * W)])
    beats = [(7, heartbeat(0, uid="u", asking=True, app_uid="")), (8, heartbeat(1, checkpoint_bucket=15))]
    (job,) = [e.job for e in node.manager.handle(Turn(5_020 * MS, beats=beats)) if isinstance(e, StartRedo)]
    done = RedoDone(job.id, FRAGMENT.initial(), {b: Output(((b * W, 1),)) for b in range(3)}, "peer", 0.1)
    effects = node.manager.handle(Turn(5_030 * MS, redo=[done]))
    stable = [e.record for e in effects if isinstance(e, Append) and isinstance(e.record, StableBucket | StableRange)]
    assert [(said.bucket, said.waited_us) for said in stable if isinstance(said, StableBucket)][:3] == [
        (0, 0),
        (1, 0),
        (2, 0),
    ]
    assert [said.waited_us for said in stable] == [0] * len(stable)


def test_its_heartbeats_tell_where_in_the_log_it_began_to_ask() -> None:
    """Who starts later reads only recent ones, and has to find the same queue (B26)."""
    node = failed()
    node.at(5_010 * MS, source=[batch(1, 0, [(0, 1)], boundary=20 * W)])
    beats = [(5, heartbeat(1, asking=True)), (7, heartbeat(0, uid="u", asking=True, app_uid=""))]
    node.manager.handle(Turn(5_020 * MS, beats=beats))
    effects = node.manager.handle(Turn(5_020 * MS + TIMING.heartbeat_us))
    (beat,) = [e.heartbeat for e in effects if isinstance(e, SendHeartbeat)]
    assert (beat.asking, beat.ask_offset) == (True, 7)


def test_without_spark_no_job_goes_there() -> None:
    """What left memory is read from the log, which this process does itself."""
    node = failed(timing=replace(TIMING, buffer_rows_max=5), spark=False)
    node.at(5_010 * MS, source=[batch(1, 0, [(0, 1)], boundary=20 * W)])
    beats = [(7, heartbeat(0, uid="u", asking=True, app_uid=""))]
    effects = node.manager.handle(Turn(5_020 * MS, beats=beats))
    assert [e.place for e in effects if isinstance(e, StartRedo)] == [RedoPlace.LOG]
