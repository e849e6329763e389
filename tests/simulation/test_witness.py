"""The oracles of one process see what is wrong, and only that: histories made by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from borealis_py.log.base import Feed, Record
from borealis_py.log.messages import encode
from borealis_py.log.records import TentativeHeader
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoPlace
from borealis_py.protocol.settings import Timing
from borealis_py.simulation.cluster.recorder import JobStarted, Recording
from borealis_py.simulation.runner.generator import draw
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.budgets import Checkpoints, Jobs
from borealis_py.simulation.witness.labels import Divergence
from borealis_py.simulation.witness.losing import Frontiers, Lacking
from borealis_py.simulation.witness.place import ReplicaPlace
from borealis_py.simulation.witness.queue import Queue
from borealis_py.simulation.witness.reading import CUT_OFF_US, Cursor, Known, KnownStream, TentativeWord, Voice
from borealis_py.simulation.witness.settings import Orders
from borealis_py.simulation.witness.waiting import LOOK_US, START_US, Births, Overdue, earliest_us
from sunion.model import FOREVER
from tests.support.heartbeats import heartbeat

pytestmark = pytest.mark.sim
T_US = draw(1).timing.stagger_us
CONTROL = Feed("sim.control")
ORDERS = Orders(wait_us=700, delta_us=100, failure="process", stabilization="process")


def place(replica: int = 0) -> ReplicaPlace:
    feeds = Feed("x")
    return ReplicaPlace(
        draw(1), "life", "q", replica, 0, [], {}, {}, {}, (feeds,), CONTROL, Feed("s"), Feed("t"), "q", 0, 1, 1
    )


def beat(offset: int, replica: int, asking: bool, ask: int | None = None, **more: Any) -> Record:
    said = heartbeat(replica, 1, app_uid="life", uid=f"u{replica}", asking=asking, ask_offset=ask)
    return Record(CONTROL, offset, 0, f"q/{replica}".encode(), encode(dataclasses.replace(said, **more)))


def queue(*beats: Record, replica: int = 0) -> Queue:
    made = Queue(place(replica), f"u{replica}")
    made.read(beats)
    made.looked(0, False, True)
    return made


def test_who_asked_longest_is_head_and_a_withdrawn_ask_loses_its_place() -> None:
    asked = [beat(0, 1, True), beat(1, 0, True)]
    assert not queue(*asked).may_correct(1)
    assert queue(*asked, beat(2, 1, False), beat(3, 1, True)).may_correct(1)
    assert queue(*asked, beat(2, 1, True, inc=2, uid="new", ask_offset=None)).may_correct(1), "its ask died with it"


def test_behind_a_head_that_stands_still_one_may_go_on_after_t_and_not_before() -> None:
    behind = queue(beat(0, 1, True), beat(1, 0, True))
    behind.looked(1_000_000, False, True)
    assert not behind.may_correct(T_US - 1)
    assert behind.may_correct(T_US)
    behind.read([beat(2, 1, True, 0, ack_s=5)])
    behind.looked(T_US, False, True)
    assert not behind.may_correct(T_US)


def test_heartbeats_of_another_life_or_under_another_key_say_nothing() -> None:
    other = beat(0, 1, True, app_uid="older")
    moved = Record(CONTROL, 1, 0, b"q/0", beat(1, 1, True).value)
    assert queue(other, moved, beat(2, 0, True)).may_correct(1)


def test_an_ask_that_carries_the_place_of_an_earlier_run_is_seen() -> None:
    mine = queue(beat(4, 0, True))
    mine.says({"asking": True, "ask_offset": None})
    mine.says({"asking": False, "ask_offset": 4})
    with pytest.raises(Violation, match="ask"):
        mine.says({"asking": True, "ask_offset": 4})


def test_a_voice_is_late_when_passed_over_and_forgiven_once_it_was_heard() -> None:
    voice = Voice(said=5)
    assert voice.awaited(5)
    voice.passed_over(5)
    voice.forgive()
    assert voice.late
    voice.speaks(3, False, live=7)
    assert voice.late
    voice.forgive()
    assert not voice.late


def late(name: str) -> Known:
    known = Known(name, [name], 1, 5)
    known.voices[0].late = True
    return known


def test_when_a_bucket_may_run_depends_on_policy_phase_and_who_is_late() -> None:
    in_time, silent = Known("a", ["a"], 1, 5), late("b")
    assert earliest_us(1_000, 5, [in_time, silent], ORDERS, False) == 1_700
    assert earliest_us(1_000, 5, [silent], ORDERS, False) == 1_100
    delayed = Orders(700, 100, "delay", "suspend")
    assert earliest_us(1_000, 5, [silent], delayed, False) == 1_700
    assert earliest_us(1_000, 5, [silent], delayed, True) is None


def test_what_upstream_had_waited_is_taken_off_what_exists() -> None:
    births = Births(5, 100)
    births.seen(1_000, 6, [])
    births._move(5, 300)
    births._move(7, 300)
    births.seen(2_000, 7, [])
    assert [births.end_us(b) for b in (4, 5, 6, 7, 8)] == [None, 400, 1_100, 2_100, None]


def tentative(
    bucket: int, missing_sources: tuple[str, ...], completeness: float, diverged: int, missing: bool
) -> TentativeHeader:
    own = missing_sources if missing else ()
    return TentativeHeader("life", 1, bucket, 0, 0, 1, "toy", missing_sources, own, completeness, diverged)


def test_labels_are_exact_over_the_window_of_a_result() -> None:
    gone, here = Known("a", ["a"], 1, 5), Known("b", ["b"], 1, 99)
    divergence = Divergence(span=3)
    assert divergence.ran(tentative(5, ("a",), 0.5, 5, True), [gone, here], 0) is None
    gone.closed = 99
    assert divergence.ran(tentative(6, ("a",), 0.5, 5, False), [gone, here], 0) is None
    for wrong in (
        tentative(7, (), 1.0, 5, False),
        tentative(7, ("a",), 1.0, 5, False),
        tentative(7, ("a",), 0.5, 7, False),
        tentative(7, ("a",), 0.5, 5, True),
    ):
        assert divergence.ran(wrong, [gone, here], 0) is not None
    assert divergence.ran(tentative(7, ("a",), 0.5, 5, False), [gone, here], 0) is None
    assert divergence.ran(tentative(8, (), 1.0, 5, False), [gone, here], 0) is None, "the window has passed it"
    divergence.over()
    assert divergence.ran(tentative(9, (), 1.0, 5, False), [gone, here], 0) is not None, "that was another divergence"


def test_results_that_stand_on_lost_buckets_tell_since_when_what_ran_unseen_had_diverged() -> None:
    for told, right in ((3, 3), (FOREVER, 5)):
        gone, here = Known("a", ["a"], 1, 5), Known("b", ["b"], 1, 99)
        divergence = Divergence(span=1)
        divergence.follow(5, [gone, here], 0, told)
        divergence.follow(6, [gone, here], 0)
        others = (tentative(7, ("a",), 0.5, wrong, True) for wrong in {3, 4, 5, 7} - {right})
        assert all(divergence.ran(header, [gone, here], 0) is not None for header in others)
        assert divergence.ran(tentative(7, ("a",), 0.5, right, True), [gone, here], 0) is None


@pytest.mark.parametrize(
    ("begins", "said", "since"), [(3, 3, 3), (3, 4, 4), (3, 5, FOREVER), (3, 2, FOREVER), (6, 5, FOREVER)]
)
def test_they_tell_it_only_of_buckets_that_ran_below_the_first_lost_one(begins: int, said: int, since: int) -> None:
    lacking = Lacking(place(), Recording("q", 0, "q.r0", says_from=5), Frontiers(0, 0))
    lacking._begins = begins
    assert lacking.since(tentative(5, ("a",), 0.0, said, True)) == since


class Dropped(Known):
    """Its record of bucket 6 was read, but memory may have dropped it."""

    def partials(self, bucket: int, now_us: int) -> list[TentativeWord | None]:
        nothing = frozenset("a")
        return [TentativeWord(nothing, nothing, 0.25, 5), None] if bucket == 6 else [None]


def test_where_a_label_fits_two_histories_the_next_ones_tell_which_it_was() -> None:
    """Simulator, seed 95010657: the bucket before had nothing, so the label of this one said nothing of what it had."""
    for share in (0.5, 0.625):
        divergence, inputs = Divergence(span=2), [Dropped("a", ["a"], 1, 5), Known("b", ["b"], 1, 99)]
        assert divergence.ran(tentative(5, ("a",), 0.5, 5, True), inputs, 0) is None
        assert divergence.ran(tentative(6, ("a",), 0.5, 5, True), inputs, 0) is None
        inputs[0].closed = 99
        assert divergence.ran(tentative(7, ("a",), share, 5, False), inputs, 0) is None
        assert divergence.ran(tentative(8, ("a",), share, 5, False), inputs, 0) is not None


def job(number: int, first: int, end: int) -> JobStarted:
    return JobStarted(RedoJob(id=number, first=first, end=end, state=None, ranges=(), rows=0), RedoPlace.SPARK)


def test_where_there_is_no_spark_no_job_is_for_it() -> None:
    jobs = Jobs(Timing(), lambda bucket: 4, False)
    with pytest.raises(Violation, match="for Spark, and there is none"):
        jobs.asked("r", 0, job(1, 5, 7), 5, 20)
    jobs.asked("r", 0, dataclasses.replace(job(1, 5, 7), place=RedoPlace.LOG), 5, 20)


def test_jobs_are_short_at_first_come_one_by_one_and_are_not_waited_for_for_ever() -> None:
    timing = Timing(redo_rows=10)
    jobs = Jobs(timing, lambda bucket: 4, True)
    jobs.asked("r", 0, job(1, 5, 7), 5, 20)
    with pytest.raises(Violation, match="beside"):
        jobs.asked("r", 0, job(2, 5, 7), 5, 20)
    jobs.turn_ended("r", timing.redo_deadline_most_us - 1)
    with pytest.raises(Violation, match="waited for"):
        jobs.turn_ended("r", timing.redo_deadline_most_us)
    jobs.turn([RedoFailed(1, "so")])
    assert not jobs.gives(5, 7)
    with pytest.raises(Violation, match="rows"):
        jobs.asked("r", 0, job(2, 5, 8), 5, 20)
    jobs.asked("r", 0, job(3, 5, 7), 5, 20)
    jobs.turn([RedoDone(2, None, {}, "spark", 0.0)])
    assert not jobs.gives(5, 7), "that was another job"
    jobs.turn([RedoDone(3, None, {}, "spark", 0.0)])
    assert jobs.gives(5, 7)
    jobs.asked("r", 0, job(4, 7, 12), 7, 20)  # twice as long as the first


def test_a_checkpoint_at_stable_may_wait_for_acks_and_for_one_before_it_and_no_longer() -> None:
    saves = Checkpoints()
    saves.soon(9)
    saves.turn_ended("r", 8, 9)
    saves.turn_ended("r", 9, 10)  # another one stood before it
    saves.turn_ended("r", 10, 11)
    with pytest.raises(Violation, match="no checkpoint"):
        saves.turn_ended("r", 11, 12)
    saves.soon(20)
    saves.saved(21)
    saves.turn_ended("r", 30, 31)
    saves.turn_ended("r", 30, 31)
    saves.turn_ended("r", 31, 31)


def test_what_is_due_must_be_said_by_who_is_well() -> None:
    well = True
    owes = Overdue("r", lambda first, until: well)
    owes.bucket(0, 5, True, False)
    owes.bucket(LOOK_US, 5, True, False)
    with pytest.raises(Violation, match="overdue"):
        owes.bucket(LOOK_US + 1, 5, True, False)
    owes.bucket(LOOK_US + 1, 5, True, gap=True)
    owes.bucket(2 * LOOK_US, 5, True, False)
    owes.bucket(2 * LOOK_US, 6, True, False)
    well = False
    owes.bucket(9 * LOOK_US, 6, True, False)


def test_who_has_caught_up_must_be_ready() -> None:
    owes = Overdue("r", lambda first, until: True)
    owes.check_readiness(0, True, False)
    owes.check_readiness(START_US, False, False)
    owes.check_readiness(START_US, True, False)
    with pytest.raises(Violation, match="ready"):
        owes.check_readiness(2 * START_US + 1, True, False)


def test_what_was_read_may_have_left_memory_only_while_a_log_that_is_read_again_gives_nothing() -> None:
    cursor = Cursor(0)
    for offset in range(10):
        cursor.read(offset, 1_000)
    assert not cursor.may_lack(5, 10 * CUT_OFF_US), "it was never moved"
    cursor.moved(4, False, 2_000)
    assert not cursor.may_lack(5, 2_000 + CUT_OFF_US - 1), "the reader has to wait for it (B14)"
    assert [cursor.may_lack(at, 2_000 + CUT_OFF_US) for at in (3, 4, 5, 9, 10)] == [False, True, True, True, False]
    cursor.read(4, 2_000 + CUT_OFF_US)
    assert not cursor.may_lack(5, 2_000 + CUT_OFF_US), "it has come nearer"
    assert [cursor.may_lack(at, 2_000 + 2 * CUT_OFF_US) for at in (4, 5)] == [False, True]


def test_what_was_read_and_is_deleted_cannot_be_read_again() -> None:
    cursor = Cursor(10)
    cursor.moved(4, False, 0)
    cursor.moved(10, False, 0)
    assert not cursor.may_lack(5, 0), "it went on by itself"
    cursor.moved(4, False, 0)
    cursor.moved(10, True, 0)
    assert [cursor.may_lack(at, 0) for at in (3, 4, 9, 10)] == [False, True, True, False]


def test_a_word_of_one_that_has_died_since_counts_when_it_is_read_again() -> None:
    cursor = Cursor(0)
    cursor.speaks(1, 3)
    cursor.speaks(2, 5)
    cursor.speaks(2, 8)
    assert [cursor.above(1, at) for at in (4, 5, 6)] == [False, False, True]


def test_labels_may_lack_what_has_left_memory_and_nothing_else() -> None:
    known, others = (
        KnownStream("s", dataclasses.replace(place(), origins={"s": ("a", "c")}), 2, 5),
        Known("b", ["b"], 1, 99),
    )
    known._partials[5] = {
        0: TentativeWord(frozenset("a"), frozenset(), 0.75, 5, offset=7),
        1: TentativeWord(frozenset("ac"), frozenset("c"), 0.5, 5, offset=8),
    }
    known.cursors[0].read(9, 0)
    assert known.partials(5, CUT_OFF_US) == [known._partials[5][0]]
    known.cursors[0].moved(7, False, 0)
    assert known.partials(5, CUT_OFF_US) == [known._partials[5][0], known._partials[5][1]]
    best, second = tentative(5, ("a",), 0.875, 5, False), tentative(5, ("a", "c"), 0.75, 5, False)
    second = msgspec.structs.replace(second, missing=("c",))
    nothing = tentative(5, ("a", "c"), 0.5, 5, True)
    told = [
        [Divergence(1).ran(said, [known, others], at) is None for said in (best, second, nothing)]
        for at in (0, CUT_OFF_US)
    ]
    assert told == [[True, False, False], [True, True, False]]
