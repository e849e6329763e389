"""A broker that is killed and comes back, under clients that live on."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from borealis_py.kafka.broker import LocalBroker
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Committed, Feed, NewRecord, TookOver, TopicSpec, TransactorEvent
from tests.harness.broker import started
from tests.harness.waiting import PATIENCE_S, until
from tests.kafka.waiter import Waiter
from tests.support.answers import wait_for_answers
from tests.support.resume import last_number

pytestmark = pytest.mark.broker


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalBroker]:
    with started(tmp_path) as local:
        yield local


def kill(broker: LocalBroker) -> None:
    pid = broker.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(PATIENCE_S)


def test_reader_appender_and_transactor_live_through_a_killed_broker(
    own: LocalBroker, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = KafkaLog(own.bootstrap)
    feed, rows, progress = Feed("feed"), Feed("rows"), Feed("progress")
    log.admin().create([TopicSpec(f.topic, config=topics.EVENT_TIME) for f in (feed, rows, progress)])
    reader, appender, lookup = log.reader(waiter.wake), log.appender(waiter.wake), log.lookup()
    transactor = log.transactor("w", progress, waiter.wake, last_number(progress))
    reader.open(feed, 0)

    def event() -> TransactorEvent:
        (found,) = waiter.until(transactor.events)
        return found

    def commit(attempt: int, value: bytes) -> None:
        transactor.commit(attempt, lambda: [NewRecord(rows, value), NewRecord(progress, value)])

    transactor.take_over(1)
    assert event() == TookOver(1, None)
    commit(1, b"1")
    assert event() == Committed(1)
    for i in range(10):
        appender.append(NewRecord(feed, b"%d" % i, timestamp_ms=1000 + i), token=i)
    waiter.deliver(appender, 10)
    assert [r.offset for r in waiter.read(reader, 10)] == list(range(10))

    kill(own)
    for i in range(10, 20):
        appender.append(NewRecord(feed, b"%d" % i, timestamp_ms=1000 + i), token=i)
    query = lookup.ask_ends([feed])
    assert waiter.until(query.poll) == {feed: None}
    assert reader.poll() == []
    assert appender.deliveries() == []
    own.up()
    wait_for_answers(monkeypatch)

    assert [(d.token, d.offset, d.error) for d in waiter.deliver(appender, 10)] == [(i, i, None) for i in range(10, 20)]
    assert [r.value for r in waiter.read(reader, 10)] == [b"%d" % i for i in range(10, 20)]
    assert lookup.bounds(feed) == (0, 20)
    attempt = 1
    while True:  # the old attempt may go on or be lost, or be done and not answered; a take-over tells how far it got
        commit(attempt, b"2")
        if event() == Committed(attempt):
            break
        attempt += 1
        transactor.take_over(attempt)
        answer = event()
        if isinstance(answer, TookOver):
            assert answer.progress in (1, 2)
            if answer.progress == 2:
                break
    transactor.take_over(attempt + 1)
    assert event() == TookOver(attempt + 1, 2)
    assert [r.value for r in lookup.read(rows, *lookup.bounds(rows))] == [b"1", b"2"]
    for part in (reader, appender, transactor, lookup):
        part.close()


def stopped(pid: int) -> bool:
    """Whether none of its threads goes on: they do until one of them, which must be given the CPU, takes the signal."""
    states = [stat.read_text().rpartition(") ")[2][0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def test_a_broker_that_acknowledges_nothing_is_told_of_and_so_is_that_it_does_again(
    own: LocalBroker, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    logged = SimpleNamespace(**dict.fromkeys(("warning", "info"), lambda text, *what: told.append(text % what)))
    monkeypatch.setattr("borealis_py.kafka.appender.log", logged)
    log, feed = KafkaLog(own.bootstrap), Feed("feed")
    log.admin().create([TopicSpec(feed.topic)])
    with closing(log.appender(waiter.wake)) as appender:
        appender.append(NewRecord(feed, b"before"), token=0)
        waiter.deliver(appender, 1)
        pid = own.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: stopped(pid), "the broker stands still")
            appender.append(NewRecord(feed, b"1"), token=1)
            until(lambda: bool(told), "it is told of")
        finally:
            os.kill(pid, signal.SIGCONT)
        waiter.deliver(appender, 1)
        until(lambda: len(told) == 2, "it is over")
    assert told[0] == "feed[0]: no record was acknowledged for 10 s, so all wait: no broker answers"
    assert re.fullmatch(r"feed\[0\]: records are acknowledged again, after \d+ s", told[1])
