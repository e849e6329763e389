"""What was said before a start is run again and not said again (R17.15): nothing else differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from borealis_py.protocol.incarnation import Heartbeat, StartPoint
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.redo import RedoDone
from borealis_py.protocol.settings import DelayPolicy, NodeDelays
from borealis_py.protocol.turn import Append, AskEnds, SaveCheckpoint, SendHeartbeat, StartRedo, Turn
from sunion.model import (
    Input,
    RecDone,
    SourceRecord,
    StableBucket,
    StableRange,
    StreamRecord,
    TentativeBucket,
    Undo,
)
from sunion.union import SUnion
from sunion.units import MonotonicUs, Offset
from tests.examples import examples
from tests.protocol.chain_node import D, manager
from tests.protocol.toy import MS, TIMING
from tests.sunion.lists import FRAGMENT, W, batch, claim, truth
from tests.sunion.unions import logs, union
from tests.support.heartbeats import heartbeat

INPUTS = [Input.source("s0"), Input.source("s1")]
W_BACK = FRAGMENT.lookback_buckets
QUIET = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Life:
    """A replica that is fed by hand, hears itself, and gets its jobs done. `whole`: all that its inputs hold."""

    manager: Manager
    whole: SUnion
    said: list[StreamRecord] = field(default_factory=list)
    saved: list[SaveCheckpoint] = field(default_factory=list)
    heard: list[tuple[Offset, Heartbeat]] = field(default_factory=list)
    done: list[RedoDone] = field(default_factory=list)
    asked: bool = False

    def reads(
        self, now: int, given: Mapping[int, Sequence[SourceRecord]], to_the_end: bool = True, answers: bool = True
    ) -> None:
        """Turns at `now` until nothing more comes of it. `answers`: jobs end."""
        at = MonotonicUs(now)
        for _ in range(100):
            read_to = at if self.asked and to_the_end else None
            beats, self.heard = self.heard, []
            redo, self.done = (self.done, []) if answers else ([], self.done)
            self.asked = self.asked and read_to is None
            self.turns(Turn(at, inputs=given, beats=beats, read_to=read_to, acked=10**9, redo=redo))
            given = {}
            comes = self.heard or (self.done and answers) or (self.asked and to_the_end)
            if not comes and self.manager.next_wakeup() > at:
                return

    def turns(self, turn: Turn) -> None:
        for effect in self.manager.handle(turn):
            match effect:
                case Append():
                    self.said.append(effect.record)
                case SaveCheckpoint():
                    self.saved.append(effect)
                case SendHeartbeat():
                    self.heard.append((Offset(turn.now), effect.heartbeat))
                case AskEnds():
                    self.asked = True
                case StartRedo():
                    self.done.append(self._run(effect))

    def _run(self, start: StartRedo) -> RedoDone:
        job = start.job
        state, outputs = FRAGMENT.step(job.state, job.first, job.end, self.whole.ordered(job.first, job.end))
        outputs = self.whole.with_rejects(job.first, job.end, outputs)
        return RedoDone(job.id, state, outputs, "peer" if job.peer is not None else "spark", 0.01)


def heard_of(said: Sequence[StreamRecord], own: int) -> Iterator[StreamRecord]:
    """What is left of what was said, if nothing below a bucket is said."""
    for record in said:
        if isinstance(record, StableRange):
            if record.end > own:
                yield replace(record, first=max(record.first, own))
        elif isinstance(record, Undo | RecDone):
            yield replace(record, bucket=max(record.bucket, own))
        elif isinstance(record, StableBucket | TentativeBucket) and record.bucket >= own:
            yield record


@QUIET
@given(logs(), st.data())
def test_it_says_what_one_says_that_says_all_but_what_was_said_before(
    logs: list[list[SourceRecord]], data: st.DataObject
) -> None:
    """Upstream backup, whose state is empty at first; the inputs come late, pause, and are read to their ends or not;
    jobs and checkpoints of a peer end at once or late."""
    before, whole = union(), union()
    for index, one in enumerate(logs):
        before.feed_all(index, one[: data.draw(st.integers(0, len(one)))])
        whole.feed_all(index, one)
    began = before.complete
    own, marks = began + (W_BACK if began else 0) + data.draw(st.integers(0, 6)), before.marks(began)
    timing = replace(TIMING, inline_us=data.draw(st.sampled_from([0, 10**6])), inline_buckets=1)
    failure, stabilization = (data.draw(st.sampled_from([DelayPolicy.PROCESS, *DelayPolicy])) for _ in range(2))
    starts = [StartPoint(began, FRAGMENT.initial(), marks, first, empty=True) for first in (own, began)]
    lives = [Life(manager(*INPUTS, start=s, timing=timing, rebuild_buckets=W_BACK), whole) for s in starts]
    for life in lives:
        life.turns(Turn(MonotonicUs(0), delays=NodeDelays(D, failure, stabilization)))
    rest = [[r for r in one if r.offset >= mark.offset] for one, mark in zip(logs, marks, strict=True)]
    now = 0
    late = data.draw(st.integers(0, 1))
    for _ in range(data.draw(st.integers(2, 10))):
        many = [data.draw(st.integers(0, 2)) if i == late else len(one) for i, one in enumerate(rest)]
        given = {i: one[:n] for i, (one, n) in enumerate(zip(rest, many, strict=True)) if one[:n]}
        rest = [one[n:] for one, n in zip(rest, many, strict=True)]
        to_the_end, answers = data.draw(st.integers(0, 3)) > 0, data.draw(st.booleans())
        kept = data.draw(st.integers(0, whole.complete)) if data.draw(st.integers(0, 3)) == 0 else None
        for life in lives:
            if kept is not None:
                life.heard.append((Offset(now), heartbeat(1, checkpoint_bucket=kept, ack_s=kept, ack_l=kept)))
            life.reads(now, given, to_the_end, answers)
        now += data.draw(st.sampled_from([D + W, D + W, 300 * MS, MS]))
        assert len({(life.manager.f_s, life.manager.f_l) for life in lives}) == 1
    for second in range(1, 6):
        for life in lives:
            life.reads(now + second * 1_000 * MS, {i: one for i, one in enumerate(rest) if one})
        rest = [[], []]
    mute, all_of_it = lives
    assert mute.said == list(heard_of(all_of_it.said, own))
    assert {r.bucket: r.output for r in mute.said if isinstance(r, StableBucket)} == {
        bucket: output for bucket, output in truth(logs)[1].items() if bucket >= own
    }
    tentative = [r for r in mute.said if isinstance(r, TentativeBucket)]
    assert mute.manager.speaking.counts.tentative_buckets == len(tentative)
    assert all(max(saved.bucket, saved.said) > own for saved in mute.saved)


def test_what_diverged_and_was_corrected_unheard_leaves_nothing_to_undo() -> None:
    """It says UNDO and REC_DONE of the bucket that it says next, and what follows has not diverged."""
    life = Life(manager(*INPUTS, start=StartPoint(3, FRAGMENT.initial(), own=6, empty=True)), union())
    life.reads(0, {0: [claim(0), batch(1, 0, boundary=4 * W)]})
    life.reads(W + D + MS, {})
    assert (life.manager.f_s, life.manager.f_l, life.said) == (3, 5, [])
    life.reads(2 * D, {1: [claim(0), batch(1, 0, boundary=4 * W)]})
    life.reads(3 * D, {1: [batch(2, 0, boundary=7 * W)], 0: [batch(2, 0, boundary=7 * W)]})
    assert life.said == [Undo(1, 6), RecDone(1, 6), StableRange(1, 6, 7, 0)]
