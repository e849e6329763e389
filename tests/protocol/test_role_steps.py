"""The steps between roles (R17): those of real managers and standbys in random lives are those that the page shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from borealis_py.protocol.idle_standby import IdleStandby
from borealis_py.protocol.incarnation import Heartbeat, Identity, StartPoint
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.roles import Role
from borealis_py.protocol.settings import NodeDelays
from borealis_py.protocol.turn import Effect, ExitReplica, SendHeartbeat, StepBack, Turn
from sunion.model import Input
from sunion.units import Bucket, MonotonicUs, Offset
from tests.protocol.chain_node import D
from tests.protocol.toy import MS, TIMING
from tests.sunion.lists import FRAGMENT
from tests.support.managers import toy_config

PAGE = Path(__file__).parents[2] / "docs" / "protocol" / "roles.md"
LIVES, STEPS, STEP_US, REPLICAS = 30, 260, 40 * MS, 3


@dataclass
class ControlLog:
    """What all replicas read, in order."""

    beats: list[tuple[Offset, Heartbeat]] = field(default_factory=list)

    def append(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendHeartbeat):
                self.beats.append((Offset(len(self.beats)), effect.heartbeat))


def new_manager(identity: Identity, role: Role, standby: IdleStandby | None = None) -> Manager:
    """A replica that has nothing to compute: its role is all that it decides."""
    return Manager(
        toy_config(Input.source("s"), timing=TIMING),
        identity=identity,
        start=StartPoint(Bucket(0), FRAGMENT.initial(), empty=True),
        delays=NodeDelays(D),
        role=role,
        control=None if standby is None else standby.control,
    )


class Incarnation:
    """One incarnation of a replica index. It notes each step between states in `steps`.

    Args:
        begins: the state that it begins in. idle: it does not compute while it stands by.
    """

    def __init__(
        self, log: ControlLog, random: Random, identity: Identity, begins: str, idle: bool, steps: set[tuple[str, str]]
    ) -> None:
        self.log, self.random, self.identity, self.steps = log, random, identity, steps
        self.state, self.over, self.read = begins, False, 0
        steps.add(("[*]", begins))
        self.standby = IdleStandby(identity, TIMING, Bucket(0)) if idle else None
        role = Role.MOVES if begins == "MOVING" else Role.STANDS_BY
        self.manager = None if idle else new_manager(identity, role)
        self.last: Heartbeat | None = None

    def turn(self, now: MonotonicUs) -> None:
        """One turn; a replica that starts repeats its last heartbeat, until it has started."""
        if self.state == "TAKING_OVER":
            if self.random.random() < 0.7:
                if self.last is not None:
                    self.log.append([SendHeartbeat(self.last)])
                return
            self.manager = new_manager(self.identity, Role.TOOK_OVER, self.standby)
            self.standby = None
        beats = self.log.beats[self.read :]
        self.read = len(self.log.beats)
        if self.standby is not None:
            effects = self.standby.turn(now, beats)
        else:
            assert self.manager is not None
            effects = self.manager.handle(Turn(now, beats))
        self.log.append(effects)
        sent = [effect.heartbeat for effect in effects if isinstance(effect, SendHeartbeat)]
        self.last = sent[-1] if sent else self.last
        if any(isinstance(effect, ExitReplica) for effect in effects):
            self.over = True
            return
        stepped = any(isinstance(effect, StepBack) for effect in effects)
        if stepped and self.state == "RUNNING":
            self._step("YIELDING")  # in the same turn
        self._step("STANDBY" if stepped else self._now())
        self.over = stepped

    def _now(self) -> str:
        if self.manager is None:
            assert self.standby is not None
            return "TAKING_OVER" if self.standby.runs else "STANDBY"
        speaking, control = self.manager.speaking, self.manager.control
        if not speaking.runs:
            return "MOVING" if speaking.unheard else "STANDBY"
        runner, own = control.roles.runner, control.own_beat
        claimed = own is not None and own.runs
        return "YIELDING" if claimed and runner is not None and not control.roles.runs else "RUNNING"

    def _step(self, to: str) -> None:
        if to != self.state:
            self.steps.add((self.state, to))
            self.state = to


def live(seed: int, steps: set[tuple[str, str]]) -> None:
    """One life of a node: replicas pause, die, move, and take over."""
    random = Random(seed)
    log, idle, incs = ControlLog(), bool(seed % 2), dict.fromkeys(range(REPLICAS), 0)
    away = dict.fromkeys(range(REPLICAS), 0)
    alive: dict[int, list[Incarnation]] = {}

    def start(index: int, begins: str = "STANDBY") -> None:
        incs[index] += 1
        who = Identity(index, incs[index], f"r{index}.{incs[index]}")
        idles = idle and begins == "STANDBY"
        alive.setdefault(index, []).append(Incarnation(log, random, who, begins, idles, steps))

    for index in range(REPLICAS):
        start(index)
    for n in range(1, STEPS):
        for index, there in alive.items():
            if random.random() < 0.01:
                away[index] = n + random.randint(1, 40)
            if random.random() < 0.005:
                there.clear()
            elif random.random() < 0.02 and len(there) == 1 and there[0].state in ("RUNNING", "STANDBY"):
                start(index, "MOVING")
            if away[index] > n:
                continue
            for one in [*there]:
                one.turn(MonotonicUs(n * STEP_US))
            there[:] = [one for one in there if not one.over]
            if not there:
                start(index)


def shown() -> set[tuple[str, str]]:
    """The arrows of the page's diagram."""
    (diagram,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return set(re.findall(r"(?m)^ *(\S+) --> (\S+)", diagram))


def test_the_page_shows_the_steps_that_replicas_take_and_no_others() -> None:
    steps: set[tuple[str, str]] = set()
    for seed in range(LIVES):
        live(seed, steps)
    assert steps == shown()
