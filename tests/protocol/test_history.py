"""What a broken rule's error tells of the turns before it."""

from __future__ import annotations

import pytest

from borealis_py.protocol.history import ENDS, TURNS, History
from borealis_py.protocol.incarnation import Heartbeat
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.redo import RedoDone, RedoFailed
from borealis_py.protocol.settings import NodeDelays
from borealis_py.protocol.turn import Turn, WriterBusy
from sunion.errors import IllegalTransition
from sunion.model import Input, Output, StableRange, TentativeBucket
from tests.protocol.chain_node import manager
from tests.sunion.lists import W, batch, claim

DELAYS = NodeDelays(1_000_000)


def make() -> Manager:
    return manager(Input.source("a"))


def test_a_broken_rule_comes_with_what_led_to_it() -> None:
    manager = make()
    manager.handle(Turn(1_000_000, inputs={0: [claim(0), batch(1, 0, [(0, 5)], boundary=3 * W)]}))
    with pytest.raises(IllegalTransition) as caught:
        manager.handle(Turn(999_999, progress=(4,)))
    first, broken = caught.value.history
    took = f"took 2 source records (input 0 epoch 1 claim at 0, input 0 epoch 1 1 rows to {3 * W} at 1)"
    assert first.startswith(f"at 1.000000 s: {took}; F_s 3, F_l 3, RECOVERING; decided ")
    assert "2 Append" in first
    assert broken == "at 0.999999 s: took 1 progress records (published to 4); broken off"
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


def test_of_many_records_the_headers_of_the_first_and_the_last_are_kept_and_no_rows() -> None:
    manager = make()
    records = [claim(0), *(batch(n, n - 1, [(n, 7_777)], boundary=None) for n in range(1, 40))]
    manager.handle(Turn(1_000_000, inputs={0: records}))
    (kept,) = manager._history.turns
    assert [header.rsplit(" at ", 1)[1] for header in kept.headers] == ["0", "1", "2", "37", "38", "39"]
    assert "7777" not in str(kept)


@pytest.mark.parametrize(("records", "kept"), [(2 * ENDS, 2 * ENDS), (2 * ENDS + 1, 2 * ENDS)])
def test_records_are_left_out_only_where_more_came_than_the_ends_hold(records: int, kept: int) -> None:
    history = History()
    inputs = {0: [claim(0), *(batch(n, n - 1, boundary=n * W) for n in range(1, records))]}
    history.add(Turn(1_000_000, inputs=inputs), 1, 2, "STABLE", [])
    (said,) = history.turns
    offsets = [int(header.rsplit(" at ", 1)[1]) for header in said.headers]
    assert offsets == [*range(ENDS), *range(records - ENDS, records)]
    assert len(offsets) == kept


def test_the_headers_tell_what_came_of_every_kind() -> None:
    beat = Heartbeat(
        app_uid="a", replica=1, inc=4, uid="u", state="STABILIZATION", ack_s=5, ack_l=9, asking=True, progress=2
    )
    tentative = TentativeBucket(
        inc=3,
        bucket=12,
        output=Output(),
        missing_sources=("s",),
        missing=("s",),
        waited_us=0,
        completeness=0.5,
        diverged_from=11,
    )
    turn = Turn(
        1_000_000,
        beats=[(8, beat)],
        streams={0: [(0, StableRange(2, 7, 9)), (1, tentative)]},
        redo=[RedoFailed(3, "no slot"), RedoDone(4, None, {}, "spark", 0.5)],
        writer=[WriterBusy(6)],
        delays=DELAYS,
    )
    history = History()
    history.add(turn, 1, 2, "STABLE", [])
    (said,) = history.turns
    took = "took 1 heartbeats, 2 stream records, 2 redo results, 1 writer events (r1 inc 4 "
    assert str(said).startswith(f"at 1.000000 s: {took}")
    assert said.headers == (
        "r1 inc 4 STABILIZATION asking to 5 at 8",
        "input 0 r0 inc 2 StableRange 7 to 9",
        "input 0 r1 inc 3 TentativeBucket 12",
        "job 3 no slot",
        "job 4 by spark",
        "WriterBusy(attempt=6)",
        str(DELAYS),
    )
