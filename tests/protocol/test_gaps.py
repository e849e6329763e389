"""What a replica says that begins with nothing where its inputs stand (R18.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.protocol.incarnation import StartPoint
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import Append, AskEnds, Effect, EmitEvent, SaveCheckpoint, Turn
from sunion.model import GapRange, Input, Output, SourceRecord, StableBucket, StableRange, StreamRecord, TentativeBucket
from sunion.union import Mark
from tests.protocol.chain_node import D, manager
from tests.protocol.toy import TIMING
from tests.sunion.lists import FRAGMENT, W, batch, claim
from tests.sunion.unions import logs, union
from tests.support.heartbeats import heartbeat

INPUTS = [Input.source("s0"), Input.source("s1")]
W_BACK = FRAGMENT.lookback_buckets


@dataclass
class Life:
    """A replica that is fed by hand. `at`: monotonic microseconds."""

    manager: Manager
    at: int = 0
    said: list[StreamRecord] = field(default_factory=list)
    events: list[EmitEvent] = field(default_factory=list)
    saved: list[SaveCheckpoint] = field(default_factory=list)
    asked: bool = False

    def reads(self, *inputs: Sequence[SourceRecord], to_the_end: bool = True) -> None:
        """Turns until nothing more comes of it."""
        given = {i: records for i, records in enumerate(inputs) if records}
        for _ in range(6):
            self.at += 1_000
            read_to = self.at if self.asked and to_the_end else None
            self.asked = self.asked and not to_the_end
            beats = [(0, heartbeat(0, uid="u", asking=self.manager.stagger.asking))]
            turn = Turn(self.at, inputs=given, beats=beats, read_to=read_to, acked=10**9)
            effects = self.manager.handle(turn)
            self.said += [effect.record for effect in effects if isinstance(effect, Append)]
            self.events += [effect for effect in effects if isinstance(effect, EmitEvent)]
            self.saved += [effect for effect in effects if isinstance(effect, SaveCheckpoint)]
            self.asked |= any(isinstance(effect, AskEnds) for effect in effects)
            given = {}

    def gaps(self) -> list[tuple[int, int]]:
        return [(said.first, said.end) for said in self.said if isinstance(said, GapRange)]

    def tentative(self) -> list[TentativeBucket]:
        return [said for said in self.said if isinstance(said, TentativeBucket)]

    def stable(self) -> dict[int, Output]:
        """By bucket; of empty ones only those of ranges."""
        found: dict[int, Output] = {}
        for said in self.said:
            if isinstance(said, StableBucket):
                found[said.bucket] = said.output
            elif isinstance(said, StableRange):
                found |= dict.fromkeys(range(said.first, said.end), Output())
        return found


def forgetful(bucket: int, first: int, marks: tuple[Mark, ...] | None = None) -> Life:
    start = StartPoint(bucket, FRAGMENT.initial(), marks, first, empty=True, present=True)
    return Life(manager(*INPUTS, start=start))


def log(*upto: int, seq: int = 0) -> list[SourceRecord]:
    """A claim, and one row in each bucket below each of these, which it closes."""
    return [claim(0), *(batch(n + 1, seq + n, [((b - 1) * W, b)], b * W) for n, b in enumerate(upto))]


def test_it_runs_nothing_before_it_has_read_all() -> None:
    life = forgetful(0, 3)
    life.reads(log(1, 2, 3, 4), log(4), to_the_end=False)
    assert life.said == []
    assert (life.manager.f_s, life.manager.f_l) == (4, 4)
    life.reads()
    assert life.gaps() == [(3, 4)]
    assert [event.detail for event in life.events if event.event == "GAP"] == [
        "buckets 3 to 6 are lost: nobody ran, and these or what they stand on is not read again"
    ]


def test_nothing_is_lost_before_its_end_has_come() -> None:
    """Deleted records may have had rows of the next minute, and a peer that lacks nothing may still say these."""
    life = forgetful(20, 3)
    life.reads(log(1, 2, 3, 4), log(4))
    life.reads([batch(9, 9, [], 19 * W)], [batch(9, 9, [], 19 * W)])
    assert life.said == []
    assert life.manager.state is ReplicaState.RECOVERING
    life.reads([batch(10, 10, [], 20 * W)])
    assert life.gaps() == [(3, 20)]


def test_what_comes_while_a_start_waits_is_not_lost() -> None:
    life = forgetful(20, 3)
    life.reads(log(1, 2, 3, 4), log(4))
    life.reads([batch(9, 9, [(21 * W, 1)], 40 * W)], [batch(9, 9, [(30 * W, 1)], 40 * W)])
    assert life.gaps() == [(3, 20), (20, 20 + W_BACK)]
    assert set(life.stable()) == set(range(20 + W_BACK, 40))


def test_what_stands_on_lost_buckets_is_tentative_and_then_lost() -> None:
    life = forgetful(0, 3)
    life.reads(log(4), log(4))
    life.reads([batch(9, 9, [(5 * W, 1)], 6 * W)], [batch(9, 9, [], 6 * W)])
    shown = [(said.bucket, said.output.rows is not None) for said in life.tentative()]
    assert shown == [(4, False), (5, True)], "whoever reads it need not wait for 4"
    assert {(s.missing_sources, s.missing, s.completeness, s.diverged_from) for s in life.tentative()} == {
        (("s0", "s1"), (), 0.0, 3)
    }
    assert life.stable() == {}, "a window of four buckets stands on them"
    life.reads([batch(10, 10, [], 9 * W)], [batch(10, 10, [], 9 * W)])
    assert life.gaps() == [(3, 4), (4, 7)]
    assert sorted(life.stable()) == [7, 8]
    assert [type(said) for said in life.said[-3:]] == [GapRange, StableBucket, StableRange]


def test_what_is_said_of_them_counts_as_tentative() -> None:
    life = forgetful(0, 3)
    life.reads(log(4), log(4))
    life.reads([batch(9, 9, [(5 * W, 1)], 6 * W)], [batch(9, 9, [], 6 * W)])
    counts = life.manager.status().counts
    assert (counts.tentative_buckets, counts.tentative_rows, counts.stable_buckets) == (2, 1, 0)


def test_no_more_of_them_are_said_in_a_turn_than_its_outbox_takes() -> None:
    """A source that was silent closes hours of empty buckets at once, and each of those is a record."""
    start = StartPoint(0, FRAGMENT.initial(), None, 3, empty=True, present=True)
    life = Life(manager(*INPUTS, start=start, timing=replace(TIMING, outbox_max=2)))
    life.reads(log(4), log(4))
    jump = {i: [batch(9, 9, [], 9 * W)] for i in range(2)}
    said = [len(tentative_in(life.manager.handle(Turn(life.at + 1, inputs=jump, acked=10**9))))]
    said += [len(tentative_in(life.manager.handle(Turn(life.at + n, acked=10**9)))) for n in (2, 3)]
    assert said == [2, 1, 0], "4 to 6 stand on lost ones"


def tentative_in(effects: Sequence[Effect]) -> list[Effect]:
    return [said for said in effects if isinstance(said, Append) and isinstance(said.record, TentativeBucket)]


def test_what_is_missing_there_is_not_corrected() -> None:
    life = forgetful(0, 3)
    life.reads(log(4), log(4))
    life.reads([batch(9, 9, [(4 * W, 1)], 5 * W)])
    life.at += W + D
    life.reads()
    life.reads()
    word = life.tentative()[0]
    assert (word.bucket, word.missing, word.missing_sources, word.completeness) == (4, ("s1",), ("s0", "s1"), 0.0)
    life.reads([batch(10, 10, [], 9 * W)], [batch(9, 9, [(4 * W, 2)], 9 * W)])
    assert [said.bucket for said in life.tentative()].count(4) == 1
    assert 4 not in life.stable()


def test_what_was_said_before_is_not_lost() -> None:
    life = forgetful(2, 9)
    life.reads(log(3), log(3))
    life.reads([batch(9, 9, [(10 * W, 1)], 12 * W)], [batch(9, 9, [], 12 * W)])
    assert life.gaps() == [], "it is whole from 6 on"
    assert sorted(life.stable()) == [9, 10, 11]


def test_what_was_said_before_and_cannot_be_read_runs_unheard_and_the_rest_is_lost() -> None:
    """An input is cut off: it begins below what was said, and is whole above it."""
    life = forgetful(0, 3)
    life.reads(log(7), log(2))
    assert (life.manager.f_s, life.said) == (2, [])
    life.at += W + D
    life.reads()
    lost = (("s0", "s1"), 0.0, 2)
    assert [(t.bucket, t.missing_sources, t.completeness, t.diverged_from) for t in life.tentative()] == [
        (3, *lost),
        (4, *lost),
        (5, ("s1",), 0.5, 2),
        (6, ("s1",), 0.5, 2),
        (7, ("s0", "s1"), 0.0, 2),
    ]
    life.reads([], [batch(9, 9, [], 7 * W)])
    assert (life.gaps(), sorted(life.stable())) == ([(3, 5)], [5, 6])
    assert [t.bucket for t in life.tentative()] == [3, 4, 5, 6, 7], "each word is the last one"


def test_at_the_origin_nothing_is_missing_in_the_state() -> None:
    life = forgetful(0, 0)
    life.reads()
    life.reads(log(2), log(2))
    assert (life.gaps(), sorted(life.stable())) == ([], [0, 1])


def test_no_checkpoint_is_taken_before_the_state_is_whole() -> None:
    life = forgetful(0, 3)
    life.reads(log(4), log(4))
    for upto in (5, 6, 7, 8):
        life.at += 3_000_000
        life.reads([batch(upto, upto, [], upto * W)], [batch(upto, upto, [], upto * W)])
        assert [saved.bucket for saved in life.saved] == ([] if upto < 8 else [8])


@given(logs(), st.data())
def test_what_is_stable_is_what_a_run_without_failures_gives(
    logs: list[list[SourceRecord]], data: st.DataObject
) -> None:
    """It may begin at any place, with any part of the logs there to read, and whatever was said before."""
    cuts = [sorted(data.draw(st.lists(st.integers(0, len(one)), min_size=2, max_size=2))) for one in logs]
    before, whole = union(), union()
    for index, (one, (place, _)) in enumerate(zip(logs, cuts, strict=True)):
        before.feed_all(index, one[:place])
        whole.feed_all(index, one)
    began = before.complete
    first = data.draw(st.integers(began, max(began, whole.complete)))
    life = forgetful(began, first, before.marks(began))
    offsets = [mark.offset for mark in before.marks(began)]
    rest = [[r for r in one if r.offset >= offset] for one, offset in zip(logs, offsets, strict=True)]
    life.reads(*([r for r in one if r.offset < end] for one, (_, end) in zip(rest, cuts, strict=True)))
    arrived = life.manager.f_s
    life.reads(*([r for r in one if r.offset >= end] for one, (_, end) in zip(rest, cuts, strict=True)))
    _, truth = FRAGMENT.step(FRAGMENT.initial(), 0, whole.complete, whole.ordered(0, whole.complete))
    truth = whole.with_rejects(0, whole.complete, truth)
    assert {b: o for b, o in life.stable().items() if o != Output()} == {
        b: o for b, o in truth.items() if b in life.stable()
    }
    covered = sorted([*life.stable(), *(b for first_, end in life.gaps() for b in range(first_, end))])
    assert covered == list(range(first, first + len(covered))), "each bucket once: stable, or named as lost"
    if arrived > 0 and arrived + W_BACK > first and life.gaps() and whole.complete >= arrived + W_BACK:
        assert life.gaps()[-1][1] == arrived + W_BACK
