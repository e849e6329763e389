"""A peer's checkpoint is taken over (R14, B44), and nothing else that the turn decided is lost by it."""

from __future__ import annotations

from borealis_py.protocol.redo import RedoPlace
from borealis_py.protocol.turn import Append, StartRedo, Turn
from sunion.model import Input, Undo
from tests.protocol.chain_node import Node
from tests.protocol.toy import MS
from tests.sunion.lists import W, batch, claim
from tests.support.heartbeats import heartbeat


def test_a_replica_that_is_granted_says_undo_also_when_it_adopts_in_the_same_turn() -> None:
    node = Node(Input.source("a"), Input.source("b"))
    node.at(0, source=[claim(0), batch(1, 0, [(i * W, i) for i in range(20)], boundary=20 * W)], index=0)
    node.at(0, source=[claim(0)])
    node.at(5_000 * MS)
    assert len(node.tentative()) > 15
    node.at(5_010 * MS, source=[batch(1, 0, [(0, 1)], boundary=20 * W)])
    own = heartbeat(0, uid="u", asking=True, app_uid="")
    peer = heartbeat(1, checkpoint_bucket=15, ack_s=20, ack_l=20)
    effects = node.manager.handle(Turn(5_020 * MS, beats=[(7, own), (8, peer)]))
    assert [e.record for e in effects if isinstance(e, Append)] == [Undo(1, 0)]
    assert [(e.job.end, e.place) for e in effects if isinstance(e, StartRedo)] == [(15, RedoPlace.PEER)]
