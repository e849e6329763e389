"""Each replica has an incarnation at its seat: who moves leaves the old one quietly, who is superseded without a move
does not, and what statuses tell is what decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from borealis_py.node.endings import Superseded
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.runtime.spark import seating as seating_module
from borealis_py.runtime.spark import seats
from borealis_py.runtime.spark.replica_task import NodeTask
from borealis_py.runtime.spark.seating import Seating, activity_of
from borealis_py.runtime.spark.seats import Activity, Seat
from tests.harness.waiting import until
from tests.support.statuses import status

PASSIVE = RecoveryWay.PASSIVE_STANDBY.value


class _Spec:
    """As much of a ReplicaSpec."""

    def __init__(self, node: str, replica: int) -> None:
        self.node, self.replica, self.name = node, replica, f"{node}.r{replica}"
        self.recovery = RecoveryPlan(RecoveryWay.PASSIVE_STANDBY)


class Host:
    """Two replicas of index 1, whose incarnations end when the test says so."""

    def __init__(self) -> None:
        specs: list[Any] = [_Spec("a", 1), _Spec("b", 1)]
        self.tasks = {spec.node: NodeTask(spec, "s", (), None) for spec in specs}  # type: ignore[arg-type]
        self.running: dict[tuple[str, Seat], bool] = {}
        """Who runs where, and whether it takes the place of another one."""
        self.endings: dict[tuple[str, Seat], Exception] = {}
        self.ended: dict[tuple[str, Seat], Exception] = {}
        self.done = threading.Event()
        runs = {seat: self.runner(seat) for seat in Seat}
        self.seating = Seating(list(self.tasks.values()), True, 1, runs)
        for node in self.tasks:
            for seat in Seat:
                threading.Thread(target=self.keep, args=(node, seat), daemon=True).start()

    def runner(self, seat: Seat) -> Callable[[NodeTask, bool], None]:
        def run(task: NodeTask, moves: bool) -> None:
            at = task.spec.node, seat
            self.running[at] = moves
            until(lambda: at in self.endings or self.done.is_set(), "it ends")
            del self.running[at]
            if at in self.endings:
                raise self.endings.pop(at)

        return run

    def keep(self, node: str, seat: Seat) -> None:
        while not self.done.is_set():
            try:
                self.seating.sit(self.tasks[node], seat, self.done)
            except Exception as exc:
                self.ended[node, seat] = exc
                return

    def told(self, node: str, inc: int, state: str, recovery: str = PASSIVE) -> None:
        self.seating.told(status(node=node, replica=1, inc=inc, state=state, recovery=recovery))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(seats, "SETTLED_S", 0.0)
    monkeypatch.setattr(seats, "CALM_S", 0.0)
    monkeypatch.setattr(seats, "STARVED_S", 0.0)
    monkeypatch.setattr(seating_module, "WAIT_S", 0.05)
    it = Host()
    until(lambda: it.running == {("a", Seat.SHARED): False, ("b", Seat.SHARED): False}, "both share")
    yield it
    it.done.set()


def test_who_runs_moves_and_its_old_incarnation_ends_quietly(host: Host) -> None:
    host.told("a", 1, "STABLE")
    host.told("b", 1, "STANDBY")
    assert host.seating.look(3, ()) == []
    until(lambda: host.running.get(("a", Seat.OWN)) is True, "a has another incarnation, which is told so")
    assert ("a", Seat.SHARED) in host.running, "the old one runs until it is superseded"
    assert host.seating.taken == 2
    host.endings["a", Seat.SHARED] = Superseded("another one runs")
    until(lambda: ("a", Seat.SHARED) not in host.running, "the old one has ended")
    until(lambda: host.seating.sharing == ("b.r1",), "b is alone")
    assert host.ended == {}
    host.told("a", 2, "STANDBY")
    host.seating.look(3, ())
    until(lambda: host.running.get(("a", Seat.SHARED)) is True, "a stands by, and goes back")


def test_who_is_superseded_without_a_move_ends(host: Host) -> None:
    host.endings["b", Seat.SHARED] = Superseded("this index runs elsewhere")
    until(lambda: ("b", Seat.SHARED) in host.ended, "it ends")
    assert list(host.running) == [("a", Seat.SHARED)]


def test_who_finds_no_slot_is_told_to_wait_no_longer(host: Host) -> None:
    host.told("a", 1, "STABLE")
    host.seating.look(3, ())
    until(lambda: ("a", Seat.OWN) in host.running, "it has a task of its own, which waits for a slot")
    host.seating.look(3, ["a.r1"])
    assert host.seating.look(3, ["a.r1"]) == ["a.r1"]
    host.endings["a", Seat.OWN] = RuntimeError("cancelled")
    until(lambda: ("a", Seat.OWN) in host.ended, "it is cancelled")
    assert ("a", Seat.SHARED) in host.running


@pytest.mark.parametrize(
    ("state", "recovery", "event", "activity"),
    [
        ("STANDBY", PASSIVE, "", Activity.IDLES),
        ("STANDBY", "active-standby", "", Activity.COMPUTES),
        ("STABLE", PASSIVE, "", Activity.COMPUTES),
        ("UPSTREAM_FAILURE", "amnesia", "", Activity.COMPUTES),
        ("RECOVERING", PASSIVE, "", None),
        ("RECOVERING", "active", "", Activity.COMPUTES),
        ("RECOVERING", "active", "STOPPED", None),
        ("STANDBY", PASSIVE, "STOPPED", None),
    ],
)
def test_what_a_replica_does_by_its_status(state: str, recovery: str, event: str, activity: Activity | None) -> None:
    assert activity_of(status(state=state, recovery=recovery, event=event)) is activity
