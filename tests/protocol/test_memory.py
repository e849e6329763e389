"""A node with memory for a few rows: what it drops, holds and reads again (R6)."""

from __future__ import annotations

from dataclasses import replace

from borealis_py.protocol.settings import DelayPolicy, NodeDelays
from borealis_py.protocol.turn import Append, AskEnds, ReadAgain, Turn
from sunion.model import Input, StreamRecord, TentativeBucket
from tests.protocol.chain_node import STREAM, D, Node, stable, tentative
from tests.protocol.toy import TIMING
from tests.sunion.lists import W, batch, claim


class Rereading(Node):
    """With memory for a few rows. What each replica upstream has said can be read again."""

    def __init__(self, rows_max: int, *inputs: Input) -> None:
        super().__init__(*(inputs or (STREAM,)), timing=replace(TIMING, buffer_rows_max=rows_max))
        self.topics: list[list[StreamRecord]] = [[], []]
        self.asked: list[ReadAgain] = []
        self.most = 0

    def hears(self, now: int, *records: StreamRecord, delays: NodeDelays | None = None) -> None:
        """Both replicas upstream say it; turns until nothing more happens."""
        said: list[tuple[int, StreamRecord]] = []
        for record in records:
            for k, topic in enumerate(self.topics):
                found = replace(record, offset=len(topic)) if isinstance(record, TentativeBucket) else record
                topic.append(found)
                said.append((k, found))
        read_to = None
        while True:
            turn = Turn(now, streams={0: said} if said else {}, read_to=read_to, acked=10**9, delays=delays)
            effects = self.manager.handle(turn)
            self.most = max(self.most, self.manager.union.kept_rows)
            self.said += [e.record for e in effects if isinstance(e, Append)]
            again = [e for e in effects if isinstance(e, ReadAgain)]
            self.asked += again
            said, delays = [(e.replica, r) for e in again for r in self.topics[e.replica][e.offset :]], None
            read_to = now if any(isinstance(e, AskEnds) for e in effects) else None
            if not effects:
                return


SUSPEND = NodeDelays(D, DelayPolicy.SUSPEND, DelayPolicy.SUSPEND)


def test_tentative_rows_of_a_stream_that_nobody_uses_yet_do_not_fill_the_memory() -> None:
    """Here policy `suspend` uses none, for as long as upstream's source is away: an hour of it were gigabytes."""
    node = Rereading(16)
    node.hears(0, stable(0), delays=SUSPEND)
    for bucket in range(1, 60):
        node.hears((bucket + 1) * W, tentative(bucket, "a"))
    assert (node.tentative(), node.most) == ([], 16)
    node.hears(100 * W, *(stable(b) for b in range(1, 60)))
    assert (node.stable_end(), node.asked, node.manager.union.kept_rows) == (60, [], 0)


def test_tentative_rows_that_memory_had_no_room_for_are_read_again_when_their_turn_comes() -> None:
    node, roomy = Rereading(16), Rereading(10_000)
    for one in (node, roomy):
        one.hears(0, stable(0), delays=SUSPEND)
        for bucket in range(1, 40):
            one.hears((bucket + 1) * W, tentative(bucket, "a"))
        one.hears(60 * W, delays=NodeDelays(D))
    assert [t.bucket for t in node.tentative()] == list(range(1, 40))
    assert node.tentative() == roomy.tentative(), "no row is left out, none is named as missing"
    assert (roomy.asked, node.most, roomy.most) == ([], 16, 2 * 39)
    assert {(e.index, e.replica) for e in node.asked} == {(0, 0), (0, 1)}


def test_a_source_that_fills_the_memory_leaves_a_quarter_for_tentative_rows() -> None:
    node = Rereading(16, STREAM, Input.source("c"))
    node.hears(0, stable(0), delays=SUSPEND)
    node.hears(W, *(tentative(b, "a") for b in range(1, 20)))
    rows_of_c = [(W + i, i) for i in range(20)]
    node.manager.handle(Turn(2 * W, inputs={1: [claim(0), batch(1, 0, rows_of_c, boundary=9 * W)]}))
    assert node.manager.union.kept_rows == 20 + 4
    assert node.manager.throttled == {1}


def test_an_input_that_was_held_for_want_of_memory_is_read_before_it_counts_as_missing() -> None:
    """Simulator, seed 30000244: it lay in the log, and was called missing, since the log's end was known of before."""
    node = Node(Input.source("b"), Input.source("c"), timing=replace(TIMING, buffer_rows_max=16, slice_rows=200))
    manager, rows_of_c, now = node.manager, [(W + i, i) for i in range(20)], 60 * W
    manager.handle(Turn(2 * W, inputs={1: [claim(0), batch(1, 0, rows_of_c, boundary=9 * W)]}))
    assert manager.throttled == {1}
    manager.handle(Turn(now - 2, read_to=2 * W))
    manager.handle(Turn(now, read_to=now - 1))
    found = manager.handle(Turn(now + 1))
    assert (manager.f_l, manager.throttled) == (9, frozenset()), "its rows are used up"
    assert any(isinstance(e, AskEnds) for e in found)
    of_bucket_9 = batch(2, 20, [(9 * W, 0)], boundary=10 * W)
    (said,) = [e.record for e in manager.handle(Turn(now + 2, inputs={1: [of_bucket_9]}, read_to=now + 1))
               if isinstance(e, Append) and isinstance(e.record, TentativeBucket)]  # fmt: skip
    assert (said.bucket, said.missing) == (9, ("b",))


def test_what_lies_behind_a_cursor_that_waited_is_read_before_it_counts_as_missing() -> None:
    """The log of the first replica upstream begins late: it is read on when the second has said what is before."""
    node = Node(STREAM, Input.source("c"))
    manager, now = node.manager, 60 * W
    late = {0: [(1, stable(0)), (0, stable(2))]}
    manager.handle(Turn(2 * W, streams=late, inputs={1: [claim(0), batch(1, 0, [], boundary=9 * W)]}, delays=SUSPEND))
    assert (manager.union.waiting, manager.f_l) == ({(0, 0)}, 1)
    manager.handle(Turn(now - 1, read_to=2 * W))
    found = manager.handle(Turn(now, streams={0: [(1, stable(1))]}, read_to=now - 1, delays=NodeDelays(D)))
    assert (manager.union.waiting, manager.f_s, manager.f_l) == (frozenset(), 3, 3), (
        "the stream's end was not asked for yet"
    )
    assert any(isinstance(e, AskEnds) for e in found)
    manager.handle(Turn(now + 1, read_to=now))
    assert manager.f_l > 3, "there was nothing more"


def test_what_the_own_topic_has_not_acknowledged_is_bounded_with_missing_inputs_too() -> None:
    """B43: a topic that takes nothing stops what is run live, not only what is complete."""
    node = Node(Input.source("a"), Input.source("b")).manager
    rows = [(bucket * W, bucket) for bucket in range(500)]
    node.handle(Turn(0, inputs={0: [claim(0), batch(1, 0, rows, boundary=500 * W)], 1: [claim(0)]}))
    records: list[StreamRecord] = []
    now = 100_000_000
    for _ in range(200):
        now += 1_000
        effects = node.handle(Turn(now, read_to=now))
        records += [e.record for e in effects if isinstance(e, Append)]
    assert any(isinstance(record, TentativeBucket) for record in records)
    assert TIMING.outbox_max <= len(records) <= TIMING.outbox_max + 2, "one more bucket, and the range before it"
