"""What the instant log promises beyond the contract: a call returns when all that it causes has happened."""

from __future__ import annotations

import threading

import pytest

from borealis_py.log.base import Committed, Delivery, Feed, LogUnreachable, NewRecord, TookOver
from tests.support.instant_log import InstantBroker, InstantLog
from tests.support.resume import last_number

FEED = Feed("t")


@pytest.fixture
def log() -> InstantLog:
    log = InstantLog()
    log.create([FEED.topic])
    return log


def test_what_is_appended_is_delivered_and_read_at_once_and_its_readers_are_woken(log: InstantLog) -> None:
    woken: list[str] = []
    reader = log.broker.log("another").reader(lambda: woken.append("reader"))
    reader.open(FEED, 0)
    assert woken == []
    appender = log.appender(lambda: woken.append("appender"))
    appender.append(NewRecord(FEED, b"x"), "token")
    assert sorted(woken) == ["appender", "reader"]
    assert appender.deliveries() == [Delivery("token", 0)]
    assert appender.flush(0.0)
    assert [r.value for r in reader.poll()] == [b"x"]
    assert log.lookup().ask_ends([FEED]).poll() == {FEED: 1}


def test_a_take_over_and_a_commit_take_no_time(log: InstantLog) -> None:
    transactor = log.transactor("id", FEED, lambda: None, last_number(FEED))
    transactor.take_over(1)
    assert transactor.events() == [TookOver(1, None)]
    transactor.commit(1, lambda: [NewRecord(FEED, b"7", key=b"0")])
    assert transactor.events() == [Committed(1)]
    assert [r.value for r in log.committed(FEED)] == [b"7"]


def test_a_cut_concerns_one_client_and_what_it_appended_arrives_when_it_heals(log: InstantLog) -> None:
    appender, lookup, other = log.appender(lambda: None), log.lookup(), log.broker.log("another").lookup()
    log.cut()
    appender.append(NewRecord(FEED, b"x"))
    assert not appender.flush(0.0)
    with pytest.raises(LogUnreachable, match="no broker answered a"):
        lookup.bounds(FEED)
    assert other.bounds(FEED) == (0, 0)
    log.heal()
    assert appender.flush(0.0)
    assert lookup.bounds(FEED) == other.bounds(FEED) == (0, 1)


def test_threads_append_side_by_side_and_each_in_order() -> None:
    broker = InstantBroker()
    broker.log().create([FEED.topic])

    def run(name: str) -> None:
        appender = broker.log(name).appender(lambda: None)
        for n in range(100):
            appender.append(NewRecord(FEED, f"{name}{n:02}".encode()))

    threads = [threading.Thread(target=run, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [(r.value or b"").decode() for r in broker.log().committed(FEED)]
    assert {name: [v for v in found if v[0] == name] for name in "abc"} == {
        name: [f"{name}{n:02}" for n in range(100)] for name in "abc"
    }


def test_it_knows_what_nobody_has_closed(log: InstantLog) -> None:
    lookup, admin = log.lookup(), log.admin()
    assert log.unclosed == 2
    lookup.close()
    admin.close()
    assert log.unclosed == 0
