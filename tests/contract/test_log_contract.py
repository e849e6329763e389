"""What node, client and redo rely on, of every log (`borealis_py/log/base.py`)."""

from __future__ import annotations

import contextlib
import random

import pytest

from borealis_py.log.base import (
    AtWork,
    Committed,
    Delivery,
    Feed,
    Fenced,
    LogError,
    NewRecord,
    OffsetGone,
    Reader,
    Record,
    TookOver,
    TopicSpec,
)
from tests.contract.steps import append_all, commit, event, fill, opened, read_until, take_over, values
from tests.contract.worlds import LogWorld
from tests.support.resume import last_number


def test_a_reader_gets_every_record_of_a_feed_in_order_as_it_was_appended(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    appender = log_world.log("writer").appender(log_world.wake)
    sent = [
        NewRecord(feed, f"v{i}".encode(), key=f"k{i}".encode(), timestamp_ms=1 + i, headers=(("h", b"1"), ("h", b"2")))
        for i in range(50)
    ]
    offsets = append_all(log_world, appender, sent)
    reader = log_world.log().reader(log_world.wake)
    reader.open(feed, 0)
    got = read_until(log_world, reader, 50)
    assert offsets == sorted(offsets)
    assert [r.offset for r in got] == offsets
    assert [(r.feed, r.value, r.key, r.timestamp_ms, tuple(r.headers)) for r in got] == [
        (s.feed, s.value, s.key, s.timestamp_ms, s.headers) for s in sent
    ]
    appender.close()
    reader.close()


def test_a_value_may_be_missing_and_the_log_stamps_records_without_a_time(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    appender = log_world.log("writer").appender(log_world.wake)
    append_all(log_world, appender, [NewRecord(feed, None, key=b"k")])
    reader = log_world.log().reader(log_world.wake)
    reader.open(feed, 0)
    (got,) = read_until(log_world, reader, 1)
    assert got.value is None
    assert got.key == b"k"
    assert got.timestamp_ms > 1_600_000_000_000
    appender.close()
    reader.close()


def test_feeds_have_cursors_of_their_own(log_world: LogWorld) -> None:
    topic = log_world.make_topic(partitions=2)
    one, two = Feed(topic, 0), Feed(topic, 1)
    fill(log_world, one, ["a", "b", "c"])
    fill(log_world, two, ["x", "y"])
    reader = log_world.log().reader(log_world.wake)
    reader.open(one, 1)
    reader.open(two, 0)
    got = read_until(log_world, reader, 4)
    assert values([r for r in got if r.feed == one]) == ["b", "c"]
    assert values([r for r in got if r.feed == two]) == ["x", "y"]
    reader.close()


def test_position_is_the_offset_after_what_was_polled(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, ["a", "b", "c"])
    reader = log_world.log().reader(log_world.wake)
    reader.open(feed, 1)
    assert reader.position(feed) == 1
    got = read_until(log_world, reader, 2)
    assert reader.position(feed) == got[-1].offset + 1 == 3
    reader.close()


def test_reopening_elsewhere_never_gives_a_record_of_the_old_place(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, [str(i) for i in range(200)])
    reader = log_world.log().reader(log_world.wake)
    for start in (0, 150, 20, 199, 0):
        reader.open(feed, start)
        assert reader.position(feed) == start
        got = read_until(log_world, reader, 1)
        assert got[0].offset == start
        assert [r.offset for r in got] == list(range(start, start + len(got)))
    reader.close()


def test_a_stopped_feed_gives_nothing_until_it_is_opened_again(log_world: LogWorld) -> None:
    topic = log_world.make_topic(partitions=2)
    stopped, other = Feed(topic, 0), Feed(topic, 1)
    fill(log_world, stopped, ["a"])
    reader = log_world.log().reader(log_world.wake)
    reader.open(stopped, 0)
    reader.open(other, 0)
    read_until(log_world, reader, 1)
    reader.stop(stopped)
    fill(log_world, stopped, ["b"])
    fill(log_world, other, ["x"])
    assert values(read_until(log_world, reader, 1)) == ["x"]
    reader.open(stopped, 1)
    assert values(read_until(log_world, reader, 1)) == ["b"]
    reader.close()


def test_a_reader_at_the_end_gets_what_comes_later_and_is_woken(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, ["old"])
    woken: list[bool] = []

    def wake() -> None:
        woken.append(True)
        log_world.wake()

    reader = log_world.log().reader(wake)
    reader.open(feed, 1)
    fill(log_world, feed, ["new"])
    assert values(read_until(log_world, reader, 1)) == ["new"]
    assert woken
    reader.close()


def test_hushed_feeds_wake_nobody_until_they_are_hushed_no_more(log_world: LogWorld) -> None:
    loud, hushed = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    woken = []

    def wake() -> None:
        woken.append(1)
        log_world.wake()

    reader = log_world.log().reader(wake)
    reader.open(loud, 0)
    reader.open(hushed, 0)
    reader.hush(frozenset([hushed]), gathered=frozenset([loud]))
    fill(log_world, hushed, ["quiet"])
    assert [r.value for r in read_until(log_world, reader, 1)] == [b"quiet"]  # a poll gets it
    assert not woken
    fill(log_world, loud, ["loud"])
    log_world.until(lambda: bool(woken))
    assert [r.value for r in read_until(log_world, reader, 1)] == [b"loud"]
    woken.clear()
    fill(log_world, hushed, ["unread"])
    reader.hush(frozenset())
    log_world.until(lambda: bool(woken))
    assert [r.value for r in read_until(log_world, reader, 1)] == [b"unread"]
    reader.close()


def test_records_of_gathered_feeds_wake_though_others_never_come(log_world: LogWorld) -> None:
    heard, silent = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    woken = []

    def wake() -> None:
        woken.append(1)
        log_world.wake()

    reader = log_world.log().reader(wake)
    for feed in (heard, silent):
        reader.open(feed, 0)
        fill(log_world, feed, ["first"])
    assert len(read_until(log_world, reader, 2)) == 2
    for awaited in ({heard, silent}, {silent}, {heard}, set[Feed]()):
        woken.clear()
        reader.hush(frozenset(), frozenset([heard, silent]), dict.fromkeys(awaited, 0))
        fill(log_world, heard, ["here"])
        log_world.until(lambda: bool(woken))
        assert [r.value for r in read_until(log_world, reader, 1)] == [b"here"]
    reader.close()


def test_records_that_may_wait_for_long_are_waited_for_where_a_feed_is_awaited(log_world: LogWorld) -> None:
    feed, woken = Feed(log_world.make_topic()), list[int]()

    def wake() -> None:
        woken.append(1)
        log_world.wake()

    reader = log_world.log().reader(wake)
    reader.open(feed, 0)
    fill(log_world, feed, ["first"])
    assert len(read_until(log_world, reader, 1)) == 1
    woken.clear()
    reader.hush(frozenset(), frozenset([feed]), within_us=3_600_000_000)
    fill(log_world, feed, ["may wait"])
    assert len(read_until(log_world, reader, 1)) == 1  # a poll gets it
    assert not woken
    reader.hush(frozenset(), frozenset([feed]), {feed: 4}, 3_600_000_000)
    fill(log_world, feed, ["awaited"])
    fill(log_world, feed, ["awaited, too"])
    log_world.until(lambda: bool(woken))
    assert [r.value for r in reader.poll()] == [b"awaited", b"awaited, too"]
    reader.hush(frozenset(), frozenset([feed]), within_us=50_000)
    woken.clear()
    fill(log_world, feed, ["soon"])
    log_world.until(lambda: bool(woken))
    assert [r.value for r in read_until(log_world, reader, 1)] == [b"soon"]
    reader.close()


def test_what_has_arrived_is_ripe_once_it_wakes(log_world: LogWorld) -> None:
    feed, other = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    reader = log_world.log().reader(log_world.wake)
    assert reader.ripe  # it has never been polled
    reader.open(feed, 0)
    reader.open(other, 0)
    fill(log_world, feed, ["first"])
    fill(log_world, other, ["first"])
    assert len(read_until(log_world, reader, 2)) == 2
    reader.hush(frozenset([other]), frozenset([feed]), within_us=3_600_000_000)
    fill(log_world, other, ["hushed"])
    fill(log_world, feed, ["gathered"])
    reader.poll()
    assert not reader.ripe
    reader.hush(frozenset([other]), frozenset([feed]), {feed: 3}, 3_600_000_000)
    fill(log_world, feed, ["awaited"])
    log_world.until(lambda: reader.ripe)
    assert b"awaited" in [r.value for r in reader.poll()]
    assert not reader.ripe
    reader.close()


def test_a_reader_at_rest_reads_on_where_it_was(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, ["a", "b"])
    reader = log_world.log().reader(log_world.wake)
    reader.open(feed, 0)
    assert values(read_until(log_world, reader, 2)) == ["a", "b"]
    reader.rest()
    for said in ("c", "d"):
        fill(log_world, feed, [said])
        assert values(read_until(log_world, reader, 1)) == [said]
    assert reader.position(feed) == 4
    reader.close()


def test_an_append_that_the_log_refuses_is_told_to_the_writer(log_world: LogWorld) -> None:
    existing = Feed(log_world.make_topic())
    appender = log_world.log("writer").appender(log_world.wake)
    appender.append(NewRecord(Feed(existing.topic, 7), b"nowhere"), token="bad")
    appender.append(NewRecord(existing, b"fine"), token="good")
    came: dict[object, str | None] = {}

    def both() -> bool:
        came.update({d.token: d.error for d in appender.deliveries()})
        return len(came) == 2

    log_world.until(both)
    assert came["good"] is None
    assert came["bad"]
    appender.close()


def test_appends_without_a_token_have_no_delivery(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    appender = log_world.log("writer").appender(log_world.wake)
    appender.append(NewRecord(feed, b"silent"))
    append_all(log_world, appender, [NewRecord(feed, b"told")])  # fails on a delivery with another token
    log_world.until(lambda: appender.flush(10.0))
    assert appender.deliveries() == []
    appender.close()


def test_find_gives_the_first_record_at_or_after_a_time(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    appender = log_world.log("writer").appender(log_world.wake)
    stamps = [1_000, 1_100, 1_050, 1_300, 1_200, 1_300]
    append_all(log_world, appender, [NewRecord(feed, b"x", timestamp_ms=t) for t in stamps])
    lookup = log_world.log().lookup()
    for target in (0, 1_000, 1_001, 1_100, 1_101, 1_300):
        assert lookup.find(feed, target) == next(i for i, t in enumerate(stamps) if t >= target)
    assert lookup.find(feed, 1_301) == 6
    appender.close()
    lookup.close()


def test_bounds_and_find_of_an_empty_feed(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    lookup = log_world.log().lookup()
    assert lookup.bounds(feed) == (0, 0)
    assert lookup.find(feed, 5) == 0
    assert list(lookup.read(feed, 0, 0)) == []
    lookup.close()


def test_read_gives_exactly_the_range(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, [str(i) for i in range(30)])
    lookup = log_world.log().lookup()
    assert lookup.bounds(feed) == (0, 30)
    assert values(list(lookup.read(feed, 4, 9))) == ["4", "5", "6", "7", "8"]
    assert values(list(lookup.read(feed, 29, 30))) == ["29"]
    lookup.close()


def test_the_ends_of_several_feeds_come_in_one_answer(log_world: LogWorld) -> None:
    topic = log_world.make_topic(partitions=3)
    fill(log_world, Feed(topic, 0), ["a", "b"])
    fill(log_world, Feed(topic, 2), ["c"])
    lookup = log_world.log().lookup()
    query = lookup.ask_ends([Feed(topic, i) for i in range(3)])
    answer = log_world.until(lambda: query.poll())
    assert answer == {Feed(topic, 0): 2, Feed(topic, 1): 0, Feed(topic, 2): 1}
    assert query.poll() == answer
    lookup.close()


def test_offsets_below_retention_are_an_error_that_names_the_feed(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, ["a", "b", "c", "d"])
    log_world.delete_before(feed, 2)
    lookup = log_world.log().lookup()
    assert lookup.bounds(feed) == (2, 4)
    assert lookup.find(feed, 0) == 2
    with pytest.raises(OffsetGone, match=feed.topic) as gone:
        list(lookup.read(feed, 0, 4))
    assert (gone.value.feed, gone.value.offset) == (feed, 0)
    reader = log_world.log().reader(log_world.wake)
    reader.open(feed, 1)
    errors: list[OffsetGone] = []

    def refused() -> bool:
        try:
            assert reader.poll() == []
        except OffsetGone as exc:
            errors.append(exc)
        return bool(errors)

    log_world.until(refused)
    assert (errors[0].feed, errors[0].offset) == (feed, 1)
    reader.open(feed, 2)
    assert values(read_until(log_world, reader, 2)) == ["c", "d"]
    reader.close()
    lookup.close()


def test_an_error_of_one_feed_loses_nothing_of_another(log_world: LogWorld) -> None:
    topic = log_world.make_topic(partitions=3)
    feeds = [Feed(topic, i) for i in range(3)]
    for feed in feeds:
        fill(log_world, feed, ["a", "b", "c"])
    log_world.delete_before(feeds[1], 2)
    reader = log_world.log().reader(log_world.wake)
    for feed in feeds:
        reader.open(feed, 0)
    got: list[Record] = []
    errors: list[Feed] = []

    def gone() -> bool:
        try:
            got.extend(reader.poll())
        except OffsetGone as exc:
            errors.append(exc.feed)
        return bool(errors)

    log_world.until(gone)
    assert errors == [feeds[1]]
    reader.open(feeds[1], 2)
    got += read_until(log_world, reader, 7 - len(got))
    assert {feed: values([r for r in got if r.feed == feed]) for feed in feeds} == {
        feeds[0]: ["a", "b", "c"],
        feeds[1]: ["c"],
        feeds[2]: ["a", "b", "c"],
    }
    reader.close()


def test_retention_may_take_everything_and_offsets_go_on(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, ["a", "b", "c"])
    log_world.delete_before(feed, 3)
    lookup = log_world.log().lookup()
    assert lookup.bounds(feed) == (3, 3)
    assert lookup.find(feed, 0) == 3
    assert list(lookup.read(feed, 3, 3)) == []
    assert fill(log_world, feed, ["d"], first_ms=1_050) == [3]
    assert lookup.bounds(feed) == (3, 4)
    assert lookup.find(feed, 1_000) == 3
    lookup.close()


def test_retention_does_not_touch_a_reader_that_is_past_it(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, ["a", "b", "c"])
    reader = log_world.log().reader(log_world.wake)
    reader.open(feed, 0)
    assert values(read_until(log_world, reader, 3)) == ["a", "b", "c"]
    log_world.delete_before(feed, 2)
    fill(log_world, feed, ["d"])
    assert values(read_until(log_world, reader, 1)) == ["d"]
    assert reader.position(feed) == 4
    reader.close()


def test_find_looks_only_at_what_retention_has_left(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    appender = log_world.log("writer").appender(log_world.wake)
    stamps = [1_000, 1_300, 1_100, 1_200, 1_400]
    append_all(log_world, appender, [NewRecord(feed, b"x", timestamp_ms=t) for t in stamps])
    log_world.delete_before(feed, 2)
    lookup = log_world.log().lookup()
    assert [lookup.find(feed, t) for t in (900, 1_100, 1_150, 1_250, 1_500)] == [2, 2, 3, 4, 5]
    appender.close()
    lookup.close()


def test_a_transaction_is_seen_whole_after_its_commit_with_its_progress(log_world: LogWorld) -> None:
    rows, progress = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    transactor = log_world.log("w").transactor(
        f"{rows.topic}.publisher", progress, log_world.wake, last_number(progress)
    )
    assert take_over(log_world, transactor, 1) is None
    reader = log_world.log().reader(log_world.wake)
    reader.open(rows, 0)
    batch = [NewRecord(rows, b"1"), NewRecord(rows, b"2"), NewRecord(progress, b"2", key=b"0")]
    assert commit(log_world, transactor, 1, batch) == Committed(1)
    assert commit(log_world, transactor, 1, [NewRecord(rows, b"3"), NewRecord(progress, b"3", key=b"0")]) == Committed(
        1
    )
    assert values(read_until(log_world, reader, 3)) == ["1", "2", "3"]
    successor = log_world.log("w2").transactor(
        f"{rows.topic}.publisher", progress, log_world.wake, last_number(progress)
    )
    assert take_over(log_world, successor, 1) == 3
    reader.close()
    transactor.close()
    successor.close()


def test_a_transactional_feed_can_be_read_to_its_end(log_world: LogWorld) -> None:
    """Protocol R10.1 asks whether the progress was read to the end: markers must not stand in the way."""
    rows, progress = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    transactor = log_world.log("w").transactor(
        f"{rows.topic}.publisher", progress, log_world.wake, last_number(progress)
    )
    take_over(log_world, transactor, 1)
    assert commit(log_world, transactor, 1, [NewRecord(progress, b"1", key=b"0")]) == Committed(1)
    reader, lookup = log_world.log().reader(log_world.wake), log_world.log().lookup()
    reader.open(progress, 0)
    assert values(read_until(log_world, reader, 1)) == ["1"]
    query = lookup.ask_ends([progress])
    end = log_world.until(lambda: query.poll())[progress]

    def at_end() -> bool:
        assert reader.poll() == []
        return reader.position(progress) == end

    log_world.until(at_end)
    reader.close()
    lookup.close()
    transactor.close()


def test_a_take_over_fences_the_writer_before(log_world: LogWorld) -> None:
    rows, progress = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    name = f"{rows.topic}.publisher"
    zombie = log_world.log("w1").transactor(name, progress, log_world.wake, last_number(progress))
    take_over(log_world, zombie, 1)
    assert commit(log_world, zombie, 1, [NewRecord(rows, b"1"), NewRecord(progress, b"1", key=b"0")]) == Committed(1)
    successor = log_world.log("w2").transactor(name, progress, log_world.wake, last_number(progress))
    assert take_over(log_world, successor, 1) == 1
    stale = [NewRecord(rows, b"zombie"), NewRecord(progress, b"9", key=b"0")]
    assert commit(log_world, zombie, 1, stale) == Fenced(1)
    assert commit(log_world, successor, 1, [NewRecord(rows, b"2"), NewRecord(progress, b"2", key=b"0")]) == Committed(1)
    reader = log_world.log().reader(log_world.wake)
    reader.open(rows, 0)
    assert values(read_until(log_world, reader, 2)) == ["1", "2"]
    zombie.drop()
    assert take_over(log_world, zombie, 2) == 2
    assert commit(log_world, successor, 1, stale) == Fenced(1)
    for closing in (reader, zombie, successor):
        closing.close()


def test_who_writes_on_into_a_transaction_is_not_fenced_and_who_has_stopped_is(log_world: LogWorld) -> None:
    """What a transaction without an end reaches is told by the test, in place of a writer that takes long."""
    rows, progress = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    name = f"{rows.topic}.publisher"
    writer = opened(log_world, "w1", name, progress)
    take_over(log_world, writer, 1)
    reached = iter([5, 6, 6, *[6] * 1_000])
    successor = log_world.log("w2").transactor(
        name, progress, log_world.wake, last_number(progress), None, lambda *_: next(reached)
    )
    successor.take_over(1)
    assert event(log_world, successor) == AtWork(1)
    assert commit(log_world, writer, 1, [NewRecord(rows, b"1"), NewRecord(progress, b"1", key=b"0")]) == Committed(1)
    assert take_over(log_world, successor, 2) == 1
    assert commit(log_world, writer, 1, [NewRecord(rows, b"2"), NewRecord(progress, b"2", key=b"0")]) == Fenced(1)
    writer.close()
    successor.close()


def test_who_is_fenced_by_hand_commits_nothing_more_until_it_takes_over_again(log_world: LogWorld) -> None:
    rows, progress = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    name = f"{rows.topic}.publisher"
    writer = opened(log_world, "w", name, progress)
    take_over(log_world, writer, 1)
    records = [NewRecord(rows, b"1"), NewRecord(progress, b"1", key=b"0")]
    assert commit(log_world, writer, 1, records) == Committed(1)
    admin = log_world.log("up").admin()
    admin.fence([name, f"{name}.of.nobody.yet"])
    assert commit(log_world, writer, 1, records) == Fenced(1)
    assert take_over(log_world, writer, 2) == 1
    assert commit(log_world, writer, 2, records) == Committed(2)
    admin.close()
    writer.close()


def test_the_events_of_a_dropped_attempt_do_not_come(log_world: LogWorld) -> None:
    rows, progress = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    transactor = log_world.log("w").transactor(
        f"{rows.topic}.publisher", progress, log_world.wake, last_number(progress)
    )
    transactor.take_over(1)
    transactor.drop()
    transactor.take_over(2)
    answer = event(log_world, transactor)
    assert answer == TookOver(2, None)
    transactor.close()


def test_records_are_made_only_when_their_transaction_begins(log_world: LogWorld) -> None:
    rows, progress = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    transactor = log_world.log("w").transactor(
        f"{rows.topic}.publisher", progress, log_world.wake, last_number(progress)
    )
    take_over(log_world, transactor, 1)
    made: list[int] = []

    def make() -> list[NewRecord]:
        made.append(1)
        return [NewRecord(rows, b"1"), NewRecord(progress, b"1", key=b"0")]

    transactor.commit(1, make)
    assert event(log_world, transactor) == Committed(1)
    assert made == [1]
    transactor.close()


def test_topics_are_created_once_and_deleted(log_world: LogWorld) -> None:
    existing = log_world.make_topic()
    admin = log_world.log().admin()
    fill(log_world, Feed(existing), ["kept"])
    admin.create([TopicSpec(existing), TopicSpec(f"{existing}.more", partitions=2)])
    log_world.until(lambda: {existing, f"{existing}.more"} <= set(admin.topics()))
    assert [admin.partitions(name) for name in (existing, f"{existing}.more", f"{existing}.none")] == [1, 2, 0]
    lookup = log_world.log().lookup()
    assert lookup.bounds(Feed(existing)) == (0, 1)

    def led() -> bool:
        """A broker names the leader of a new partition a moment before it is."""
        try:
            return lookup.bounds(Feed(f"{existing}.more", 1)) == (0, 0)
        except LogError:
            return False

    log_world.until(led)
    admin.delete([f"{existing}.more"])
    log_world.until(lambda: f"{existing}.more" not in admin.topics())
    admin.close()
    lookup.close()


def test_segments_grow_no_larger_than_told(log_world: LogWorld) -> None:
    large, small, tiny = (log_world.make_topic() for _ in range(3))
    admin = log_world.log().admin()
    assert admin.limit_segments({small: 2_000_000}) == {}
    most = {large: 16_777_216, small: 16_777_216, tiny: 1, f"{large}.none": 16_777_216}
    refused = admin.limit_segments(most)
    admin.close()
    assert list(refused) == [tiny], "what the log does not take is told, and the rest is done"
    assert [log_world.segment_bytes(name) for name in (large, small)] == [16_777_216, 2_000_000]
    assert log_world.segment_bytes(tiny) > 1


def test_settings_in_force_are_told_and_set_topic_by_topic(log_world: LogWorld) -> None:
    one, other = log_world.make_topic(), log_world.make_topic()
    with contextlib.closing(log_world.log().admin()) as admin:
        before = admin.settings([one, other, f"{one}.none"])
        assert set(before) == {one, other}, "of what is not there nothing is told"
        assert before[one]["message.timestamp.type"] == "CreateTime"
        assert admin.set({one: {"max.message.bytes": "10000"}, f"{one}.none": {"max.message.bytes": "1"}}) == {}
        log_world.until(lambda: admin.settings([one])[one]["max.message.bytes"] == "10000")
        assert admin.settings([one])[one].items() >= {"message.timestamp.type": "CreateTime"}.items()
        assert admin.settings([other])[other]["max.message.bytes"] == before[other]["max.message.bytes"]


@pytest.mark.parametrize("bad", ["large", "ahead"])
def test_what_a_topic_refuses_for_its_size_or_time_ends_the_writer_of_that_feed(log_world: LogWorld, bad: str) -> None:
    """As an idempotent producer does. Only of size a writer learns that it is no use to try again."""
    feed = Feed(log_world.make_topic())
    with contextlib.closing(log_world.log().admin()) as admin:
        bounds = {"max.message.bytes": "10000", "message.timestamp.after.max.ms": "3600000"}
        assert admin.set({feed.topic: bounds}) == {}
        log_world.until(lambda: admin.settings([feed.topic])[feed.topic].items() >= bounds.items())
    appender = log_world.log("writer").appender(log_world.wake)
    append_all(log_world, appender, [NewRecord(feed, b"fine", timestamp_ms=1)])
    large, far = random.Random(1).randbytes(20_000), 4_000_000_000_000  # which does not compress; in 2096
    record = NewRecord(feed, large, timestamp_ms=1) if bad == "large" else NewRecord(feed, b"x", timestamp_ms=far)
    appender.append(record, token="bad")
    appender.append(NewRecord(feed, b"behind", timestamp_ms=1), token="behind")
    came: dict[object, Delivery] = {}

    def both() -> bool:
        came.update({d.token: d for d in appender.deliveries()})
        return len(came) == 2

    log_world.until(both)
    assert came["bad"].error
    assert came["behind"].error, "nothing follows it, or there would be a hole"
    assert came["bad"].too_large == (20_000 if bad == "large" else 0)
    appender.close()
    with contextlib.closing(log_world.log().lookup()) as lookup:
        assert [r.value for r in lookup.read(feed, *lookup.bounds(feed))] == [b"fine"]


def nothing() -> None:
    """Whatever is to be deleted may be."""


def refuse() -> None:
    raise LogError("another life")


def test_the_beginning_of_a_feed_is_deleted_and_no_more_of_it(log_world: LogWorld) -> None:
    topic = log_world.make_topic(partitions=2)
    feed, other = Feed(topic), Feed(topic, 1)
    fill(log_world, feed, [f"v{i}" for i in range(10)])
    fill(log_world, other, ["kept"])
    deleter, lookup = log_world.log("trimmer").deleter(), log_world.log().lookup()
    with pytest.raises(LogError, match="another life"):
        deleter.delete_before({feed: 4}, refuse)
    assert lookup.bounds(feed) == (0, 10)
    assert deleter.delete_before({feed: 4}, nothing) == {}
    log_world.until(lambda: lookup.bounds(feed) == (4, 10))
    assert deleter.delete_before({feed: 2}, nothing) == {}, "what is gone already is no error"
    assert lookup.bounds(feed) == (4, 10)
    assert lookup.bounds(other) == (0, 1)
    assert [r.value for r in lookup.read(feed, 4, 10)] == [b"v4", b"v5", b"v6", b"v7", b"v8", b"v9"]
    with pytest.raises(OffsetGone):
        list(lookup.read(feed, 3, 10))
    deleter.close()
    lookup.close()


def test_a_deletion_that_is_refused_is_told_and_the_others_are_done(log_world: LogWorld) -> None:
    feed, none = Feed(log_world.make_topic()), Feed("there-is-none")
    fill(log_world, feed, ["a", "b"])
    deleter, lookup = log_world.log("trimmer").deleter(), log_world.log().lookup()
    refused = deleter.delete_before({none: 1, feed: 1}, nothing)
    assert set(refused) == {none}
    assert refused[none]
    log_world.until(lambda: lookup.bounds(feed) == (1, 2))
    assert set(deleter.delete_before({feed: 3}, nothing)) == {feed}, "beyond the end"
    assert lookup.bounds(feed) == (1, 2)
    deleter.close()
    lookup.close()


def test_a_cursor_beyond_the_end_of_a_topic_made_again_is_an_error_until_it_is_opened_elsewhere(
    log_world: LogWorld,
) -> None:
    feed, other = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    fill(log_world, feed, ["a", "b", "c"])
    reader = log_world.log().reader(log_world.wake)
    reader.open(feed, 0)
    reader.open(other, 0)
    read_until(log_world, reader, 3)
    log_world.log().admin().delete([feed.topic])
    fill(log_world, other, ["while it was away"])
    assert values(read_until(log_world, reader, 1)) == ["while it was away"]
    assert reader.position(feed) == 3
    log_world.make_again(feed.topic)
    assert "beyond" in refused(log_world, reader)
    fill(log_world, feed, ["d"])
    assert "beyond" in refused(log_world, reader)
    reader.open(feed, 0)
    assert values(read_until(log_world, reader, 1)) == ["d"]
    reader.close()


def refused(world: LogWorld, reader: Reader) -> str:
    """Poll until that is an error, and say which."""
    errors: list[str] = []

    def came() -> bool:
        try:
            assert reader.poll() == []
        except LogError as exc:
            errors.append(str(exc))
        return bool(errors)

    world.until(came)
    return errors[0]


def test_a_feed_opened_before_its_topic_exists_is_read_from_then_on(log_world: LogWorld) -> None:
    feed = Feed(f"{log_world.make_topic()}.later")
    reader = log_world.log().reader(log_world.wake)
    reader.open(feed, 0)
    assert reader.poll() == []
    log_world.make_again(feed.topic)
    fill(log_world, feed, ["first"])
    assert values(read_until(log_world, reader, 1)) == ["first"]
    reader.close()


def test_a_cursor_opened_beyond_the_end_is_an_error(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    fill(log_world, feed, ["a", "b"])
    reader, lookup = log_world.log().reader(log_world.wake), log_world.log().lookup()
    reader.open(feed, 3)
    assert "beyond" in refused(log_world, reader)
    with pytest.raises(OffsetGone, match=feed.topic):
        list(lookup.read(feed, 3, 5))
    assert list(lookup.read(feed, 3, 3)) == []
    reader.close()
    lookup.close()


def test_questions_about_a_deleted_topic_have_no_answer(log_world: LogWorld) -> None:
    gone, there = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    fill(log_world, gone, ["a"])
    lookup = log_world.log().lookup()
    assert lookup.bounds(gone) == (0, 1)
    log_world.log().admin().delete([gone.topic])
    with pytest.raises(LogError, match=gone.topic):
        lookup.bounds(gone)
    with pytest.raises(LogError, match=gone.topic):
        lookup.find(gone, 0)
    query = lookup.ask_ends([gone, there])
    assert log_world.until(lambda: query.poll()) == {gone: None, there: 0}
    log_world.make_again(gone.topic)
    assert lookup.bounds(gone) == (0, 0)
    lookup.close()


def test_an_appender_goes_on_in_the_topic_made_again(log_world: LogWorld) -> None:
    feed = Feed(log_world.make_topic())
    appender = log_world.log("writer").appender(log_world.wake)
    append_all(log_world, appender, [NewRecord(feed, b"old"), NewRecord(feed, b"old")])
    log_world.log().admin().delete([feed.topic])
    appender.append(NewRecord(feed, b"while it was away"), token="x")
    log_world.make_again(feed.topic)
    came: list[tuple[int, str | None]] = []

    def told() -> bool:
        came.extend((d.offset, d.error) for d in appender.deliveries())
        return bool(came)

    log_world.until(told)
    assert came == [(0, None)]
    lookup = log_world.log().lookup()
    assert values(list(lookup.read(feed, 0, lookup.bounds(feed)[1]))) == ["while it was away"]
    appender.close()
    lookup.close()


def test_a_writer_that_was_never_fenced_writes_into_the_topics_made_again(log_world: LogWorld) -> None:
    rows, progress = Feed(log_world.make_topic()), Feed(log_world.make_topic())
    name = f"{rows.topic}.publisher"
    transactor = opened(log_world, "w", name, progress)
    take_over(log_world, transactor, 1)
    assert commit(log_world, transactor, 1, [NewRecord(rows, b"1"), NewRecord(progress, b"1", key=b"0")]) == Committed(
        1
    )
    log_world.log().admin().delete([rows.topic, progress.topic])
    log_world.make_again(rows.topic)
    log_world.make_again(progress.topic)
    assert commit(log_world, transactor, 1, [NewRecord(rows, b"2"), NewRecord(progress, b"2", key=b"0")]) == Committed(
        1
    )
    successor = opened(log_world, "w2", name, progress)
    assert take_over(log_world, successor, 1) == 2
    assert commit(log_world, transactor, 1, [NewRecord(rows, b"zombie")]) == Fenced(1)
    reader = log_world.log().reader(log_world.wake)
    reader.open(rows, 0)
    assert values(read_until(log_world, reader, 1)) == ["2"]
    for closing in (reader, transactor, successor):
        closing.close()
