"""Planted in who corrects when: asks, the queue, grants (R4, R8, R9, B25 to B28)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.protocol.stagger import Stagger
from borealis_py.protocol.turn import SendHeartbeat
from borealis_py.simulation.scenario import SECOND, Fault, Scenario
from tests.planted.bug import Bug, Script
from tests.planted.patches import together
from tests.planted.scenarios import ms, one_node, pairs
from tests.planted.worlds import SOURCES, Worlds


def _newer_incarnation_keeps_ask() -> Any:
    kept = ControlFold.read

    def read(self: ControlFold, offset: int, beat: Any) -> None:
        before = self.peers.get(beat.replica)
        ask = before.ask if before is not None else None
        kept(self, offset, beat)
        peer = self.peers[beat.replica]
        if peer is not before and peer.ask is None:
            peer.ask = ask

    return mock.patch.object(ControlFold, "read", read)


def _youngest_ask_first() -> Any:
    def head(self: ControlFold) -> int | None:
        asks = [(p.ask, i) for i, p in self.peers.items() if p.ask is not None and self.live(i)]
        return max(asks)[1] if asks else None

    return mock.patch.object(ControlFold, "head", property(head))


def _grant_kept() -> Any:
    kept = Stagger._update_asking

    def update(self: Stagger, now: int, diverged: bool, complete: bool) -> None:
        kept(self, now, diverged, diverged)

    return mock.patch.object(Stagger, "_update_asking", update)


def _old_ask_for_a_new_run() -> Any:
    before = HeartbeatTimer.beat

    def beat(self: HeartbeatTimer, *, ask: Any, **more: Any) -> Any:
        return [SendHeartbeat(replace(b.heartbeat, ask_offset=ask)) for b in before(self, ask=ask, **more)]

    return mock.patch.object(HeartbeatTimer, "beat", beat)


def _withdrawn_asks_keep_their_place() -> Any:
    before = ControlFold.read

    def read(self: ControlFold, offset: int, beat: Any) -> None:
        known = self.peers.get(beat.replica)
        ask = None if known is None or known.inc != beat.inc else known.ask
        before(self, offset, beat)
        peer = self.peers[beat.replica]
        if ask is not None:
            peer.ask = ask

    return mock.patch.object(ControlFold, "read", read)


def _no_patience_behind_a_head() -> Any:
    before = Stagger.__init__

    def init(self: Stagger, timing: Timing) -> None:
        before(self, replace(timing, stagger_us=timing.stagger_us // 2))

    return mock.patch.object(Stagger, "__init__", init)


def _asks_again_unheard(scenario: Scenario) -> Scenario:
    """It hears of its first ask, and neither of its end nor of the second one."""
    faults = (
        Fault("source_failed", 0, *ms(3_000, 5_000)),
        Fault("cut_control", 0, *ms(5_150, 9_000)),
        Fault("source_failed", 0, *ms(5_400, 7_000)),
    )
    return one_node(scenario, 2, faults, inline_us=0, inline_buckets=1)


def _behind_a_hang(scenario: Scenario) -> Scenario:
    """Two replicas ask, and the job of the one that is head hangs."""
    hang = Fault("redos", 0, 0, scenario.heal_us, "hang"), Fault("redos", 1, 0, scenario.heal_us, "hang")
    faults = (*hang, Fault("source_failed", 0, *ms(3_000, 5_000)))
    world = one_node(scenario, 2, faults, inline_us=0, inline_buckets=1)
    return replace(world, nodes=(replace(world.nodes[0], replicas=2),))


def _dies_while_asking(scenario: Scenario) -> Scenario:
    """An input comes back, both replicas ask, and one of them is gone for ever."""
    (node,) = scenario.nodes
    fault = Fault("source_cut", 0, scenario.heal_us - 6 * SECOND, scenario.heal_us - SECOND)
    return replace(
        scenario,
        nodes=(replace(node, replicas=2),),
        lost=(0,),
        faults=(fault,),
        delays=Delays(1_000_000),
        timing=replace(scenario.timing, inline_us=0, inline_buckets=1, redo_rows=1),
    )


def _no_stagger() -> Any:
    before = Stagger.turn

    def turn(self: Stagger, *args: Any) -> None:
        before(self, *args)
        self.granted = self.asking

    return mock.patch.object(Stagger, "turn", turn)


def _never_asks() -> Any:
    before = Stagger._update_asking

    def update(self: Stagger, now: int, diverged: bool, complete: bool) -> None:
        before(self, now, diverged, complete and not diverged)

    return mock.patch.object(Stagger, "_update_asking", update)


def _a_dead_head_stays_head() -> Any:
    """R8 and B27 together: nobody is ever suspected, and nobody goes on after T."""
    before = Stagger._watch_head

    def watch(self: Stagger, *args: Any) -> None:
        before(self, *args)
        self._passed = False

    return together(
        mock.patch.object(Stagger, "_watch_head", watch),
        mock.patch.object(ControlFold, "live", return_value=True),
    )


BUGS = (
    Bug(
        "B25 a newer incarnation clears the older one's ask",
        "liveness",
        _newer_incarnation_keeps_ask,
        script=Script("tests/protocol/test_control.py::test_a_newer_incarnation_clears_the_older_ones_ask"),
    ),
    Bug(
        "R9 the oldest ask is the head",
        "quality",
        _youngest_ask_first,
        scene="adoption",
    ),
    Bug(
        "B28 who cannot correct any further asks no more",
        "liveness",
        _grant_kept,
        scene="lost_twice",
    ),
    Bug(
        "B26 an ask has the place of its own run",
        "liveness",
        _old_ask_for_a_new_run,
        Worlds(SOURCES, ("ask",), found=1, seeds=10, change=_asks_again_unheard),
        script=Script(
            "tests/protocol/test_starting.py::test_a_new_run_of_asking_does_not_carry_the_offset_of_the_one_before"
        ),
    ),
    Bug(
        "R9 a withdrawn ask loses its place",
        "liveness",
        _withdrawn_asks_keep_their_place,
        Worlds(SOURCES, ("turn", "convergence"), found=3, seeds=60, change=pairs),
    ),
    Bug(
        "B27 T is waited for",
        "quality",
        _no_patience_behind_a_head,
        Worlds(SOURCES, ("turn",), found=1, change=_behind_a_hang),
    ),
    Bug(
        "R4 who has diverged asks",
        "liveness",
        _never_asks,
        Worlds(SOURCES, ("convergence",), found=3),
    ),
    Bug(
        "B27 one after the other",
        "quality",
        _no_stagger,
        Worlds(SOURCES, ("stagger",), found=3, seeds=60),
        scene="chain",
    ),
    Bug(
        "R8, B27 a dead head does not stay head",
        "liveness",
        _a_dead_head_stays_head,
        Worlds(SOURCES, ("convergence",), found=1, seeds=30, change=_dies_while_asking),
    ),
)
