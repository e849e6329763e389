"""The fold of the control log: which replicas exist, which ask to correct, which is head of the queue (R8, R9).

All replicas fold the same log, so they derive the same queue; only liveness is a local judgement.
"""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.protocol.incarnation import Heartbeat, why_shared
from borealis_py.protocol.roles import RoleFold
from sunion.units import Bucket, Offset


@dataclass(slots=True)
class Peer:
    """One replica as the log shows it.

    Attributes:
        inc, uid: its newest valid incarnation.
        ask: offset of the first heartbeat of its current run of asking; None: it does not ask.
        beat: its last valid heartbeat.
        own_beats_since: how many of the own heartbeats were read back since then.
    """

    inc: int
    uid: str
    ask: Offset | None
    beat: Heartbeat
    own_beats_since: int = 0


class ControlFold:
    """What one replica knows of its node's replicas, itself included.

    Args:
        replica: its index. inc, uid: its incarnation.
        suspicion_beats: a peer without a heartbeat during so many own ones does not count as live (R8.1).

    Attributes:
        roles: who runs (R17.2).
        echoed: an own heartbeat has been read back.
        superseded: why this incarnation must exit; None: it need not.
        number_shared: why it must start again with a number of its own; None: it need not.
    """

    def __init__(self, replica: int, inc: int, uid: str, suspicion_beats: int) -> None:
        self.replica = replica
        self.inc = inc
        self.uid = uid
        self.peers: dict[int, Peer] = {}
        self.roles = RoleFold(replica)
        self.echoed = False
        self.superseded: str | None = None
        self.number_shared: str | None = None
        self._limit = suspicion_beats

    def read(self, offset: Offset, beat: Heartbeat) -> None:
        """Take the heartbeat at `offset`. Call in log order."""
        peer = self.peers.get(beat.replica)
        if peer is not None and (beat.inc < peer.inc or (beat.inc == peer.inc and beat.uid != peer.uid)):
            self._check_number(peer, beat)
            return  # invalid: the first with a new highest number owns the index (B30)
        if peer is None or beat.inc > peer.inc:  # a newer incarnation clears the older one's ask (B25)
            peer = self.peers[beat.replica] = Peer(beat.inc, beat.uid, None, beat)
        peer.beat = beat
        peer.own_beats_since = 0
        self.roles.read(beat)
        if not beat.asking:
            peer.ask = None
        elif beat.ask_offset is not None:  # also of one that is known: what was its first here, it may never have read
            peer.ask = beat.ask_offset
        elif peer.ask is None:
            peer.ask = offset
        self._check_own(beat)
        if beat.replica == self.replica and (beat.inc, beat.uid) == (self.inc, self.uid):
            self.echoed = True
            for index, other in self.peers.items():
                if index != self.replica:
                    other.own_beats_since += 1

    def _check_own(self, beat: Heartbeat) -> None:
        if beat.replica != self.replica:
            return
        if beat.inc > self.inc or (beat.inc == self.inc and beat.uid != self.uid):
            self.superseded = f"replica {self.replica}: incarnation {beat.inc} ({beat.uid}) has taken this index over"

    def _check_number(self, owner: Peer, beat: Heartbeat) -> None:
        """Of two that both read their own heartbeat first, because the log had deleted earlier ones, neither leaves by
        B30. One starts again: its new number makes the other leave, and all peers believe it.
        """
        shared = beat.replica == self.replica and beat.inc == self.inc and owner.uid == self.uid
        if shared and not beat.recovering and beat.uid < self.uid:  # not recovering: it has read its own
            self.number_shared = why_shared(self.replica, beat.inc, beat.uid)

    def live(self, index: int) -> bool:
        """Whether a replica counts as live: itself, and each peer heard within the last own heartbeats (R8.1)."""
        if index == self.replica:
            return True
        peer = self.peers.get(index)
        return peer is not None and peer.own_beats_since < self._limit

    def live_peers(self) -> list[Peer]:
        """The peers that count as live, by index."""
        return [p for i, p in sorted(self.peers.items()) if i != self.replica and self.live(i)]

    @property
    def lowest_live(self) -> int:
        """The lowest index that counts as live."""
        return min([self.replica, *(i for i in self.peers if self.live(i))])

    def checkpoints(self, low: Bucket, high: Bucket) -> list[tuple[Bucket, int]]:
        """(bucket, replica) of the peers' newest checkpoints in (low, high], the furthest first (R14.1, B44)."""
        of = [(p.beat.checkpoint_bucket, i) for i, p in self.peers.items() if i != self.replica]
        return sorted((found for found in of if low < found[0] <= high), reverse=True)

    @property
    def _own(self) -> Peer | None:
        own = self.peers.get(self.replica)
        return own if own is not None and (own.inc, own.uid) == (self.inc, self.uid) else None

    @property
    def own_ask(self) -> Offset | None:
        """Offset of the own ask; None: not read back, or this replica does not ask."""
        return None if self._own is None else self._own.ask

    @property
    def own_beat(self) -> Heartbeat | None:
        """The last heartbeat of this incarnation that was read back; None: none was."""
        return None if self._own is None else self._own.beat

    @property
    def head(self) -> int | None:
        """The live replica that has asked longest (R9.3); None: no live replica asks."""
        asks = [(p.ask, i) for i, p in self.peers.items() if p.ask is not None and self.live(i)]
        return min(asks)[1] if asks else None


class Recovery:
    """Decides when RECOVERING ends (R11.3).

    The goal is fixed: the furthest bucket up to which a live peer that was not recovering had acknowledged output when
    the first own heartbeat was read back; without such a peer, the own frontier then.
    """

    def __init__(self) -> None:
        self.recovering = True
        self._goal: int | None = None

    def done(self, control: ControlFold, *, f_l: Bucket, ack_l: Bucket, busy: bool, live: bool = True) -> bool:
        """Whether RECOVERING ends now; True only once.

        Args:
            f_l: the live frontier. ack_l: as far as its output is acknowledged.
            busy: inputs were not read to their end since the start, or complete buckets wait to run.
            live: it runs buckets live; a standby does not, so only what is stable counts.
        """
        if not self.recovering:
            return False
        if self._goal is None and control.echoed:
            peers = [p.beat for p in control.live_peers() if not p.beat.recovering]
            self._goal = max((b.ack_l if live else b.ack_s for b in peers), default=f_l)
        if self._goal is None or busy or ack_l < self._goal:
            return False
        self.recovering = False
        return True
