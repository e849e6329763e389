"""Faults of topics other than the data: control, settings and progress expire, are compacted, are deleted and
recreated, or hold records that none of our processes wrote (F10, F14).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import (
    Doing,
    UndoFault,
    again_and_again,
    chance,
    disturbed,
    node_of,
    nothing,
    replica_of,
)
from borealis_py.simulation.scenario import Fault
from borealis_py.simulation.toy_query import QUERY

Scribble = tuple[bytes | None, bytes | None]
"""Key and value of a record that none of our processes wrote."""
HUGE = (2**63 - 1, 2**64 - 1, 10**30)
AHEAD = 100_000
"""A bucket distance that no world reaches."""
NO_JSON = (None, b"", b"\x00\xff\x00", b'{"replica": "\xff\xfe"}', b"garbage", b"{", b"[" * 100_000, b'{"a":' * 50_000)
NO_STRUCT = (b"null", b"5", b"[]", b"{}", b'"text"', b"true", b"1e999")


def _expired(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Retention deletes heartbeats; "unread": at its end also those that a paused replica has yet to read, "starting":
    those of one that had just begun.
    """
    machine, rng = replica_of(world, fault), chance(world, fault)
    feed = machine.spec.control_feed

    def expire() -> None:
        partition = world.log.broker.existing(feed)
        if partition is not None:
            partition.delete_before(partition.stable_end - rng.choice((0, 1, rng.randrange(40))))

    if fault.detail == "read":
        expire()
        return nothing
    if fault.detail == "starting":
        machine.crash()
        expire()
        machine.restart()
    machine.pause()

    def undo() -> None:
        expire()
        machine.resume()

    return undo


