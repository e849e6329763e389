"""Faults of a log that has three brokers: one of them, all in turn, too many at once, their controller, a link to one.

While a leader is elected nobody can write its partition, so the bound is not promised from the moment a broker breaks
until results of then have come. It is from then on, while two are there, and while only the controller is away.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError as AdminError
from kafka.structs import TopicPartition

from borealis_py.log.topics import TopicSpec
from tests.chaos.arena import BROKER, Arena, Steps
from tests.chaos.faults import COMES_BACK, CUT_FROM, JUMPS_S, CameToNothing, Fault
from tests.chaos.inputs import answers
from tests.harness.brokers import CONTROLLER
from tests.harness.waiting import wall_us

PROBE = "probe"
"""A topic in which only the chaos writes."""
REFUSED_S = 5.0
OPEN_S = 15.0
"""Whoever publishes opens a transaction within this."""
FULL_S = 30.0
OPEN = ("Ongoing", "PrepareCommit")


def _number(fault: Fault) -> int:
    return int(fault.on.removeprefix("broker-"))


def _away(it: Arena, end: signal.Signals, fault: Fault) -> Steps:
    """One ends so. It comes back soon, or after results of two brokers; the bound holds again from these on."""
    n, soon = _number(fault), fault.more == COMES_BACK[0]
    with it.impairing(BROKER):
        yield it.doing(partial(it.brokers.nodes[n].signal, end))
        if soon:
            yield it.after(fault.s)
            it.brokers.start(n)
        yield from answers(it)
    if not soon:
        yield it.after(fault.s)
        it.brokers.start(n)
    yield from _whole(it)


def _whole(it: Arena) -> Steps:
    """All have every record again, so that another broker may go; and results come."""
    yield it.becomes(it.brokers.whole)
    yield from answers(it)


def killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of one."""
    yield from _away(it, signal.SIGKILL, fault)


def restarted(it: Arena, fault: Fault) -> Steps:
    """One is stopped in order: it hands its partitions over first."""
    yield from _away(it, signal.SIGTERM, fault)


def paused(it: Arena, fault: Fault) -> Steps:
    """SIGSTOP of one, SIGCONT: after 3 s others lead what it led, and it does not know yet."""
    with it.impairing(BROKER):
        there = it.pause([it.brokers.nodes[_number(fault)].process])
        yield it.after(fault.s)
        it.resume(there)
        yield from answers(it)
    yield from _whole(it)


def cut_off(it: Arena, fault: Fault) -> Steps:
    """One cannot reach the other brokers, or the controller, or either; clients reach all of them."""
    n = _number(fault)
    brokers = [other for other in it.brokers.numbers if other != n]
    others = dict(zip(CUT_FROM, (brokers, [CONTROLLER], [CONTROLLER, *brokers]), strict=True))[fault.more]
    with it.impairing(BROKER):
        it.brokers.wires.cut(n, others)
        yield it.after(fault.s)
        it.brokers.wires.heal(n)
        yield from answers(it)
    yield from _whole(it)


def disk_full(it: Arena, fault: Fault) -> Steps:
    """One's disk is full: it halts; there is space again, and it is started again."""
    n = _number(fault)
    node, disk = it.brokers.nodes[n], it.brokers.disks[n]
    if not disk.mounted:
        raise CameToNothing("no disk can be mounted here")
    with it.impairing(BROKER):
        yield it.doing(disk.fill)
        limit = it.after(FULL_S)
        yield lambda: node.ended or limit()
        halted = node.ended
        if halted:
            yield from answers(it)
    yield it.after(fault.s)
    disk.free()
    if halted:
        it.brokers.start(n)
    yield from _whole(it)
    if not halted:
        raise CameToNothing("it went on")


def clock_moved(it: Arena, fault: Fault) -> Steps:
    """One's wall clock jumps, and jumps back: what it led and coordinated counts as older, or newer, than it is."""
    n = _number(fault)
    if not it.brokers.clocks:
        raise CameToNothing("no compiler is here, or it does not compile clock.c")
    for us in (JUMPS_S[fault.more] * 1_000_000, 0):
        with it.impairing(BROKER):
            it.brokers.move_clock(n, us)
            yield from answers(it)
        yield it.after(fault.s)
    yield from _whole(it)


def rolled(it: Arena, fault: Fault) -> Steps:
    """All are restarted in order, one after the other, each once the one before has every record."""
    with it.impairing(BROKER):
        for n in it.brokers.numbers:
            yield it.doing(partial(it.brokers.nodes[n].signal, signal.SIGTERM))
            it.brokers.start(n)
            yield it.becomes(it.brokers.whole)
        yield from answers(it)


def moved(it: Arena, fault: Fault) -> Steps:
    """Every partition gets another leader, all brokers being there."""
    changed: list[int] = []
    yield it.doing(lambda: changed.append(_next_leaders(it)))
    yield from _whole(it)
    if not changed[0]:
        raise CameToNothing("no leader changed")


def _admin(it: Arena) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=it.brokers.bootstrap.split(","))


