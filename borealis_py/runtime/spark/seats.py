"""Where the replicas of an application run: each has a seat, a slot of its own or the standby task (R17.16). Pure: no
Spark, no clock, no threads.

Standbys that do not compute share the standby task. One that begins to run does so there, at once, and moves to a slot
of its own when one is free; one that has stood by for a while in a slot of its own gives it back. A replica moves by a
new incarnation at the new seat, which ends the one at the old; so for a moment it has an incarnation at both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

SETTLED_S = 1.0
"""How long a replica has run before it moves: it has caught up, and whoever might have run instead has read of it."""
CALM_S = 10.0
"""How long a replica has stood by before it gives its slot back: who runs may change a few times at a start."""
STARVED_S = 5.0
"""How long a task may wait for a slot before a replica that could share the standby task does."""


class Seat(Enum):
    """Where an incarnation runs."""

    OWN = "own slot"
    SHARED = "standby task"


class Activity(Enum):
    """What a replica does, as its status tells."""

    IDLES = "stands by, and does not compute"
    COMPUTES = "computes"


@dataclass(slots=True)
class _Seated:
    """One replica. `seat`: where it is to be; `present`: where it has an incarnation, each with the number of when it
    sat down."""

    seat: Seat
    activity: Activity | None = None
    movable: bool = True
    since_s: float = 0.0
    inc: int = 0
    present: dict[Seat, int] = field(default_factory=dict)
    sat: dict[Seat, int] = field(default_factory=dict)
    starved_since_s: float | None = None

    @property
    def settled(self) -> bool:
        """Whether it has its only incarnation where it is to be."""
        return self.present.keys() == {self.seat}

    def at(self, seat: Seat) -> bool:
        """Whether it takes that seat, now or soon."""
        return self.seat is seat or seat in self.present


class Seats:
    """The seats of one life of an application.

    Args:
        begins: of each replica by name, whether it begins in the standby task.
        shares: whether there is such a task; False: all have slots of their own.
        redos: slots that are kept for redo jobs.

    Attributes:
        waiting: names of those that run in the standby task until a slot of their own is free.
    """

    def __init__(self, begins: Mapping[str, bool], shares: bool, redos: int) -> None:
        self.shares = shares
        self.waiting: tuple[str, ...] = ()
        self._redos = redos
        self._count = 0
        self._of = {name: _Seated(Seat.SHARED if shares and shared else Seat.OWN) for name, shared in begins.items()}

    def seat(self, name: str) -> Seat:
        """Where its next incarnation is to be."""
        return self._of[name].seat

    @property
    def taken(self) -> int:
        """How many slots replicas take, now or soon; the standby task takes one."""
        own = sum(one.at(Seat.OWN) for one in self._of.values())
        return own + any(one.at(Seat.SHARED) for one in self._of.values())

    @property
    def sharing(self) -> tuple[str, ...]:
        """Names of those in the standby task."""
        return tuple(name for name, one in self._of.items() if Seat.SHARED in one.present)

    # What happened ----------------------------------------------------------------------------------------------------

    def sat_down(self, name: str, seat: Seat) -> bool:
        """An incarnation begins there. Returns whether the replica has another one, whose place it is to take."""
        one = self._of[name]
        self._count += 1
        one.present[seat] = one.sat[seat] = self._count
        return len(one.present) > 1

    def left(self, name: str, seat: Seat) -> None:
        """The incarnation there has ended."""
        one = self._of.get(name)
        if one is None:
            return
        one.present.pop(seat, None)
        if one.seat is seat or not one.present:
            one.activity = None

    def superseded(self, name: str, seat: Seat) -> bool:
        """The incarnation there was superseded. Returns whether that was since its replica moved: another one sat down
        later, at the other seat, or has begun anew there since, as its way of recovery changed. Then it stays there."""
        one = self._of.get(name)
        if one is None:
            return False
        if any(number > one.sat.get(seat, 0) for other, number in one.sat.items() if other is not seat):
            return True
        for other in one.present:
            if other is not seat:
                self._count += 1
                one.seat, one.sat[other] = other, self._count  # only one more is excused: a stranger would end both
                return True
        return False

    def gone(self, name: str) -> None:
        """The replica has ended for good."""
        self._of.pop(name, None)

    def told(self, now_s: float, name: str, inc: int, activity: Activity | None, movable: bool) -> None:
        """Take a status.

        Args:
            inc: of the incarnation that reports; what an older one says counts no more.
            activity: None: it starts, or has ended.
            movable: whether a new incarnation would lose nothing if it computes.
        """
        one = self._of.get(name)
        if one is None or inc < one.inc:
            return
        if activity is not one.activity or inc > one.inc:
            one.since_s = now_s
        one.inc, one.activity, one.movable = inc, activity, movable

    # What follows -----------------------------------------------------------------------------------------------------

    def decide(self, now_s: float, given: int) -> list[str]:
        """Change seats. Returns the names of those that move.

        Args:
            given: slots that the application has.
        """
        if not self.shares:
            return []
        return [*self._move_out(now_s, given), *self._move_in(now_s, given)]

    def _move_out(self, now_s: float, given: int) -> list[str]:
        """Who computes beside others gets a slot of its own; who does so alone has one already."""
        moved, waiting = [], []
        for name, one in self._of.items():
            runs = one.activity is Activity.COMPUTES and one.movable and now_s - one.since_s >= SETTLED_S
            if one.seat is not Seat.SHARED or not one.settled or not runs or not self._beside(name):
                continue
            if given - self._redos - self.taken < 1:
                waiting.append(name)
                continue
            one.seat = Seat.OWN
            moved.append(name)
        self.waiting = tuple(waiting)
        return moved

    def _beside(self, name: str) -> bool:
        return any(one.seat is Seat.SHARED for other, one in self._of.items() if other != name)

    def _move_in(self, now_s: float, given: int) -> list[str]:
        """Standbys share where two or more do. The task that they share may begin in a redo's slot, as theirs are free
        a moment later."""
        calm = [
            name
            for name, one in self._of.items()
            if one.seat is Seat.OWN and one.settled and one.activity is Activity.IDLES and now_s - one.since_s >= CALM_S
        ]
        there = [one for one in self._of.values() if one.seat is Seat.SHARED]
        idle = sum(one.activity is not Activity.COMPUTES for one in there)
        begun = any(one.at(Seat.SHARED) for one in self._of.values())
        if len(calm) + idle < 2 or not (begun or given - self.taken >= 1):
            return []
        for name in calm:
            self._of[name].seat = Seat.SHARED
        return calm

    def starved(self, now_s: float, names: Collection[str], idle: Collection[str]) -> list[str]:
        """Take which replicas' tasks wait for slots of their own. Returns those that go to the standby task instead.

        Args:
            idle: names of replicas whose standbys do not compute.
        """
        found = []
        for name, one in self._of.items():
            if name not in names or name not in idle or one.seat is not Seat.OWN or not self.shares:
                one.starved_since_s = None
            elif one.starved_since_s is None:
                one.starved_since_s = now_s
            elif now_s - one.starved_since_s >= STARVED_S:
                one.starved_since_s, one.seat = None, Seat.SHARED
                found.append(name)
        return found
