"""Who of a node's replicas runs, where one speaks for all (R17.2). Pure: a fold of the control log, like the queue.

Roles are advice. Two replicas that run for a while cost work and say the same, since stable buckets are the same bits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from borealis_py.protocol.incarnation import Heartbeat
from borealis_py.protocol.states import ReplicaState
from sunion.units import NOWHERE

CLAIM_BEATS = 3
"""Own heartbeats that are read back without one of a replica that runs, before the first standby runs: 0.3 s. Fewer
would be less than one long turn."""
PATIENT_BEATS = 8
"""The most that this grows to where replicas were taken for dead that lived: on a busy machine heartbeats come late."""
CALM_BEATS = 300
"""After so many heartbeats of one runner it halves again: 30 s."""
PERSIST_BEATS = 10
"""So many heartbeats a claim that came too late may last: its replica does not know, since the log has deleted what it
did not read."""
YIELD_BEATS = 3
"""So many heartbeats of its own, with one of the runner before each, does who lost its place wait where it may regain
it: it gets further than a runner that has not begun, or what took its place was said before its replica died."""
STEP_BEATS = 3
"""How many more the next standby waits for, so that one runs at a time: 0.2 s, or 0.3 s of one that computes."""

_BEGINNING = frozenset({ReplicaState.STANDBY.value, ReplicaState.RECOVERING.value})


class Role(Enum):
    """How an incarnation begins, by its node's way of recovery."""

    ALWAYS_RUNS = "always runs"
    """All replicas of the node do: `recovery="active"`."""
    STANDS_BY = "stands by"
    """It computes and says nothing until it takes over: `recovery="active-standby"`."""
    TOOK_OVER = "took over"
    """It stood by without computing, until this incarnation."""
    MOVES = "moves"
    """Its former incarnation runs elsewhere: it computes, and is not heard until it has caught up with that one."""


def _starts(beat: Heartbeat) -> bool:
    return beat.runs and beat.state == ReplicaState.STANDBY.value


@dataclass(frozen=True, slots=True)
class Runner:
    """The replica that runs (`replica`, its index), and how far its own topic holds buckets: stable ones (`ack_s`), and
    of any kind (`ack_l`). `starts`: it has taken over, and has had no turn as a replica yet."""

    replica: int
    ack_s: int
    ack_l: int
    starts: bool = False


