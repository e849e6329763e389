"""Handles an application that is short of slots: how long to tolerate it, what to report, when a restart helps.

Spark's standalone master gives an application executors as cores become free, but may leave it short forever: if the
free cores are on workers without memory for another executor, or if the master was restarted and does not know it. A
restarted application requests everything at once. Pure: no Spark, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from borealis_py.runtime.spark.slot_plan import SlotPlan

ASK_S = 5.0
"""How often to query the cluster while slots are missing."""
PATIENCE_MAX_S = 600.0


@dataclass(frozen=True, slots=True)
class SlotUsage:
    """What an application has at one moment.

    Args:
        given: number of slots.
        waiting: names of its replicas that run nowhere.
        tasks: how many slots its tasks take now; None: one each.
    """

    given: int
    waiting: tuple[str, ...] = ()
    tasks: int | None = None

    def needed(self, plan: SlotPlan) -> int:
        """How many slots it needs now, those for redos included."""
        return self.permanent(plan) + plan.redos

    def permanent(self, plan: SlotPlan) -> int:
        """How many of them its tasks take."""
        return len(plan.tasks) if self.tasks is None else self.tasks


@dataclass(frozen=True, slots=True)
class SlotDecision:
    """A line for the log (`said`), and whether to restart the application (`again`)."""

    said: str
    again: bool = False


class SlotMonitor:
    """The slot monitor of one driver, over all lives of its application.

    Args:
        patience_s: how long slots may be missing. Doubles with each advised restart, until nothing is missing. The wait
            starts over when some slots arrive: the tasks waiting for them take a moment to run.
    """

    def __init__(self, plan: SlotPlan, patience_s: float) -> None:
        self._plan = plan
        self._first_s = patience_s
        self._patience_s = patience_s
        self._since_s: float | None = None
        self._given = 0
        self._asked_s = -ASK_S
        self._told: SlotUsage | None = None

    def begin(self) -> None:
        """A life of the application begins: forget what was missing in the previous one."""
        self._since_s = self._told = None

    def look(self, now_s: float, slots: SlotUsage, ask_free: Callable[[], int | None]) -> SlotDecision | None:
        """What to report or do now, if anything. Does not repeat the same report.

        Args:
            now_s: monotonic seconds.
            ask_free: queries how many slots a restarted application would get in addition to its own; None: the cluster
                does not report it.
        """
        if slots.given >= slots.needed(self._plan) and not slots.waiting:
            return self._enough()
        if self._since_s is None or slots.given > self._given:
            self._since_s = now_s
        self._given = slots.given
        if now_s - self._since_s < self._patience_s or now_s - self._asked_s < ASK_S:
            return None
        if slots.given < slots.permanent(self._plan) and not slots.waiting:
            return None  # Spark has yet to find out which tasks it has lost
        self._asked_s = now_s
        free = ask_free()
        if self._helps(slots, free):
            self.begin()
            self._patience_s = min(2 * self._patience_s, PATIENCE_MAX_S)
            return SlotDecision(f"{self._missing(slots, free)}: restarting it", again=True)
        if slots == self._told:
            return None
        self._told = slots
        return SlotDecision(f"{self._missing(slots, free)}. Add a worker or cores, or end what holds them")

    def _enough(self) -> SlotDecision | None:
        told, self._told = self._told, None
        self._since_s, self._patience_s = None, self._first_s
        return SlotDecision(f"the application has all its slots again: {self._plan}") if told is not None else None

    def _helps(self, slots: SlotUsage, free: int | None) -> bool:
        """Running tasks are given up for waiting ones only if all of them will run."""
        if not slots.waiting:
            return False  # redos run inline meanwhile
        if free is None:
            return slots.given == 0
        return slots.given + free >= slots.needed(self._plan) or (slots.given == 0 and free > 0)

    def _missing(self, slots: SlotUsage, free: int | None) -> str:
        who = f"{', '.join(slots.waiting)} cannot run" if slots.waiting else "redos run inline"
        if slots.given >= slots.needed(self._plan):
            return f"{who} although the application has its slots: it asked for {self._plan}, and has {slots.given}"
        asked = f"{who} for want of slots: the application asked for {self._plan}; it has {slots.given}"
        return f"{asked}, and {_more(free)}"


def _more(free: int | None) -> str:
    if free is None:
        return "the master does not tell what is free"
    return f"the cluster has {free} more that it could have" if free else "the cluster has none free"
