"""Looking at an app again and again, on the simulated log: what is new, what is gone, what cannot be reached."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from borealis_py.app.state import NoSuchApp, StatusReader
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.messages import InputStatus, Threshold, encode
from borealis_py.observe.follower import EVENTS, Follower
from tests.support.app_log import NAME, AppLog
from tests.support.statuses import WALL_US


def following(log: AppLog, name: str | None = None) -> Follower:
    return Follower(log, name)


def states(follower: Follower) -> dict[tuple[str, int], str]:
    return {key: s.state for key, s in follower.look().statuses.items()}


def test_what_is_new_shows_and_what_was_stays(log: AppLog) -> None:
    log.say()
    follower = following(log)
    assert states(follower) == {("q", 0): "STABLE"}
    log.say(replica=1, state="RECOVERING")
    assert states(follower) == {("q", 0): "STABLE", ("q", 1): "RECOVERING"}
    log.say(replica=1)
    assert states(follower) == {("q", 0): "STABLE", ("q", 1): "STABLE"}
    follower.close()
    assert log.unclosed == 0


def test_settings_show_when_they_change(log: AppLog) -> None:
    follower = following(log)
    log.put_value(topics.settings(NAME), "threshold/q", encode(Threshold(700_000)))
    assert follower.look().state.threshold_us("q") == 700_000


def test_the_newest_events_are_kept(log: AppLog) -> None:
    log.say(event="READY", detail="before")
    follower = following(log)
    for n in range(2 * EVENTS):
        log.say(event="SILENT" if n % 2 else "", detail=str(n))
        if n == EVENTS:
            follower.look()
    events = follower.look().events
    assert [e.detail for e in events] == ["before", *(str(n) for n in range(1, 2 * EVENTS, 2))][-EVENTS:]
    assert follower.look().events == events


def test_rates_come_of_two_looks_and_start_over_with_another_app(log: AppLog) -> None:
    follower = following(log)
    log.say(inputs=(InputStatus("s", 0, False, True, False, 0, 100),))
    assert follower.look().rates == {}
    log.say(at_wall_us=WALL_US + 1_000_000, inputs=(InputStatus("s", 0, False, True, False, 0, 150),))
    assert follower.look().rates == {("q", 0): (50.0,)}
    assert follower.look().rates == {("q", 0): (50.0,)}
    log.delete_topics()
    log.describe(origin=77)
    assert follower.look().rates == {}


def test_a_broker_that_is_away_ends_nothing(log: AppLog) -> None:
    log.say()
    follower = following(log)
    follower.look()
    log.cut()
    view = follower.look()
    assert "no broker answered" in view.problem
    assert list(view.statuses) == [("q", 0)]
    log.heal()
    log.say(replica=1)
    assert follower.look().problem == ""
    assert list(follower.view.statuses) == [("q", 0), ("q", 1)]


def test_an_app_that_is_gone_and_one_begun_anew(log: AppLog) -> None:
    log.say(event="READY")
    follower = following(log)
    assert len(follower.look().events) == 1
    log.delete_topics()
    assert "a.settings[0]: no such topic" in follower.look().problem
    log.describe(origin=77)
    log.say(replica=1)
    view = follower.look()
    assert (view.problem, view.state.origin, list(view.statuses), view.events) == ("", 77, [("q", 1)], ())


def test_an_app_begun_anew_between_two_looks(log: AppLog) -> None:
    """Its new topic is longer than the old one was when last read."""
    log.say(event="READY", detail="old")
    follower = following(log)
    follower.look()
    log.describe(origin=77)
    for n in range(3):
        log.say(replica=1, event="READY", detail=f"new {n}")
    view = follower.look()
    assert list(view.statuses) == [("q", 1)]
    assert [e.detail for e in view.events] == ["new 0", "new 1", "new 2"]


def test_a_reader_goes_on_where_records_were_deleted_or_the_topic_made_anew(log: AppLog) -> None:
    topic = topics.status(NAME)
    reader = StatusReader(log, NAME)
    for n in range(3):
        log.say(detail=str(n))
    assert [s.detail for s in reader.poll()] == ["0", "1", "2"]
    for n in range(3, 6):
        log.say(detail=str(n))
    log.delete_before(Feed(topic), 5)
    assert [s.detail for s in reader.poll()] == ["5"]
    log.create([topic])
    log.say(detail="anew")
    assert [s.detail for s in reader.poll()] == ["anew"]
    assert reader.poll() == []


@pytest.mark.parametrize("names", [(), ("b", "c")])
def test_there_must_be_one_app_to_look_at(log: AppLog, names: Sequence[str]) -> None:
    if not names:
        log.delete_topics()
    for name in names:
        log.create((topics.settings(name), topics.control(name)))
    with pytest.raises(
        NoSuchApp, match="no app on this broker" if not names else "several apps on this broker: a, b, c"
    ):
        following(log)