def _made_again(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The control topic is deleted, and recreated after a while: everything in it is repeated in time."""
    topic, admin = topics.control(APP), world.log.client("admin").admin()
    settle = disturbed(world.replicas)
    admin.delete([topic])

    def undo() -> None:
        admin.create([TopicSpec(topic, len(world.scenario.nodes))])
        settle()

    return undo


def _compacted(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The log cleaner repeatedly compacts the compacted topics, whoever is reading them."""

    def once(rng: random.Random) -> tuple[UndoFault, int]:
        nodes = [plan.name for plan in world.scenario.nodes]
        for topic in [topics.settings(APP), *(topics.progress(APP, name) for name in nodes), *_kept_files(world)]:
            partition = world.log.broker.partition(Feed(topic))
            partition.compact(rng.choice((partition.stable_end, rng.randint(0, partition.stable_end))))
        return nothing, 1

    return again_and_again(world, fault, once, 400_000)


def _bad_control(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Garbage in a node's partition of the control log, repeatedly."""
    feed = node_of(world, fault)[0].spec.control_feed
    return _scribbling(world, fault, feed, lambda rng: _bad_beat(world, rng, feed))


def _bad_settings(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Garbage in the settings, under meaningful and other keys."""
    return _scribbling(world, fault, Feed(topics.settings(APP)), lambda rng: _bad_setting(world, rng))


def _bad_progress(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Garbage in a node's progress; the cleaner may remove what it displaces. Two kinds are not drawn, only set
    explicitly: "before" (the app's first bucket), "ahead" (of what any input has closed, which would be a lie).
    """
    feed = node_of(world, fault)[0].spec.progress_feed
    return _scribbling(world, fault, feed, lambda rng: _bad_progress_record(world, rng, fault.detail))


def _bad_progress_record(world: SimulatedWorld, rng: random.Random, detail: str) -> Scribble:
    said = {"app_uid": world.wiring.app_uid, "bucket": world.origin, "replica": 0, "inc": 1}
    if detail:
        ahead = world.buckets.of(world.scheduler.now_us) + AHEAD
        return b"0", json.dumps({**said, "bucket": ahead if detail == "ahead" else world.origin - 1}).encode()
    wrongs: Sequence[dict[str, object]] = (
        {"bucket": rng.choice((-1, 0, world.origin - 1, 0.5, "5", None, True, *HUGE))},
        {"app_uid": rng.choice(("another", "", None, 5)), "bucket": world.buckets.of(world.scheduler.now_us)},
        {"replica": rng.choice((-1, "0", None))},
        {"inc": rng.choice((-1, 10**30, "1", None))},
    )
    text = json.dumps({**said, **rng.choice(wrongs)}).encode()
    return rng.choice((b"0", b"0", b"0", b"", b"1")), rng.choice((text, text, *NO_JSON, *NO_STRUCT))


def _scribbles(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Garbage, and repeated messages, in the topics of checkpoints, redos and acknowledgements."""
    log, machines = world.log, world.replicas
    redos = [feed for m in machines for feed in topics.redo_feeds(APP, m.node, m.index)]

    def once(rng: random.Random) -> tuple[UndoFault, int]:
        for topic in _kept_files(world):
            key = f"{rng.choice(('x', '', '5-3.ckpt'))}/{rng.choice((-1, 0, 7, 10**30, 'x', ''))}".encode()
            _scribble(world, Feed(topic), rng.choice((key, key, b"\xff/0", b"")), rng)
        for feed in (feed for feed in redos if log.broker.exists(feed.topic)):
            _scribble(world, feed, None, rng)
            if before := log.committed(feed)[-20:]:
                log.broker.append(NewRecord(feed, _altered(rng.choice(before).value or b"", rng)))
        acks = Feed(topics.acks(APP))
        keys = [record.key for record in log.committed(acks)[-20:]] if log.broker.exists(acks.topic) else []
        _scribble(world, acks, rng.choice((*keys, b"", None, b"\xff")), rng)
        return nothing, 1

    return again_and_again(world, fault, once, 400_000)


def _scribble(world: SimulatedWorld, feed: Feed, key: bytes | None, rng: random.Random) -> None:
    if world.log.broker.exists(feed.topic):
        world.log.broker.append(NewRecord(feed, rng.choice((*NO_JSON, *NO_STRUCT)), key))


def _altered(message: bytes, rng: random.Random) -> bytes:
    """The same message again, or cut off."""
    if not message or rng.random() < 0.5:
        return message
    return message[: rng.randrange(len(message))]


def _kept_files(world: SimulatedWorld) -> list[str]:
    names = [topics.kept_files(APP, f"{m.node}.r{m.index}") for m in world.replicas]
    return [name for name in names if world.log.broker.exists(name)]


def _scribbling(
    world: SimulatedWorld, fault: Fault, feed: Feed, make: Callable[[random.Random], Scribble]
) -> UndoFault:
    def once(rng: random.Random) -> tuple[UndoFault, int]:
        for _ in range(rng.randint(1, 4) if world.log.broker.exists(feed.topic) else 0):
            key, value = make(rng)
            world.log.broker.append(NewRecord(feed, value, key))
        return nothing, 1

    return again_and_again(world, fault, once, 500_000)


def _bad_beat(world: SimulatedWorld, rng: random.Random, feed: Feed) -> Scribble:
    """A record that none of the node's replicas could have written: a false heartbeat in its name would be a lie."""
    others = [f for i in range(len(world.scenario.nodes)) if (f := Feed(feed.topic, i)) != feed]
    elsewhere = [r for f in others for r in world.log.committed(f)[-20:]]
    if elsewhere and rng.random() < 0.25:
        record = rng.choice(elsewhere)
        return record.key, record.value
    app_uid = world.wiring.app_uid
    beat: dict[str, Any] = {
        "app_uid": app_uid,
        "replica": 0,
        "inc": 1,
        "uid": "scribbled",
        "state": "STABLE",
        "ack_s": world.origin,
        "ack_l": world.origin,
        "asking": True,
        "ask_offset": 0,
        "progress": world.origin,
        "checkpoint_bucket": -1,
    }
    for record in reversed(world.log.committed(feed)):
        if record.value is not None and b"uid" in record.value and b"scribbled" not in record.value:
            beat = {**beat, **json.loads(record.value), "uid": "scribbled"}
            break
    wrongs: Sequence[dict[str, object]] = (
        {"replica": rng.choice((-1, -(2**31), 0.5, "0", None, [], *HUGE))},
        {"inc": rng.choice((0, -1, -(2**63), 1.5, "1", None, {}, *HUGE))},
        {rng.choice(("ack_s", "ack_l", "progress", "checkpoint_bucket")): rng.choice(("1", None, 0.5, 10**30, True))},
        {"asking": rng.choice((1, "yes", None))},
        {"ask_offset": rng.choice(("0", -0.5, 10**30, True))},
        {"uid": rng.choice((5, None, []))},
        {"state": rng.choice((5, None, []))},
    )
    text = json.dumps({**beat, **rng.choice(wrongs)}).encode()
    return rng.choice((b"0", b"7", b"-1", b"", None)), rng.choice((text, text, *NO_JSON, *NO_STRUCT))


def _bad_setting(world: SimulatedWorld, rng: random.Random) -> Scribble:
    s = world.scenario
    node = rng.choice(s.nodes)
    replica, uid = rng.randrange(node.replicas), world.wiring.app_uid
    number: object = rng.choice((-1, 0, 0.5, "1000000", None, [], {}, True, 10**30))
    choices: tuple[tuple[str, object], ...] = (
        (f"threshold/{QUERY}", {"threshold_us": number}),
        (f"policy/{QUERY}", {"failure": rng.choice(("never", "", 5, None)), "stabilization": "process"}),
        (f"policy/{QUERY}", {"failure": "process"}),
        (f"fail/{rng.choice(s.source_names)}", {"until_wall_us": rng.choice((-1, 0.5, "soon", None, 10**30))}),
        ("fail/nobody", {"until_wall_us": world.scheduler.now_us + 60_000_000}),
        (
            f"incarnation/{node.name}/{replica}",
            {"app_uid": uid, "inc": rng.choice((number, *HUGE)), "uid": "scribbled"},
        ),
        (f"incarnation/{node.name}/{replica}", {"app_uid": uid, "inc": 1, "uid": 5}),
        (
            f"incarnation/{node.name}/{rng.choice((-1, 99, 'x', ''))}",
            {"app_uid": uid, "inc": 2**40, "uid": "scribbled"},
        ),
        (f"incarnation/nobody/{replica}", {"app_uid": uid, "inc": 2**40, "uid": "scribbled"}),
        ("threshold/nobody", {"threshold_us": 1_000_000}),
        ("threshold", {"threshold_us": 1_000_000}),
        ("", {}),
        ("app" if all(f.kind != "compacted" for f in s.faults) else "App", {"version": 2, "app_uid": 5}),
    )
    key, value = rng.choice(choices)
    raw = key.encode()
    if rng.random() < 0.2 and not key.startswith("incarnation"):
        return rng.choice((b"\xff\xfe/\x00", raw + b"\xff", raw + b"/")), rng.choice((*NO_JSON, *NO_STRUCT))
    text = json.dumps(value).encode()
    return raw, rng.choice((text, text, text, *NO_JSON, *NO_STRUCT)) if not key.startswith("incarnation") else text


FAULTS: dict[str, Doing] = {
    "expired": _expired,
    "made_again": _made_again,
    "compacted": _compacted,
    "bad_control": _bad_control,
    "bad_settings": _bad_settings,
    "bad_progress": _bad_progress,
    "scribbles": _scribbles,
}