def _next_leaders(it: Arena) -> int:
    """How many partitions have another leader now."""
    before = it.brokers.metadata()
    assert before is not None, "no broker answers"
    parts = {
        TopicPartition(name, n): [*part.replicas[1:], part.replicas[0]]
        for name, topic in before.topics.items()
        for n, part in topic.partitions.items()
    }
    with closing(_admin(it)) as admin:
        refused = {str(e) for e in admin.alter_partition_reassignments(parts).values() if e is not None}
        assert not refused, f"reassignments were refused: {refused}"
        admin.elect_leaders(0, raise_errors=False)
    led = {(name, n): p.leader for name, topic in before.topics.items() for n, p in topic.partitions.items()}
    now = it.brokers.metadata()
    assert now is not None, "no broker answers"
    return sum(
        led.get((name, n)) != p.leader for name, topic in now.topics.items() for n, p in topic.partitions.items()
    )


def coordinator_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of the broker that coordinates a transaction of the app, at once when it says that one is open."""
    hit: list[int] = []
    with it.impairing(BROKER):
        yield it.doing(lambda: hit.append(_kill_coordinator(it)))
        if not hit[0]:
            raise CameToNothing("no transaction was seen open")
        yield from answers(it)
    yield it.after(fault.s)
    it.brokers.start(hit[0])
    yield from _whole(it)


def _kill_coordinator(it: Arena) -> int:
    """Its number; 0: no transaction was seen open."""
    deadline = time.monotonic() + OPEN_S
    with closing(_admin(it)) as admin:
        while time.monotonic() < deadline:
            with suppress(AdminError):
                for n, there in admin.list_transactions().items():
                    if any(one.state.value in OPEN for one in there if one.transactional_id.startswith(it.plan.name)):
                        it.brokers.nodes[n].signal(signal.SIGKILL)
                        return int(n)
    return 0


def too_few(it: Arena, fault: Fault) -> Steps:
    """kill -9 of the two others at once: writes are refused, what is there can be read; both come back."""
    others = [n for n in it.brokers.numbers if n != _number(fault)]
    with it.impairing(BROKER):
        yield it.doing(lambda: _probe(it))
        for n in others:
            yield it.doing(partial(it.brokers.nodes[n].signal, signal.SIGKILL))
        yield it.becomes(lambda: it.brokers.leaders(PROBE) == [_number(fault)])
        refused: list[KafkaError | None] = []
        yield it.doing(lambda: refused.append(_written(it, REFUSED_S)))
        assert refused[0] is not None, "one broker took a write alone, where two copies are the least"
        yield it.after(fault.s)
        for n in others:
            it.brokers.start(n)
        yield from answers(it)
    yield from _whole(it)
    written: list[KafkaError | None] = []
    yield it.doing(lambda: written.append(_written(it, REFUSED_S)))
    assert written == [None], f"all are back, and a write is refused: {written}"


def _probe(it: Arena) -> None:
    """The topic is there, and takes records."""
    with closing(it.cluster.log.admin()) as admin:
        admin.create([TopicSpec(PROBE)])
    error = _written(it, OPEN_S)
    assert error is None, f"all are there, and a write is refused: {error}"


def _written(it: Arena, timeout_s: float) -> KafkaError | None:
    """Write a record that all copies must have; why that could not be."""
    said: list[KafkaError | None] = []
    producer = Producer(
        {
            "bootstrap.servers": it.brokers.bootstrap,
            "acks": "all",
            "message.timeout.ms": int(timeout_s * 1000),
            "log_level": 0,
            "error_cb": lambda _: None,
        }
    )
    with suppress(KafkaException):
        producer.produce(PROBE, b"one", on_delivery=lambda error, message: said.append(error))
    producer.flush(2 * timeout_s)
    assert said, "the producer does not say what became of it"
    return said[0]


def controller_killed(it: Arena, fault: Fault) -> Steps:
    """kill -9 of the controller; brokers go on with the leaders that they have."""
    yield it.doing(lambda: it.brokers.nodes[CONTROLLER].signal(signal.SIGKILL))
    yield it.after(fault.s)
    it.brokers.start(CONTROLLER)
    yield from _controlled(it)


def controller_paused(it: Arena, fault: Fault) -> Steps:
    """SIGSTOP of the controller, SIGCONT."""
    there = it.pause([it.brokers.nodes[CONTROLLER].process])
    yield it.after(fault.s)
    it.resume(there)
    yield from _controlled(it)


def _controlled(it: Arena) -> Steps:
    """The controller answers again."""

    def decides() -> bool:
        with suppress(AdminError), closing(_admin(it)) as admin:
            admin.describe_metadata_quorum()
            return True
        return False

    yield it.becomes(decides)
    yield from _whole(it)


def cut_from_one(it: Arena, fault: Fault) -> Steps:
    """One replica's process is cut off from one broker, and reaches the others."""
    way, _, broker = fault.more.partition(", broker-")
    members, link = it.parts(fault.member), f"{fault.on}@{broker}"
    with it.impairing(*map(str, members)):
        it.links.cut(link, way)
        yield it.after(fault.s)
        it.links.heal(link)
        end = wall_us()
        yield lambda: it.well(members, end)


DOING: dict[str, Callable[[Arena, Fault], Steps]] = {
    "one broker killed": killed,
    "one broker restarted": restarted,
    "one broker paused": paused,
    "one broker cut off": cut_off,
    "one broker's disk full": disk_full,
    "one broker's clock moved": clock_moved,
    "brokers rolled": rolled,
    "leaders moved": moved,
    "coordinator killed": coordinator_killed,
    "too few in sync": too_few,
    "controller killed": controller_killed,
    "controller paused": controller_paused,
    "cut from one broker": cut_from_one,
}
