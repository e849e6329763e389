"""Whose turn it is to correct, by the control log as one replica has read it (R4, R8, R9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from borealis_py.log.base import Record
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.place import ReplicaPlace

NonNegative = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class QueuedHeartbeat(msgspec.Struct, frozen=True):
    """The fields of a heartbeat (A5.2) that matter to the queue."""

    app_uid: str
    replica: NonNegative
    inc: NonNegative
    uid: str
    state: str
    ack_s: NonNegative
    ack_l: NonNegative
    asking: bool
    ask_offset: NonNegative | None


def heartbeat(record: Record, place: ReplicaPlace) -> QueuedHeartbeat | None:
    """Decode a heartbeat of this node's replicas in this life of the app; None: anything else."""
    try:
        beat = msgspec.json.decode(record.value or b"", type=QueuedHeartbeat)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    mine = record.key == f"{place.node}/{beat.replica}".encode() and beat.app_uid == place.app_uid
    return beat if mine else None


@dataclass(slots=True)
class Member:
    """A replica by its last valid heartbeat. `asked`: where its present run of asking began. `missed`: number of the
    reader's own heartbeats since.
    """

    inc: int
    uid: str
    asked: int | None = None
    missed: int = 0
    ack_s: int = 0
    ack_l: int = 0
    recovering: bool = False


class Queue:
    """The control log of one node as the process `uid` of replica `index` reads it."""

    def __init__(self, place: ReplicaPlace, uid: str) -> None:
        self._place = place
        self._index = place.replica
        self._uid = uid
        self._timing = timing = place.timing
        self._most_missed = -(-timing.suspicion_us // timing.heartbeat_us)
        self._members: dict[int, Member] = {}
        self._head: tuple[int, int, int] | None = None
        self._stood_since_us = 0
        self._asks = False
        self._old: int | None = None
        self.goal: int | None = None
        """What the peers that are not starting themselves had reached when the own heartbeat was first read back; -1:
        there were none; None: not yet.
        """

    def read(self, records: Sequence[Record]) -> None:
        for record in records:
            beat = heartbeat(record, self._place)
            if beat is not None:
                self._beat(record.offset, beat)

    def _beat(self, offset: int, beat: QueuedHeartbeat) -> None:
        index, inc, uid = beat.replica, beat.inc, beat.uid
        member = self._members.get(index)
        if member is not None and (inc < member.inc or (inc == member.inc and uid != member.uid)):
            return
        if member is None or inc > member.inc:
            member = self._members[index] = Member(inc, uid)
        member.missed = 0
        member.ack_s, member.ack_l = beat.ack_s, beat.ack_l
        member.recovering = beat.state == "RECOVERING"
        if not beat.asking:
            member.asked = None
        elif beat.ask_offset is not None:
            member.asked = beat.ask_offset
        elif member.asked is None:
            member.asked = offset
        if (index, uid) == (self._index, self._uid):
            for other, peer in self._members.items():
                peer.missed += other != index

    def _live(self, index: int) -> bool:
        return index == self._index or self._members[index].missed < self._most_missed

    def head(self) -> int | None:
        """The live replica that has asked longest."""
        asks = [(m.asked, i) for i, m in self._members.items() if m.asked is not None and self._live(i)]
        return min(asks)[1] if asks else None

    def looked(self, now_us: int, gap: bool, asking: bool) -> None:
        """Called at every turn: since when the head stands still."""
        head = self.head()
        seen = None if head is None else (head, self._members[head].inc, self._members[head].ack_s)
        if gap or seen != self._head or not asking:
            self._stood_since_us = now_us
        self._head = seen
        me = self._members.get(self._index)
        if self.goal is None and me is not None and me.uid == self._uid:
            peers = [
                m.ack_l for i, m in self._members.items() if i != self._index and self._live(i) and not m.recovering
            ]
            self.goal = max(peers, default=-1)

    def says(self, beat: Mapping[str, object]) -> None:
        """Check the own heartbeat: its place in the queue is where the present run of asking began in the log (B26)."""
        told, asking = beat["ask_offset"], bool(beat["asking"])
        began, self._asks = asking and not self._asks, asking
        me = self._members.get(self._index)
        if began:
            self._old = None if me is None else me.asked
        if not asking or told is None:
            return
        if me is None or told != me.asked or told == self._old:
            raise Violation("ask", f"{self._uid} says that it asks since {told}, read is {me}, before that {self._old}")

    def may_correct(self, now_us: int) -> bool:
        """Whether it is its turn, or the head has stood still for T."""
        me = self._members.get(self._index)
        mine = me is not None and me.uid == self._uid and me.asked is not None
        return (mine and self.head() == self._index) or now_us - self._stood_since_us >= self._timing.stagger_us
