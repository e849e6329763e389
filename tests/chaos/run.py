"""Does the faults that were drawn, each in steps, several at a time, and waits until everything has healed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.chaos import elsewhere, foreign, inputs, processes, several
from tests.chaos.arena import Arena, Steps, Wait
from tests.chaos.faults import KINDS, CameToNothing, Fault
from tests.harness.waiting import wall_us

TURN_S = 0.1
AT_ONCE = 3
AHEAD = 12
"""So many faults are looked at for one that takes nothing that is taken: the pace is kept, at the cost of the order."""
HEALED_S = 300.0
DOING: dict[str, Callable[[Arena, Fault], Steps]] = {
    **processes.DOING,
    **inputs.DOING,
    **foreign.DOING,
    **elsewhere.DOING,
    **several.DOING,
}
assert set(DOING) == set(KINDS)


@dataclass
class Done:
    """A fault that was begun. `end_us`: when it had healed; None: it has not. `nothing`: why it broke nothing."""

    fault: Fault
    begin_us: int
    end_us: int | None = None
    nothing: str = ""

    def __str__(self) -> str:
        healed = "not healed" if self.end_us is None else f"healed after {(self.end_us - self.begin_us) / 1e6:.1f} s"
        return ", ".join(filter(None, (str(self.fault), healed, self.nothing)))


class NotHealed(AssertionError):
    """What a fault left behind did not become well."""


class _Active:
    """One that is under way."""

    def __init__(self, arena: Arena, done: Done) -> None:
        self.done = done
        self._steps = DOING[done.fault.kind](arena, done.fault)
        self._wait: Wait = lambda: True
        self._limit = time.monotonic() + HEALED_S + done.fault.s

    def step(self) -> bool:
        """Go on as far as it can; whether it has healed."""
        while self._wait():
            try:
                self._wait = next(self._steps)
            except (StopIteration, CameToNothing) as end:
                self.done.end_us = wall_us()
                self.done.nothing = str(end) if isinstance(end, CameToNothing) else ""
                return True
        if time.monotonic() > self._limit:
            raise NotHealed(f"{self.done.fault}: not well {HEALED_S:g} s later")
        return False


def run(arena: Arena, faults: Sequence[Fault], told: Callable[[list[Done]], None]) -> list[Done]:
    """Do all of them, in their order as far as what they take allows it.

    Args:
        told: is called with all so far whenever one begins or has healed; the list is the one that is returned.
    """
    queue, active, done = deque(faults), list[_Active](), list[Done]()
    due = time.monotonic() + queue[0].gap_s

    def turn() -> None:
        nonlocal due
        arena.cluster.look()
        healed = [one for one in active if one.step()]
        for one in healed:
            active.remove(one)
        begun = _next(queue, active) if time.monotonic() >= due else None
        if begun is not None:
            done.append(Done(begun, wall_us()))
            active.append(_Active(arena, done[-1]))
            due = time.monotonic() + (queue[0].gap_s if queue else 0.0)
        if healed or begun is not None:
            told(done)

    pause = threading.Event()
    try:
        while queue or active:
            turn()
            pause.wait(TURN_S)
    except BaseException:
        if done:
            told(done)
        raise
    return done


def _next(queue: deque[Fault], active: Sequence[_Active]) -> Fault | None:
    """Take the first that may begin now."""
    if len(active) >= AT_ONCE:
        return None
    taken = {what for one in active for what in one.done.fault.takes}
    for fault in list(queue)[:AHEAD]:
        if not fault.takes & taken:
            queue.remove(fault)
            return fault
    return None
