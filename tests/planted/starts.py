"""Planted in starts: numbers, goals, where one begins (R11, B30, B42)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.node.input_reader import InputReader
from borealis_py.protocol.control import ControlFold, Recovery
from borealis_py.protocol.settings import DelayPolicy, Delays
from borealis_py.simulation.cluster.checkpoints import MemoryCheckpoints
from borealis_py.simulation.scenario import Fault, Scenario
from tests.planted.bug import Bug, Script
from tests.planted.scenarios import ms, one_node
from tests.planted.worlds import SOURCES, Worlds


def _goal_moves() -> Any:
    before = Recovery.done

    def done(self: Recovery, control: Any, **more: Any) -> bool:
        self._goal = None
        return before(self, control, **more)

    return mock.patch.object(Recovery, "done", done)


def _ready_before_acks() -> Any:
    before = Recovery.done

    def done(self: Recovery, control: Any, *, f_l: int, busy: bool, **_: Any) -> bool:
        return before(self, control, f_l=f_l, ack_l=f_l, busy=busy)

    return mock.patch.object(Recovery, "done", done)


def _ready_at_any_frontier() -> Any:
    before = Recovery.done

    def done(self: Recovery, control: Any, *, ack_l: int, **more: Any) -> bool:
        return before(self, control, ack_l=ack_l + 1_000, **more)

    return mock.patch.object(Recovery, "done", done)


def _numbers_from_heartbeats_alone() -> Any:
    before = InputReader.read_control

    def read(self: InputReader) -> int:
        with mock.patch.object(self._settings, "inc", 0):
            return before(self)

    return mock.patch.multiple(InputReader, read_control=read, _spoken=lambda self: ())


def _starts_behind(scenario: Scenario) -> Scenario:
    """It is heard only when it has lost an input, and holds every bucket back; its peer has all inputs."""
    faults = (
        Fault("crash", 1, *ms(3_000, 3_500)),
        Fault("beats_lost", 1, 3_500_050, 5_000_000),
        Fault("cut_input", 1, *ms(4_500, 10_000), "0"),
    )
    world = one_node(scenario, 2, faults)
    delays = Delays(2_000_000, DelayPolicy.DELAY, DelayPolicy.DELAY)
    return replace(world, nodes=(replace(world.nodes[0], replicas=2),), delays=delays)


def _starts_unheard(scenario: Scenario) -> Scenario:
    """It starts, and none of its heartbeats has come when it starts again."""
    faults = (
        Fault("crash", 0, *ms(3_000, 3_500)),
        Fault("beats_lost", 0, 3_500_050, 5_200_000),
        Fault("crash", 0, *ms(5_000, 5_500)),
    )
    return one_node(scenario, 1, faults)


def _starting_peers_set_goals() -> Any:
    kept = ControlFold.live_peers

    def live_peers(self: ControlFold) -> Any:
        return [replace(peer, beat=replace(peer.beat, state="STABLE")) for peer in kept(self)]

    return mock.patch.object(ControlFold, "live_peers", live_peers)


def _checkpoints_are_not_read() -> Any:
    return mock.patch.object(MemoryCheckpoints, "newest", return_value=None)


def _zombies_stay() -> Any:
    return mock.patch.object(ControlFold, "_check_own", return_value=None)


def _same_incarnation_again() -> Any:
    before = InputReader.read_control
    return mock.patch.object(InputReader, "read_control", lambda self: before(self) - 1)


def _never_ready() -> Any:
    before = Recovery.done

    def done(self: Recovery, control: Any, *, ack_l: int, **more: Any) -> bool:
        return before(self, control, ack_l=ack_l - 1_000_000, **more)

    return mock.patch.object(Recovery, "done", done)


BUGS = (
    Bug(
        "R11 READY waits for the acks",
        "safety",
        _ready_before_acks,
        Worlds(("crash", "slow"), ("ready",), found=2, seeds=30),
        script=Script("tests/protocol/test_starting.py::test_who_was_not_acknowledged_is_not_ready"),
    ),
    Bug(
        "R11 READY waits for its goal",
        "liveness",
        _ready_at_any_frontier,
        Worlds(("crash", *SOURCES), ("ready",), found=3, seeds=60),
    ),
    Bug(
        "B42 the goal of a start stays",
        "liveness",
        _goal_moves,
        Worlds(("crash",), ("ready",), found=2, change=_starts_behind),
        script=Script(
            "tests/protocol/test_starting.py::test_the_goal_of_a_start_is_what_the_peers_had_reached_at_the_first_echo"
        ),
    ),
    Bug(
        "B30 numbers are above those in the settings",
        "safety",
        _numbers_from_heartbeats_alone,
        Worlds(("crash",), ("incarnation",), found=1, change=_starts_unheard),
    ),
    Bug(
        "R11 a peer that is starting itself sets no goal",
        "liveness",
        _starting_peers_set_goals,
        script=Script("tests/protocol/test_starting.py::test_a_peer_that_is_starting_itself_sets_no_goal"),
    ),
    Bug(
        "R11 a start begins at the newest checkpoint",
        "quality",
        _checkpoints_are_not_read,
        scene="crash_and_checkpoint",
    ),
    Bug(
        "B30 who is replaced leaves",
        "liveness",
        _zombies_stay,
        Worlds(("zombie",), ("convergence",), found=1),
    ),
    Bug(
        "B30 every start is a new incarnation",
        "liveness",
        _same_incarnation_again,
        Worlds(("crash",), ("convergence",), found=1),
    ),
    Bug(
        "R11 the goal of a start is fixed",
        "liveness",
        _never_ready,
        Worlds((), ("convergence",), found=1),
    ),
)
