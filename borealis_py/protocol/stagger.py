"""Whose turn it is to reconcile (R4, B26 to B28). Advice, never safety: two at once would be harmless."""

from __future__ import annotations

from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.settings import Timing


class Stagger:
    """`asking` and `granted` of one replica: derived anew each turn."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.asking = False
        self.granted = False
        self._incomplete_since: int | None = None
        self._stood_since = 0
        self._seen: tuple[int, int, int] | None = None
        self._passed = False

    def turn(self, now: int, diverged: bool, complete: bool, gap: bool, control: ControlFold) -> None:
        """Derive both from this turn's facts.

        Args:
            diverged: F_s < F_l. complete: bucket F_s is complete. gap: too long since the own last turn.
        """
        was_asking = self.asking
        self._update_asking(now, diverged, complete)
        if not self.asking:
            self.granted = self._passed = False
            return
        self._watch_head(now, was_asking, gap, control)
        self.granted = self._passed or (control.head == control.replica and control.own_ask is not None)

    def _update_asking(self, now: int, diverged: bool, complete: bool) -> None:
        if not diverged:
            self.asking, self._incomplete_since = False, None
        elif complete:
            self.asking, self._incomplete_since = True, None
        elif self.asking:
            if self._incomplete_since is None:
                self._incomplete_since = now
            if now - self._incomplete_since >= self._timing.release_us:
                self.asking = False

    def _watch_head(self, now: int, was_asking: bool, gap: bool, control: ControlFold) -> None:
        """T: the head has stood still for so long that waiting for it serves nobody (B27)."""
        head = control.head
        peer = control.peers.get(head) if head is not None else None
        seen = (head, peer.inc, peer.beat.ack_s) if head is not None and peer is not None else None
        if not was_asking or gap or seen != self._seen:
            self._stood_since = now
        self._seen = seen
        if now - self._stood_since >= self._timing.stagger_us:
            self._passed = True

    def wakeup(self) -> int | None:
        """When this may change by itself."""
        if not self.asking:
            return None
        times = [] if self.granted else [self._stood_since + self._timing.stagger_us]
        if self._incomplete_since is not None:
            times.append(self._incomplete_since + self._timing.release_us)
        return min(times, default=None)
