"""Bad records in sources (F14), and settings that users write, which are no faults at all."""

from __future__ import annotations

import random
from functools import partial

from borealis_py.log.base import NewRecord
from borealis_py.log.messages import Policy, Threshold, encode
from borealis_py.log.records import BatchHeader, ClaimHeader, EnvelopeError, Refused, pack, pack_stimes, unpack_source
from borealis_py.simulation.cluster.machines import SourceMachine
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import Doing, UndoFault, chance, nothing, source_of
from borealis_py.simulation.scenario import Fault
from borealis_py.simulation.toy_query import BIG_ROWS, POISON, QUERY


def _garbage(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Records that none of our publishers would write here: each must end as a dead letter, or be ignored."""
    machine = source_of(world, fault)
    for value in _bad_records(world, chance(world, fault), machine):
        world.log.broker.append(NewRecord(machine.feed, value, timestamp_ms=world.scheduler.now_us // 1000))
    _go_on_behind(world, machine)
    return nothing


def _state(world: SimulatedWorld, machine: SourceMachine) -> tuple[int, str, int, int]:
    """Epoch, owner, boundary and last seq of a source's log."""
    epoch, uid, boundary, seq = 0, "", world.scenario.width_us * world.origin, -1
    for record in world.log.committed(machine.feed):
        try:
            header, _ = unpack_source(record.value)
        except EnvelopeError:
            continue
        if isinstance(header, ClaimHeader):
            epoch, uid = (header.epoch, header.uid) if header.epoch > epoch else (epoch, uid)
        elif (header.epoch, header.uid) == (epoch, uid):
            boundary = max(boundary, header.boundary or 0)
            seq = max(seq, header.first_seq + header.positions - 1)
    return epoch, uid, boundary, seq


def _go_on_behind(world: SimulatedWorld, machine: SourceMachine) -> None:
    """Continue the input after forged records. With boundaries by the data, the next publisher sends nothing until its
    input has reached the end of the log; waiting for as many items as were forged would outlast all other failures.

    Where a query may lose part of the log, the next publisher comes at once: who has not read the forged records would
    take rows for new that others take for repeated, until the publisher had got further, and nobody could tell who is
    right.
    """
    if machine.index in world.scenario.by_data:
        world.wiring.items[machine.index].taken(_state(world, machine)[3] + 1, world.scheduler.now_us)
    if any(world.scenario.may_lose(plan.name) for plan in world.scenario.nodes):
        machine.crash()
        machine.restart()


def _bad_records(world: SimulatedWorld, rng: random.Random, machine: SourceMachine) -> list[bytes | None]:
    log, app_uid = world.log.committed(machine.feed), world.wiring.app_uid
    epoch, uid, boundary, seq = _state(world, machine)
    now = max(boundary, world.scheduler.now_us)
    ahead = now + rng.choice((700_000, 20_000_000))
    batch = partial(BatchHeader, app_uid, epoch, uid)
    choices: list[bytes | None] = [
        None,
        b"",
        b"garbage",
        b'{"v": 1}',
        pack(ClaimHeader(app_uid, 0, "too low")),
        pack(BatchHeader(app_uid, 0, "too low", seq + 1, pack_stimes([now]), None, "json"), b'[{"v":5}]'),
        pack(batch(seq + 5, pack_stimes([boundary - 1, boundary - 7]), None, "json"), b'[{"v":1},{"v":3}]'),
        pack(batch(seq + 1, pack_stimes([now]), None, "json"), b"[broken"),
        pack(batch(seq + 1, pack_stimes([now, now]), None, "json"), b'[{"v":"text"},{"w":1}]'),
        pack(batch(seq + 1, pack_stimes([now + 2 * world.scenario.timing.ahead_max_us]), None, "json"), b'[{"v":1}]'),
        pack(batch(seq + 1, pack_stimes([now, ahead]), None, "json"), b'[{"v":1},{"v":3}]'),
        pack(batch(seq + 1, pack_stimes([now]), boundary - 100, "json"), b'[{"v":7}]'),
        log[-1].value if log else b"",
    ]
    found = rng.choices(choices, k=rng.randint(1, 6))
    refusals = [
        pack(batch(seq + 1, pack_stimes([now]), None, "json", 0, (Refused(seq + 9, "far", b""),)), b'[{"v":1}]'),
        pack(batch(seq, b"", None, "json", 0, (Refused(seq, "again", b""), Refused(seq + 1, "malformed", b"x")))),
        pack(ClaimHeader(app_uid, epoch + 1, "too late", -1)),
    ]
    return found + rng.choices(refusals, k=rng.randint(0, 2))


def _big(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A bucket so full that its output is split into parts."""
    machine = source_of(world, fault)
    epoch, uid, boundary, seq = _state(world, machine)
    now = max(boundary, world.scheduler.now_us)
    if not uid:
        return nothing
    rows = b"[" + b",".join(b'{"v":%d}' % (2 * i + 1) for i in range(BIG_ROWS)) + b"]"
    header = BatchHeader(world.wiring.app_uid, epoch, uid, seq + 1, pack_stimes([now] * BIG_ROWS), None, "json")
    world.log.broker.append(NewRecord(machine.feed, pack(header, rows), timestamp_ms=now // 1000))
    _go_on_behind(world, machine)
    return nothing


def _poison(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Rows on which the kernel raises, whoever runs it and how often: each becomes one dead letter,
    the others count.
    """
    machine, rng = source_of(world, fault), chance(world, fault)
    epoch, uid, boundary, seq = _state(world, machine)
    now = max(boundary, world.scheduler.now_us)
    if not uid:
        return nothing
    values = [POISON if rng.random() < 0.3 else 2 * i + 1 for i in range(rng.randint(1, 12))]
    rows = b"[" + b",".join(b'{"v":%d}' % value for value in (*values, POISON)) + b"]"
    stimes = pack_stimes([now] * (len(values) + 1))
    header = BatchHeader(world.wiring.app_uid, epoch, uid, seq + 1, stimes, None, "json")
    world.log.broker.append(NewRecord(machine.feed, pack(header, rows), timestamp_ms=now // 1000))
    _go_on_behind(world, machine)
    return nothing


def _threshold(world: SimulatedWorld, fault: Fault) -> UndoFault:
    world.put_setting(f"threshold/{QUERY}", encode(Threshold(int(fault.detail))))
    return nothing


def _policy(world: SimulatedWorld, fault: Fault) -> UndoFault:
    failure, stabilization = fault.detail.split("/")
    world.put_setting(f"policy/{QUERY}", encode(Policy(failure, stabilization)))
    return nothing


def _nonsense(world: SimulatedWorld, fault: Fault) -> UndoFault:
    world.put_setting(f"threshold/{QUERY}", encode(Threshold(1)))
    world.put_setting(f"policy/{QUERY}", b'{"failure":"never","stabilization":7}')
    world.put_setting("\xff/what", b"\x00")
    return nothing


FAULTS: dict[str, Doing] = {
    "garbage": _garbage,
    "big": _big,
    "poison": _poison,
    "threshold": _threshold,
    "policy": _policy,
    "nonsense": _nonsense,
}
