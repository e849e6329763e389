"""Checks whether a replica index is in use: if heartbeats keep arriving, it is.

Their times say nothing: the clock of either machine may be wrong by an hour.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import structlog

from borealis_py.log.base import Log, Lookup
from borealis_py.log.messages import beat_key, read_beat
from borealis_py.log.unreadable import ignored
from borealis_py.node.input_reader import CONTROL_TAIL
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Heartbeat
from borealis_py.runtime.specs import of_run

_log = structlog.get_logger(__package__)

WATCH_S = 1.5
LOOK_S = 0.05


class IndexTaken(Exception):
    """Another process runs this replica index."""


def ensure_free(log: Log, specs: Sequence[ReplicaSpec], dead: str = "") -> None:
    """Raises IndexTaken if a heartbeat of the same index arrives during the watch.

    Free at once if there are none but the dead run's; otherwise takes up to WATCH_S, for any number of replicas.

    Args:
        dead: the previous run of this index, which has ended: its last heartbeats are no sign of life (R8.3).
    """
    lookup = log.lookup()
    try:
        watched = [(spec, end) for spec in specs if (end := _suspect(lookup, spec, dead)) is not None]
        until = time.monotonic() + WATCH_S
        while watched and time.monotonic() < until:
            watched = [(spec, _looked(lookup, spec, end, dead)) for spec, end in watched]
            time.sleep(LOOK_S)
    finally:
        lookup.close()


def _suspect(lookup: Lookup, spec: ReplicaSpec, dead: str) -> int | None:
    """The offset from which to watch for more, if there is a heartbeat; else None."""
    first, end = lookup.bounds(spec.control_feed)
    return None if _own(lookup, spec, max(first, end - CONTROL_TAIL), end, dead) is None else end


def _looked(lookup: Lookup, spec: ReplicaSpec, end: int, dead: str) -> int:
    """Check for new heartbeats and return the end of what was read."""
    now = lookup.bounds(spec.control_feed)[1]
    found = _own(lookup, spec, end, now, dead)
    if found is not None:
        kind = "query" if spec.corrected else "node"
        raise IndexTaken(
            f"replica {spec.replica} of {kind} {spec.node} is already running (incarnation {found.inc}, "
            f"{found.uid}); stop it with `borealis down`, or take its place with --take-over"
        )
    return now


def _own(lookup: Lookup, spec: ReplicaSpec, first: int, end: int, dead: str) -> Heartbeat | None:
    """The last heartbeat of this index in the range, other than the dead run's."""
    key = beat_key(spec.node, spec.replica)
    own = [record for record in lookup.read(spec.control_feed, first, end) if record.key == key]
    for record in reversed(own):
        try:
            beat = read_beat(record.key, record.value, spec.node)
        except msgspec.MsgspecError as exc:
            ignored(_log, "heartbeat ignored", record, exc)
            continue
        if not of_run(beat.uid, dead):
            return beat
    return None
