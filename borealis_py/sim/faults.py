"""How each kind of fault of a scenario is done to a world, and undone.

A fault is a function of (world, fault) that does it and returns what undoes it. Everything goes through the seats
(`sim.actors`), the log or the settings topic: no product code is touched.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from borealis_py.log import topics
from borealis_py.log.base import NewRecord
from borealis_py.log.messages import Policy, SourceFailure, Threshold, encode
from borealis_py.log.records import BatchHeader, ClaimHeader, EnvelopeError, pack, pack_stimes, unpack_source
from borealis_py.sim.scenario import KINDS, Fault

if TYPE_CHECKING:
    from borealis_py.sim.world import World

Undo = Callable[[], object]


def arm(world: World, fault: Fault) -> None:
    """Have it happen, and end, when the scenario says so."""
    do = FAULTS[fault.kind]

    def begin() -> None:
        world.trace("fault", str(fault))
        undo = do(world, fault)
        world.scheduler.at(world.start_us + fault.until_us, undo)

    world.scheduler.at(world.start_us + fault.at_us, begin)


def _source_hangs(world: World, fault: Fault) -> Undo:
    seat = world.sources[fault.index]
    seat.pause()
    return seat.resume


def _source_cut(world: World, fault: Fault) -> Undo:
    seat = world.sources[fault.index]
    seat.cut(None)
    return partial(seat.mend, None)


def _source_crashes(world: World, fault: Fault) -> Undo:
    seat = world.sources[fault.index]
    seat.crash()
    return seat.restart


def _source_duel(world: World, fault: Fault) -> Undo:
    """A successor starts while the publisher is only cut off; what that had on its way lands later, and is fenced."""
    seat = world.sources[fault.index]
    world.take_over.add(fault.index)
    return partial(seat.reunite, seat.double(None))


def _source_failed(world: World, fault: Fault) -> Undo:
    name = world.spec(0).sources[fault.index]
    world.put_setting(f"fail/{name}", encode(SourceFailure(world.start_us + fault.until_us)))
    world.failed[fault.index] += 1
    world.look()

    def undo() -> None:
        world.failed[fault.index] -= 1
        world.look()

    return undo


def _garbage(world: World, fault: Fault) -> Undo:
    """Records that no publisher of ours would write at this place: each is to end as a dead letter, or as nothing."""
    rng = random.Random(f"garbage {world.scenario.seed} {fault.at_us}")
    feed = world.spec(0).source_feed(fault.index)
    for value in _bad_records(world, rng, fault.index):
        world.log.broker.append(NewRecord(feed, value, timestamp_ms=world.scheduler.now_us // 1000))
    return _nothing


def _bad_records(world: World, rng: random.Random, index: int) -> list[bytes | None]:
    epoch, uid, boundary, seq = 0, "", world.scenario.width_us * world.origin, -1
    log = world.log.committed(world.spec(0).source_feed(index))
    for record in log:
        try:
            header, _ = unpack_source(record.value)
        except EnvelopeError:
            continue
        if isinstance(header, ClaimHeader):
            epoch, uid = (header.epoch, header.uid) if header.epoch > epoch else (epoch, uid)
        elif (header.epoch, header.uid) == (epoch, uid):
            boundary = max(boundary, header.boundary or 0)
            seq = max(seq, header.first_seq + len(header.stimes) // 8 - 1)
    now = max(boundary, world.scheduler.now_us)
    ahead = now + rng.choice((700_000, 20_000_000))
    batch = partial(BatchHeader, epoch, uid)
    choices: list[bytes | None] = [
        None,
        b"",
        b"garbage",
        b'{"v": 1}',
        pack(ClaimHeader(0, "too low")),
        pack(BatchHeader(0, "too low", seq + 1, pack_stimes([now]), None, "json"), b'[{"v":5}]'),
        pack(batch(seq + 5, pack_stimes([boundary - 1, boundary - 7]), None, "json"), b'[{"v":1},{"v":3}]'),
        pack(batch(seq + 1, pack_stimes([now]), None, "json"), b"[broken"),
        pack(batch(seq + 1, pack_stimes([now, now]), None, "json"), b'[{"v":"text"},{"w":1}]'),
        pack(batch(seq + 1, pack_stimes([now + 2 * world.scenario.timing.ahead_max_us]), None, "json"), b'[{"v":1}]'),
        pack(batch(seq + 1, pack_stimes([now, ahead]), None, "json"), b'[{"v":1},{"v":3}]'),
        pack(batch(seq + 1, pack_stimes([now]), boundary - 100, "json"), b'[{"v":7}]'),
        log[-1].value if log else b"",
    ]
    return rng.choices(choices, k=rng.randint(1, 6))


def _crash(world: World, fault: Fault) -> Undo:
    seat = world.replicas[fault.index]
    seat.crash()
    if fault.at_us % 4 == 0:
        world.disks[fault.index].tear()
    return seat.restart


def _pause(world: World, fault: Fault) -> Undo:
    seat = world.replicas[fault.index]
    seat.pause()
    return seat.resume


def _zombie(world: World, fault: Fault) -> Undo:
    """A successor of the same index starts while the old process only cannot read the control log, and goes on."""
    seat = world.replicas[fault.index]
    return partial(seat.reunite, seat.double({world.spec(0).control_feed.topic}))


def _cut_replica(world: World, fault: Fault) -> Undo:
    spec = world.spec(fault.index)
    which = {
        "cut_all": None,
        "cut_control": {spec.control_feed.topic},
        "cut_own": {spec.own_feed.topic},
        "cut_source": {spec.source_feed(int(fault.detail or 0)).topic},
        "cut_corrected": {topics.stream(spec.app, spec.query), spec.progress_feed.topic},
    }[fault.kind]
    seat = world.replicas[fault.index]
    seat.cut(which)
    return partial(seat.mend, which)


def _redos(world: World, fault: Fault) -> Undo:
    world.redo_modes[fault.index].append(fault.detail)
    return partial(world.redo_modes[fault.index].remove, fault.detail)


def _commits(world: World, fault: Fault) -> Undo:
    world.commits_unknown += 1

    def undo() -> None:
        world.commits_unknown -= 1

    return undo


def _threshold(world: World, fault: Fault) -> Undo:
    world.put_setting(f"threshold/{world.spec(0).query}", encode(Threshold(int(fault.detail))))
    return _nothing


def _policy(world: World, fault: Fault) -> Undo:
    failure, stabilization = fault.detail.split("/")
    world.put_setting(f"policy/{world.spec(0).query}", encode(Policy(failure, stabilization)))
    return _nothing


def _nonsense(world: World, fault: Fault) -> Undo:
    query = world.spec(0).query
    world.put_setting(f"threshold/{query}", encode(Threshold(1)))
    world.put_setting(f"policy/{query}", b'{"failure":"never","stabilization":7}')
    world.put_setting("\xff/what", b"\x00")
    return _nothing


def _broker_gone(world: World, fault: Fault) -> Undo:
    seats = [*world.sources, *world.replicas]
    for seat in seats:
        seat.cut(None)
    world.log.cut("client")

    def undo() -> None:
        for seat in seats:
            seat.mend(None)
        world.log.heal("client")

    return undo


def _nothing() -> None:
    pass


FAULTS: dict[str, Callable[[World, Fault], Undo]] = {
    "source_hangs": _source_hangs,
    "source_cut": _source_cut,
    "source_crashes": _source_crashes,
    "source_duel": _source_duel,
    "source_failed": _source_failed,
    "garbage": _garbage,
    "crash": _crash,
    "pause": _pause,
    "zombie": _zombie,
    "cut_all": _cut_replica,
    "cut_control": _cut_replica,
    "cut_own": _cut_replica,
    "cut_source": _cut_replica,
    "cut_corrected": _cut_replica,
    "redos": _redos,
    "commits": _commits,
    "threshold": _threshold,
    "policy": _policy,
    "nonsense": _nonsense,
    "broker_gone": _broker_gone,
}
assert FAULTS.keys() == KINDS.keys()
