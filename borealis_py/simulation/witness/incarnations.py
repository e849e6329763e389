"""A new incarnation's number is above any in the log (PROTOCOL R11, B30): no number is ever reused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from borealis_py.log.base import NewRecord
from borealis_py.simulation.cluster.recorder import Recording
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.place import ReplicaPlace
from borealis_py.simulation.witness.queue import heartbeat


class _Claim(msgspec.Struct, frozen=True):
    app_uid: str
    inc: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    uid: str


def number_is_new(place: ReplicaPlace, heard: Recording) -> None:
    """Check the number that a process claims when it starts.

    Raises:
        Violation: settings or heartbeats that were in the log then have this number or a higher one.
    """
    key = f"incarnation/{place.node}/{place.replica}".encode()
    said = [d.value for d in heard.turns[0].done if isinstance(d, NewRecord) and d.key == key]
    mine = _numbers(place, said)
    if not mine:
        raise Violation("incarnation", f"{heard.name} starts without a number")
    kept = _numbers(place, (r.value for r in heard.opened[place.settings_feed].records if r.key == key))
    beats = [heartbeat(record, place) for record in heard.opened[place.control_feed].records]
    highest = max([0, *kept, *(b.inc for b in beats if b is not None and b.replica == place.replica)])
    if mine[0] <= highest:
        raise Violation("incarnation", f"{heard.name} takes number {mine[0]}, the log tells of {highest}")


def _numbers(place: ReplicaPlace, values: Iterable[bytes | None]) -> list[int]:
    found = []
    for value in values:
        try:
            claim = msgspec.json.decode(value or b"", type=_Claim)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            continue
        found += [claim.inc] if claim.app_uid == place.app_uid else []
    return found
