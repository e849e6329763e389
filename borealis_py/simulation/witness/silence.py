"""A standby says nothing: only a process that has said that it runs writes the stream of its node (R17)."""

from __future__ import annotations

import msgspec

from borealis_py.log.base import NewRecord
from borealis_py.simulation.cluster.recorder import Recording
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.place import ReplicaPlace


class _Role(msgspec.Struct, frozen=True):
    runs: bool


def silent_until_it_runs(place: ReplicaPlace, heard: Recording) -> None:
    """Raises Violation: a process that stood by wrote its stream before its first heartbeat that says that it runs."""
    for turn in heard.turns:
        sent = [done for done in turn.done if isinstance(done, NewRecord)]
        beats = [msgspec.json.decode(one.value or b"", type=_Role) for one in sent if one.feed == place.control_feed]
        if any(beat.runs for beat in beats):
            return
        if any(one.feed in place.own_feeds for one in sent):
            raise Violation("silence", f"{heard.name} stands by, and writes {place.own_feeds[0].topic}")
