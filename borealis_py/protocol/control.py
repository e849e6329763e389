"""The fold of the control log: who is there, who asks, who is head of the queue (R8, R9).

Being a fold over one log, all replicas come to the same queue; only liveness is local.
"""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.protocol.turn import ReceivedHeartbeat


@dataclass(slots=True)
class Peer:
    """One replica as the log shows it. `ask`: offset of the first heartbeat of its present run of asking."""

    inc: int
    uid: str
    ask: int | None
    beat: ReceivedHeartbeat
    own_beats_since: int = 0


class ControlFold:
    """What `replica` (index, incarnation, uid) knows of its node's replicas."""

    def __init__(self, replica: int, inc: int, uid: str, suspicion_beats: int) -> None:
        self.replica = replica
        self.inc = inc
        self.uid = uid
        self.peers: dict[int, Peer] = {}
        self.echoed = False
        self.superseded: str | None = None
        self._limit = suspicion_beats

    def read(self, beat: ReceivedHeartbeat) -> None:
        """Take one heartbeat, in the log's order."""
        peer = self.peers.get(beat.replica)
        if peer is not None and (beat.inc < peer.inc or (beat.inc == peer.inc and beat.uid != peer.uid)):
            return  # not valid: the first with a new highest number owns it (B30)
        if peer is None or beat.inc > peer.inc:  # a newer incarnation clears the older one's ask (B25)
            peer = self.peers[beat.replica] = Peer(beat.inc, beat.uid, None, beat)
        peer.beat = beat
        peer.own_beats_since = 0
        if not beat.asking:
            peer.ask = None
        elif peer.ask is None:
            peer.ask = beat.offset if beat.ask_offset is None else beat.ask_offset
        self._check_own(beat)
        if beat.replica == self.replica and (beat.inc, beat.uid) == (self.inc, self.uid):
            self.echoed = True
            for index, other in self.peers.items():
                if index != self.replica:
                    other.own_beats_since += 1

    def _check_own(self, beat: ReceivedHeartbeat) -> None:
        if beat.replica != self.replica:
            return
        if beat.inc > self.inc or (beat.inc == self.inc and beat.uid != self.uid):
            self.superseded = f"replica {self.replica}: incarnation {beat.inc} ({beat.uid}) has taken this index over"

    def live(self, index: int) -> bool:
        """Counted live: itself, and whoever was heard within the last own heartbeats (R8)."""
        if index == self.replica:
            return True
        peer = self.peers.get(index)
        return peer is not None and peer.own_beats_since < self._limit

    def live_peers(self) -> list[Peer]:
        """The others that are counted live."""
        return [p for i, p in sorted(self.peers.items()) if i != self.replica and self.live(i)]

    @property
    def lowest_live(self) -> int:
        """The lowest index counted live."""
        return min([self.replica, *(i for i in self.peers if self.live(i))])

    def checkpoints(self, low: int, high: int) -> list[tuple[int, int]]:
        """(bucket, replica) of the others' newest checkpoints in (low, high], the furthest first (R14, B44)."""
        of = [(p.beat.checkpoint_bucket, i) for i, p in self.peers.items() if i != self.replica]
        return sorted((found for found in of if low < found[0] <= high), reverse=True)

    @property
    def own_ask(self) -> int | None:
        """Offset of the own ask, once read back."""
        own = self.peers.get(self.replica)
        return own.ask if own is not None and (own.inc, own.uid) == (self.inc, self.uid) else None

    @property
    def head(self) -> int | None:
        """The replica counted live that has asked longest (R4); None: nobody asks."""
        asks = [(p.ask, i) for i, p in self.peers.items() if p.ask is not None and self.live(i)]
        return min(asks)[1] if asks else None
