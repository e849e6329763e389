"""What a broken rule's error tells of the turns before it."""

from __future__ import annotations

import pytest

from borealis_py.protocol.history import TURNS
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.turn import Turn
from sunion.errors import IllegalTransition
from sunion.model import Input
from tests.protocol.chain_node import manager
from tests.sunion.lists import W, batch, claim


def make() -> Manager:
    return manager(Input.source("a"))


def test_a_broken_rule_comes_with_what_led_to_it() -> None:
    manager = make()
    manager.handle(Turn(1_000_000, inputs={0: [claim(0), batch(1, 0, [(0, 5)], boundary=3 * W)]}))
    with pytest.raises(IllegalTransition) as caught:
        manager.handle(Turn(999_999, progress=(4,)))
    first, broken = caught.value.history
    assert first.startswith("at 1.000000 s: took 2 source records; F_s 3, F_l 3, RECOVERING; decided ")
    assert "2 Append" in first
    assert broken == "at 0.999999 s: took 1 progress records; broken off"
    assert str(caught.value).splitlines() == [
        "turn at 999999 us after one at 1000000 us",
        "the last turns:",
        first,
        broken,
    ]


def test_as_many_turns_are_kept_as_tell_enough() -> None:
    manager = make()
    for now in range(TURNS + 10):
        manager.handle(Turn(now))
    with pytest.raises(IllegalTransition) as caught:
        manager.handle(Turn(0))
    assert len(caught.value.history) == TURNS + 1
    assert caught.value.history[0].startswith("at 0.000010 s: took nothing; F_s 0, F_l 0, RECOVERING; decided ")
