"""Was everything read? Also when the way to a feed is lost before the answer, or between it and the last record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.ends import CUT_OFF_US, FIRST_US, FULL_POLLS, GIVE_UP_US, EndsWatch
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog

NEAR, FAR = Feed("near"), Feed("far")
MS = 1000


class Scene:
    """Two feeds, read by a client that has asked for their ends once."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.log = MemoryLog(self.scheduler)
        client = self.log.client("a")
        self.reader = client.reader(lambda: None)
        for feed in (NEAR, FAR):
            client.admin().create([TopicSpec(feed.topic)])
            self.reader.open(feed, 0)
        self.watch = EndsWatch(client.lookup(), self.reader)
        assert self.answer_takes() < 10 * MS

    def write(self, feed: Feed) -> None:
        self.log.broker.append(NewRecord(feed, b"x"))

    def answer_takes(self) -> int:
        """From a question to "read", in microseconds; what arrives is polled."""
        asked = self.scheduler.now_us
        self.watch.ask(asked, [NEAR, FAR])
        while (read_to := self.watch.read_to(self.scheduler.now_us)) is None:
            self.scheduler.run_until(self.scheduler.now_us + MS)
            self.reader.poll()
            assert self.scheduler.now_us < asked + 10 * GIVE_UP_US
        assert read_to == asked
        return self.scheduler.now_us - asked


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_is_read_when_everything_below_the_ends_was_polled(scene: Scene) -> None:
    scene.write(FAR)
    scene.watch.ask(scene.scheduler.now_us, [NEAR, FAR])
    asked = scene.scheduler.now_us
    assert scene.watch.unanswered
    scene.scheduler.run_until(asked + 20 * MS)
    assert scene.watch.read_to(scene.scheduler.now_us) is None, "the end is 1, and nothing was polled yet"
    assert not scene.watch.unanswered
    assert scene.reader.poll()
    assert scene.watch.read_to(scene.scheduler.now_us) == asked


def test_a_feed_that_is_cut_off_is_waited_for_once(scene: Scene) -> None:
    scene.log.cut("a", {"far"})
    assert GIVE_UP_US <= scene.answer_takes() < GIVE_UP_US + 10 * MS
    assert scene.answer_takes() < 10 * MS, "each bucket would be so much later"
    scene.scheduler.run_until(scene.scheduler.now_us + CUT_OFF_US)
    assert scene.answer_takes() >= GIVE_UP_US, "it may be back, with nothing new to say"


def test_what_was_cut_off_while_the_asker_was_away_is_asked_again_when_it_is_back(scene: Scene) -> None:
    scene.log.cut("a", {"far"})
    scene.watch.ask(scene.scheduler.now_us, [NEAR, FAR])
    scene.scheduler.run_until(scene.scheduler.now_us + 2 * GIVE_UP_US)
    scene.log.heal("a")
    scene.write(FAR)
    scene.scheduler.run_until(scene.scheduler.now_us + CUT_OFF_US)
    assert scene.watch.read_to(scene.scheduler.now_us) is not None, "the answer of before"
    scene.watch.ask(scene.scheduler.now_us, [NEAR, FAR])
    scene.scheduler.run_until(scene.scheduler.now_us + 20 * MS)
    assert scene.watch.read_to(scene.scheduler.now_us) is None, "its record was not polled yet"
    assert scene.reader.poll()
    assert scene.watch.read_to(scene.scheduler.now_us) is not None


def test_a_feed_of_which_something_is_read_is_waited_for_again(scene: Scene) -> None:
    scene.log.cut("a", {"far"})
    scene.answer_takes()
    scene.log.heal("a")
    scene.write(FAR)
    scene.scheduler.run_until(scene.scheduler.now_us + 10 * MS)
    assert scene.reader.poll()
    scene.log.cut("a", {"far"})
    assert scene.answer_takes() >= GIVE_UP_US


def test_a_feed_that_is_lost_after_the_answer_is_given_up_as_well(scene: Scene) -> None:
    asked = scene.scheduler.now_us
    scene.write(FAR)
    scene.watch.ask(asked, [NEAR, FAR])
    scene.scheduler.run_until(asked + 10 * MS)
    assert scene.watch.read_to(scene.scheduler.now_us) is None
    scene.scheduler.run_until(asked + 10 * MS + GIVE_UP_US)
    assert scene.watch.read_to(scene.scheduler.now_us) == asked, "nothing of it came out of the reader"


def test_a_long_way_that_is_being_read_is_not_given_up(scene: Scene) -> None:
    scene.log.poll_records_max = 1
    for _ in range(3):
        scene.write(FAR)
    asked = scene.scheduler.now_us
    scene.watch.ask(asked, [NEAR, FAR])
    for _ in range(3):
        scene.scheduler.run_until(scene.scheduler.now_us + GIVE_UP_US - 10 * MS)
        assert scene.watch.read_to(scene.scheduler.now_us) is None
        assert scene.reader.poll()
    assert scene.watch.read_to(scene.scheduler.now_us) == asked


def test_a_feed_is_not_given_up_while_others_fill_each_poll(scene: Scene) -> None:
    """Simulator, seed 97009623: a turn of a second, the next poll was full of other inputs' records, and an input whose
    records had long arrived counted as cut off and as missing."""
    scene.log.poll_records_max = 1
    scene.write(FAR)
    asked = scene.scheduler.now_us
    scene.watch.ask(asked, [NEAR, FAR])
    turns = 0
    while not scene.reader.position(FAR):
        turns += 1
        scene.write(NEAR)
        scene.write(NEAR)
        scene.scheduler.run_until(scene.scheduler.now_us + GIVE_UP_US + MS)
        assert scene.watch.read_to(scene.scheduler.now_us) is None
        assert scene.reader.poll()
    assert turns > 1
    assert scene.reader.poll(), "what was asked for of NEAR, too"
    assert scene.watch.read_to(scene.scheduler.now_us) == asked


class Behind:
    """A reader that never gets to the end of what arrives; of FAR nothing ever comes."""

    more = True

    def position(self, feed: Feed) -> int:
        return 0


def test_a_lost_feed_is_given_up_though_no_poll_gets_to_the_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.write(FAR)
    asked = scene.scheduler.now_us
    scene.watch.ask(asked, [NEAR, FAR])
    monkeypatch.setattr(scene.watch, "_reader", Behind())
    said = []
    for _ in range(FULL_POLLS + 3):
        scene.scheduler.run_until(scene.scheduler.now_us + GIVE_UP_US)
        said.append(scene.watch.read_to(scene.scheduler.now_us))
    assert said == [None] * FULL_POLLS + [asked, None, None]


class Silent:
    """A log that does not answer."""

    def poll(self) -> Mapping[Feed, int | None] | None:
        return None


def test_a_log_that_does_not_answer_counts_as_cut_off(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[Feed]] = []

    def ask_ends(feeds: Sequence[Feed]) -> Silent:
        asked.append(feeds)
        return Silent()

    lookup = scene.log.client("b").lookup()
    monkeypatch.setattr(lookup, "ask_ends", ask_ends)
    watch = EndsWatch(lookup, scene.reader)
    for i, (feeds, patience_us) in enumerate((([NEAR], FIRST_US), ([NEAR, FAR], GIVE_UP_US))):
        at = i * FIRST_US
        watch.ask(at, feeds)
        assert watch.read_to(at + patience_us - 1) is None
        assert watch.read_to(at + patience_us) == at
    assert asked == [[NEAR], [FAR]]
