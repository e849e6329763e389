"""What a standby that does not compute survives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from borealis_py.log.base import LogUnreachable
from borealis_py.node.acknowledging import Acknowledging
from borealis_py.node.input_reader import InputReader, PolledInputs
from borealis_py.node.standby import Standby
from borealis_py.protocol.settings import Delays
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.simulation.cluster.machines import ReplicaMachine
from borealis_py.simulation.runner.simulation import Simulation
from borealis_py.simulation.scenario import Fault, Retention
from tests.simulation.calm import calm

SECOND = 1_000_000


def test_a_standby_that_cannot_read_what_others_acknowledge_stands_by_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the broker comes back and does not know its topics yet."""
    drawn = calm(seconds=15)
    (node,) = drawn.nodes
    nodes = (replace(node, recovery=RecoveryPlan(RecoveryWay.PASSIVE_STANDBY)),)
    begun, asked, repeated = list[Standby](), 0, Acknowledging.repeated
    begin = Standby.__init__

    def counted(it: Standby, *args: Any, **of: Any) -> None:
        begun.append(it)
        begin(it, *args, **of)

    def refused(it: Acknowledging, *args: Any) -> object:
        nonlocal asked
        asked += 1
        if asked <= 2:
            raise LogUnreachable("no broker answered")
        return repeated(it, *args)

    monkeypatch.setattr(Standby, "__init__", counted)
    monkeypatch.setattr(Acknowledging, "repeated", refused)
    Simulation(replace(drawn, nodes=nodes, retain=Retention(0, SECOND))).run()
    assert asked > 2
    assert len(begun) == 2, "each replica began once, as a standby"


def test_a_standby_whose_reader_is_stuck_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make chaos`, seed 170004: a broker that restarted left the reader of one standby stuck, and it would never have
    taken over."""
    drawn = calm(seconds=40)
    (node,) = drawn.nodes
    nodes = (replace(node, recovery=RecoveryPlan(RecoveryWay.PASSIVE_STANDBY)),)
    begun, begin, poll, stuck = list[Standby](), Standby.__init__, InputReader.poll, list[InputReader]()

    def counted(it: Standby, *args: Any, **of: Any) -> None:
        begin(it, *args, **of)
        begun.append(it)

    def polled(it: InputReader) -> PolledInputs:
        if (
            not stuck
            and len(begun) == 2
            and it is begun[-1]._reader
            and begun[-1].state.control.roles.runner is not None
        ):
            stuck.append(it)
        return PolledInputs() if it in stuck else poll(it)

    monkeypatch.setattr(Standby, "__init__", counted)
    monkeypatch.setattr(InputReader, "poll", polled)
    Simulation(replace(drawn, nodes=nodes)).run()
    assert stuck
    assert len(begun) == 3, "the one that was stuck began again, once"


def test_while_a_replica_starts_no_other_standby_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state may come from afar. Standbys took over from each other for ever."""
    drawn = calm(replicas=3, seconds=20)
    (node,) = drawn.nodes
    nodes = (replace(node, recovery=RecoveryPlan(RecoveryWay.PASSIVE_STANDBY)),)
    took_over, take = list[str](), ReplicaMachine._take_over

    def counted(it: ReplicaMachine, *args: Any) -> None:
        took_over.append(it.label)
        take(it, *args)

    monkeypatch.setattr(ReplicaMachine, "_take_over", counted)
    crash = Fault("crash", 0, 10 * SECOND, 18 * SECOND)
    world = replace(drawn, nodes=nodes, starts_us=5 * SECOND, delays=Delays(8 * SECOND), faults=(crash,))
    Simulation(world).run()
    assert len(took_over) == 2, "one at the beginning, one after the crash"
