"""Heartbeats while a turn takes long (R7)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from borealis_py.log.base import Feed, NewRecord
from borealis_py.node.pulse import Pulse
from borealis_py.protocol.settings import Timing

BEAT = 100_000
TIMING = Timing(heartbeat_us=BEAT, pulse_max_us=20 * BEAT)
FIRST, SECOND = (NewRecord(Feed("control"), value, b"q/0") for value in (b"first", b"second"))


def pulse() -> tuple[Pulse, list[NewRecord]]:
    said: list[NewRecord] = []
    appender: Any = SimpleNamespace(append=said.append)
    return Pulse(appender, TIMING), said


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
