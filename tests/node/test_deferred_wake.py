"""A wake that may wait for the next turn."""

from __future__ import annotations

from borealis_py.node.replica import DeferredWake


def test_what_arrives_wakes_at_once_unless_the_replica_is_at_ease() -> None:
    woken: list[str] = []
    wake = DeferredWake(lambda: woken.append("!"))
    wake()
    assert woken == ["!"]
    wake.begin_turn()
    wake.end_turn(at_ease=True)
    wake()
    assert woken == ["!"]


def test_what_waited_wakes_once_the_replica_is_at_ease_no_more() -> None:
    woken: list[str] = []
    wake = DeferredWake(lambda: woken.append("!"))
    wake.begin_turn()
    wake.end_turn(at_ease=True)
    wake.begin_turn()
    wake()  # in the middle of a turn, perhaps after it has polled
    assert not woken
    wake.end_turn(at_ease=False)
    assert woken == ["!"]


def test_what_a_turn_has_taken_wakes_nobody() -> None:
    woken: list[str] = []
    wake = DeferredWake(lambda: woken.append("!"))
    wake.begin_turn()
    wake.end_turn(at_ease=True)
    wake()
    wake.begin_turn()
    wake.end_turn(at_ease=False)
    assert not woken
