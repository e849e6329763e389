"""Slots that are missing are borne for a while, then told, and an application starts again only where that helps."""

from __future__ import annotations

import pytest

from borealis_py.runtime.spark.slot_monitor import ASK_S, PATIENCE_MAX_S, SlotDecision, SlotMonitor, SlotUsage
from borealis_py.runtime.spark.slot_plan import SlotPlan

PLAN = SlotPlan(("sums.r0", "big.r0"), 1, "spark://there:7077")
ENOUGH = SlotUsage(3)
LOST = SlotUsage(0, ("sums.r0", "big.r0"))
ONE_LOST = SlotUsage(1, ("big.r0",))
NO_REDOS = SlotUsage(2)
PATIENCE_S = 30.0


class Watch:
    """A look-out whose cluster has `free` slots, and a clock."""

    def __init__(self, free: int | None = 0) -> None:
        self.shortage = SlotMonitor(PLAN, PATIENCE_S)
        self.free = free
        self.asked = 0
        self.now_s = 0.0

    def ask(self) -> int | None:
        self.asked += 1
        return self.free

    def look(self, slots: SlotUsage) -> SlotDecision | None:
        return self.shortage.look(self.now_s, slots, self.ask)

    def until_advice(self, slots: SlotUsage, limit_s: float = 3 * PATIENCE_MAX_S) -> tuple[float, SlotDecision]:
        """How long these slots were borne, and what came then."""
        begin = self.now_s
        while (advice := self.look(slots)) is None:
            self.now_s += 0.5
            assert self.now_s - begin < limit_s, "nothing is said"
        return self.now_s - begin, advice


def test_who_has_everything_is_left_alone_and_nobody_is_asked() -> None:
    watch = Watch(free=10)
    for watch.now_s in range(100):
        assert watch.look(ENOUGH) is None
    assert watch.asked == 0


def test_a_gap_that_closes_in_time_is_no_shortage() -> None:
    watch = Watch(free=10)
    for watch.now_s in range(200):
        assert watch.look(ENOUGH if watch.now_s % 30 == 29 else LOST) is None
    assert watch.asked == 0


@pytest.mark.parametrize(
    ("slots", "free", "again"),
    [
        (LOST, 3, True),
        (LOST, 1, True),  # nothing runs: nothing is given up
        (LOST, 0, False),
        (LOST, None, True),
        (ONE_LOST, 2, True),
        (ONE_LOST, 1, False),  # sums.r0 would be stopped for nothing
        (ONE_LOST, None, False),
        (SlotUsage(3, ("big.r0",)), 0, True),  # a slot for it there is, and it does not get it
        (NO_REDOS, 5, False),  # redos run inline; no replica is stopped for them
    ],
)
def test_it_starts_again_only_where_that_helps(slots: SlotUsage, free: int | None, again: bool) -> None:
    waited_s, advice = Watch(free).until_advice(slots)
    assert waited_s == PATIENCE_S
    assert advice.again is again


def test_what_is_said_names_replicas_and_numbers() -> None:
    _, advice = Watch(free=0).until_advice(ONE_LOST)
    assert advice.said == (
        "big.r0 cannot run for want of slots: the application asked for 3 slots: 2 for sums.r0, big.r0 and 1 for "
        "redos; it has 1, and the cluster has none free. Add a worker or cores, or end what holds them"
    )
    _, advice = Watch(free=2).until_advice(ONE_LOST)
    assert advice.said.endswith("it has 1, and the cluster has 2 more that it could have: restarting it")
    _, advice = Watch(free=None).until_advice(NO_REDOS)
    assert advice.said.startswith("redos run inline for want of slots")
    assert "it has 2, and the master does not tell what is free" in advice.said
    _, advice = Watch(free=0).until_advice(SlotUsage(3, ("big.r0",)))
    assert advice.said.startswith("big.r0 cannot run although the application has its slots: it asked for 3 slots")
    assert advice.said.endswith("and has 3: restarting it")


def test_the_same_is_said_once_and_the_end_is_told() -> None:
    watch = Watch(free=0)
    watch.until_advice(LOST)
    for _ in range(1000):
        watch.now_s += 0.5
        assert watch.look(LOST) is None
    assert watch.until_advice(ONE_LOST)[1].said.startswith("big.r0 cannot run")
    assert watch.look(ENOUGH) == SlotDecision(f"the application has all its slots again: {PLAN}")
    assert watch.look(ENOUGH) is None


def test_the_cluster_is_asked_now_and_then_and_what_it_gets_is_used() -> None:
    watch = Watch(free=0)
    watch.until_advice(ONE_LOST)
    begin_s, watch.asked = watch.now_s, 0
    for n in range(200):
        watch.now_s = begin_s + n / 2
        assert watch.look(ONE_LOST) is None
    assert watch.asked == int(100 / ASK_S) - 1
    watch.free = 2
    waited_s, advice = watch.until_advice(ONE_LOST)
    assert advice.again
    assert waited_s <= ASK_S


def test_slots_that_come_have_the_time_to_be_used() -> None:
    """Spark gave what was missing, and is asked before the tasks run: no reason to give up what has just come."""
    watch = Watch(free=0)
    watch.until_advice(LOST)
    watch.now_s += 3 * PATIENCE_S
    come = watch.now_s
    while watch.now_s < come + PATIENCE_S - 1:
        assert watch.look(SlotUsage(3, LOST.waiting)) is None
        watch.now_s += 1
    waited_s, advice = watch.until_advice(SlotUsage(3, LOST.waiting))
    assert advice.again
    assert waited_s <= 2


def test_starting_again_in_vain_is_tried_ever_more_seldom_until_it_helped() -> None:
    watch = Watch(free=2)
    waits = []
    for _ in range(7):
        waited_s, advice = watch.until_advice(ONE_LOST)
        assert advice.again
        waits.append(waited_s)
    assert waits == [30, 60, 120, 240, 480, PATIENCE_MAX_S, PATIENCE_MAX_S]
    watch.look(ENOUGH)
    assert watch.until_advice(ONE_LOST)[0] == PATIENCE_S


def test_a_new_life_has_its_time_anew() -> None:
    """Its tasks wait for a moment when they are submitted, whatever the life before it had lacked."""
    watch = Watch(free=3)
    watch.look(ONE_LOST)
    watch.now_s = PATIENCE_S - 1
    watch.shortage.begin()
    assert watch.look(LOST) is None
    assert watch.until_advice(LOST)[0] == PATIENCE_S


def test_what_spark_has_not_noticed_yet_is_not_told() -> None:
    watch = Watch(free=3)
    for watch.now_s in range(100):
        assert watch.look(SlotUsage(1)) is None
    assert watch.asked == 0
    advice = watch.look(ONE_LOST)
    assert advice is not None
    assert advice.again