class RoleFold:
    """What the control log says of who runs.

    Feed it the valid heartbeats of a node in log order (R9). All replicas that read the same log see the same runner.

    Args:
        replica: the own index.

    Attributes:
        runner: None: nobody runs, as far as was read.
    """

    def __init__(self, replica: int) -> None:
        self.replica = replica
        self.runner: Runner | None = None
        self._since: Counter[int] = Counter()
        """Heartbeats of each standby since the last one of the runner."""
        self._late: Counter[int] = Counter()
        """Heartbeats of replicas that run and are not the runner, since they did; one for each of the runner's."""
        self._counted: set[int] = set()
        """Whose were counted since the runner's last one."""
        self._before: int | None = None
        """Who ran before the runner, and was not heard since."""
        self._began = False
        """Whether the runner has begun to run: it has said more than that it takes over."""
        self._regained = False
        """Whether the runner was taken for dead and has its place again: it is further, or the other one started."""
        self._left: dict[int, tuple[int, int]] = {}
        """How far each had said stable and other buckets when it lost its place."""
        self._alone: Counter[int] = Counter()
        """Heartbeats of replicas that have begun and are not the runner, since the last one of the runner."""
        self._failed: Counter[int] = Counter()
        """How often each replica took over, and stood by again, without having begun since."""
        self._patience = CLAIM_BEATS
        """Own heartbeats without one of the runner before the first standby runs: `CLAIM_BEATS` to `PATIENT_BEATS`."""
        self._calm = 0
        """Heartbeats of runners since the patience last changed; fewer than `CALM_BEATS`."""

    def read(self, beat: Heartbeat) -> None:
        """Take one valid heartbeat.

        A replica that says that it runs is the runner if it was, if nobody is, or if it first stood by for
        `CLAIM_BEATS` without hearing from the runner. Else its claim came too late, and it steps back when it reads
        this. If it goes on, one of the two has not read all: of these the lower index is the runner. One that starts
        reads nothing, and speaks for nobody: whoever has started takes its place. So does who gets further than it had
        got when it lost its place, and than a runner that has not begun, which is to run again what held that one up.
        Who regained its place so is believed to live only while it is heard.
        """
        who = beat.replica
        runs = self.runner is not None and self.runner.replica == who
        if not beat.runs:
            if runs:
                self.runner = None
                self._failed[who] += not self._began
            self._since[who] += 1
            self._late[who] = 0
        elif runs or self.runner is None or self._since[who] >= CLAIM_BEATS:
            self._ran(who, beat)
        elif _starts(beat):  # as a standby: it may claim again once it does not hear the runner
            self._since[who] += 1
        else:
            self._came_late(who, self.runner, beat)

    def _came_late(self, who: int, runner: Runner, beat: Heartbeat) -> None:
        if who not in self._counted:  # what arrives at once, after a cut, is no going on
            self._counted.add(who)
            self._late[who] += 1
        if who == self._before:  # it was taken for dead, and was only late
            self._before, self._calm = None, 0
            self._patience = min(2 * self._patience, PATIENT_BEATS)
        self._alone[who] += beat.state not in _BEGINNING
        silent = self._regained and self._alone[who] > PERSIST_BEATS
        regains = runner.starts or self._further(runner, beat)
        if regains or silent or (who < runner.replica and self._late[who] > PERSIST_BEATS):
            self._ran(who, beat)
            self._before = None  # the other one is alive, too
            self._regained = regains

    def _further(self, runner: Runner, beat: Heartbeat) -> bool:
        if self._began or self._regained:
            return False
        had = self._left.get(beat.replica, (NOWHERE, NOWHERE))
        return (beat.ack_s, beat.ack_l) > max((runner.ack_s, runner.ack_l), had)

    def _ran(self, who: int, beat: Heartbeat) -> None:
        before = self.runner
        if before is not None and before.replica != who:
            self._before = before.replica
            self._left[before.replica] = before.ack_s, before.ack_l
            self._failed[before.replica] += not self._began
            self._regained = False
            self._late.clear()
        stays = before is not None and before.replica == who
        self._began = (stays and self._began) or beat.state not in _BEGINNING
        if self._began:
            self._failed[who] = 0
        self.runner = Runner(who, beat.ack_s, beat.ack_l, _starts(beat))
        self._since.clear()
        self._alone.clear()
        self._counted.clear()
        self._late[who] = 0
        self._calm += 1
        if self._calm >= CALM_BEATS:
            self._calm = 0
            self._patience = max(CLAIM_BEATS, self._patience // 2)

    @property
    def patient(self) -> bool:
        """Whether one that lived was taken for dead not long ago."""
        return self._patience > CLAIM_BEATS

    @property
    def due(self) -> bool:
        """Whether this replica, which stands by, is to run now."""
        before = sum(heard > 0 and self._place(who) < self._place(self.replica) for who, heard in self._since.items())
        return self._since[self.replica] >= self._patience + STEP_BEATS * before

    @property
    def yields(self) -> bool:
        """Whether this replica, which runs, is to step back: another one is the runner, and keeps its place."""
        if self.runner is None or self.runs or self.runner.starts:
            return False
        keeps = self._began and not self._regained
        return keeps or self._late[self.replica] >= YIELD_BEATS

    def _place(self, who: int) -> tuple[int, int]:
        """Its place in the queue: who took over and could not begin, since it reaches no input, lets others try."""
        return self._failed[who], who

    @property
    def runs(self) -> bool:
        """Whether this replica is the runner."""
        return self.runner is not None and self.runner.replica == self.replica
