"""Heartbeats while a turn takes long (R7.2)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.messages import read_beat
from borealis_py.node import pulse as pulse_module
from borealis_py.node.pulse import Pulse, repeating
from borealis_py.protocol.incarnation import Heartbeat
from borealis_py.protocol.settings import Timing
from sunion.digests import Digest
from sunion.units import Bucket
from tests.support.heartbeats import heartbeat

BEAT = 100_000
TIMING = Timing(heartbeat_us=BEAT, pulse_max_us=20 * BEAT)
FEED = Feed("control")
FIRST, SECOND = heartbeat(0, ack_s=1), heartbeat(0, ack_s=2)


def pulse() -> tuple[Pulse, list[Heartbeat]]:
    said: list[Heartbeat] = []
    return heard_by(lambda record: said.append(read_beat(record.key, record.value, "q"))), said


def heard_by(append: Callable[[NewRecord], None]) -> Pulse:
    appender: Any = SimpleNamespace(append=append)
    return Pulse(appender, TIMING, FEED, "q")


def test_nothing_is_repeated_that_is_in_time_or_was_never_said() -> None:
    heart, said = pulse()
    heart.repeat(50 * BEAT)
    heart.turn(50 * BEAT)
    heart.send(FIRST, 50 * BEAT)
    heart.repeat(51 * BEAT)
    assert said == [FIRST]


def test_the_last_one_is_repeated_while_a_turn_lasts() -> None:
    heart, said = pulse()
    heart.turn(0)
    heart.send(FIRST, 0)
    heart.send(SECOND, BEAT // 2)
    for n in range(1, 6):
        heart.repeat(n * BEAT)
    assert said == [FIRST, SECOND, SECOND, SECOND]
    heart.turn(6 * BEAT)
    heart.send(FIRST, 6 * BEAT)
    heart.repeat(7 * BEAT)
    assert said[4:] == [FIRST]


def test_a_heartbeat_that_is_due_is_not_looked_for_an_interval_late() -> None:
    """The thread that repeats them sleeps until then: by its own interval it would find it up to two and a half old."""
    heart, said = pulse()
    heart.turn(0)
    heart.send(FIRST, 0)
    now, at = BEAT // 2, []
    while now < 10 * BEAT:
        before = len(said)
        again_us = heart.repeat(now)
        at += [now] * (len(said) - before)
        now += again_us
    assert at == [round(1.5 * n * BEAT) for n in range(1, 7)]


def test_who_hangs_is_not_asked_all_the_time() -> None:
    heart, _ = pulse()
    heart.turn(0)
    heart.send(FIRST, 0)
    assert heart.repeat(100 * BEAT) >= BEAT


def test_what_is_repeated_says_when_it_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return len(waited) > 3

    again = iter([7_000, None, 5_000])
    monkeypatch.setattr(pulse_module, "threading", SimpleNamespace(Event=Over, Thread=threading.Thread))
    with repeating(lambda: next(again), 2_000, "test"):
        pass
    assert waited == [0.002, 0.007, 0.002, 0.005]


def test_who_hangs_falls_silent_and_is_heard_again_with_the_next_turn() -> None:
    heart, said = pulse()
    heart.turn(0)
    heart.send(FIRST, 0)
    for n in range(1, 100):
        heart.repeat(n * BEAT)
    assert 5 <= len(said) <= 20
    heart.turn(100 * BEAT)
    heart.repeat(101 * BEAT)
    assert said[-1] == FIRST
    assert len(said) <= 21


@pytest.mark.parametrize(
    "news",
    [{"asking": True}, {"runs": False}, {"state": "STABILIZATION"}, {"digests": (Digest(1, 2, ""),)}],
    ids=lambda news: next(iter(news)),
)
def test_peers_may_miss_a_heartbeat_that_tells_nothing_to_be_read_in_its_turn(news: dict[str, Any]) -> None:
    """While the log is slow only the newest of those waits."""
    records: list[NewRecord] = []
    heart = heard_by(records.append)
    heart.turn(0)
    told = replace(SECOND, **news)
    for n, beat in enumerate((FIRST, SECOND, told, replace(told, ack_s=Bucket(3), digests=()))):
        heart.send(beat, n)
    assert [record.conflatable for record in records] == [False, True, False, True]


def test_peers_may_miss_what_is_repeated() -> None:
    records: list[NewRecord] = []
    heart = heard_by(records.append)
    heart.turn(0)
    heart.send(replace(FIRST, digests=(Digest(1, 2, ""),)), 0)
    heart.repeat(2 * BEAT)
    assert [(record.feed, record.key, record.conflatable) for record in records] == [
        (FEED, b"q/0", False),
        (FEED, b"q/0", True),
    ]
    assert records[0].value == records[1].value
