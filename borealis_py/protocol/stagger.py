"""Which replica may correct now (R4.2, B26 to B28). For availability, not safety: two at once would be harmless."""

from __future__ import annotations

from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.settings import Timing
from sunion.units import MonotonicUs


class Stagger:
    """`asking` and `granted` of one replica, derived anew in each turn."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.asking = False
        self.granted = False
        self._incomplete_since: MonotonicUs | None = None
        """Since when bucket F_s has been incomplete while the replica asks; None: it is complete, or nothing is asked.
        """
        self._stood_since = MonotonicUs(0)
        """Since when the head has stood still, as far as this replica saw without a gap."""
        self._seen: tuple[int, int, int] | None = None
        """Index, incarnation and `ack_s` of the head in the last turn; None: there was none."""
        self._passed = False
        """Whether T has passed behind a head that stood still. It holds until the replica no longer asks."""

    @property
    def passed(self) -> bool:
        """Whether it waited T behind a head that stood still and so holds the grant without being head (B27)."""
        return self._passed

    def turn(self, now: MonotonicUs, diverged: bool, complete: bool, gap: bool, control: ControlFold) -> None:
        """Derive both from this turn's facts.

        Args:
            diverged: F_s < F_l. complete: bucket F_s is complete. gap: the own last turn is too long ago.
        """
        was_asking = self.asking
        self._update_asking(now, diverged, complete)
        if not self.asking:
            self.granted = self._passed = False
            return
        self._watch_head(now, was_asking, gap, control)
        self.granted = self._passed or (control.head == control.replica and control.own_ask is not None)

    def _update_asking(self, now: MonotonicUs, diverged: bool, complete: bool) -> None:
        if not diverged:
            self.asking, self._incomplete_since = False, None
        elif complete:
            self.asking, self._incomplete_since = True, None
        elif self.asking:
            if self._incomplete_since is None:
                self._incomplete_since = now
            if now - self._incomplete_since >= self._timing.release_us:
                self.asking = False

    def _watch_head(self, now: MonotonicUs, was_asking: bool, gap: bool, control: ControlFold) -> None:
        """Stop waiting for a head that has stood still for T (B27)."""
        head = control.head
        peer = control.peers.get(head) if head is not None else None
        seen = (head, peer.inc, peer.beat.ack_s) if head is not None and peer is not None else None
        if not was_asking or gap or seen != self._seen:
            self._stood_since = now
        self._seen = seen
        if now - self._stood_since >= self._timing.stagger_us:
            self._passed = True

    def wakeup(self) -> MonotonicUs | None:
        """When `asking` or `granted` may change without new input; None: not."""
        if not self.asking:
            return None
        times = [] if self.granted else [MonotonicUs(self._stood_since + self._timing.stagger_us)]
        if self._incomplete_since is not None:
            times.append(MonotonicUs(self._incomplete_since + self._timing.release_us))
        return min(times, default=None)
