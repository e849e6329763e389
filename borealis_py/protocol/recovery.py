"""When a replica that starts has caught up (R11, B42)."""

from __future__ import annotations

from borealis_py.protocol.control import ControlFold


class Recovery:
    """RECOVERING ends at a fixed goal: what the live peers had reached when this incarnation was first heard."""

    def __init__(self) -> None:
        self.recovering = True
        self._goal: int | None = None

    def done(self, control: ControlFold, f_l: int, busy: bool) -> bool:
        """True once: recovering ends now.

        Args:
            busy: inputs not read to their end since the start, complete buckets to run, or output not acknowledged.
        """
        if not self.recovering:
            return False
        if self._goal is None and control.echoed:
            peers = [p.beat for p in control.live_peers() if not p.beat.recovering]
            self._goal = max((b.ack_l for b in peers), default=f_l)
        if self._goal is None or busy or f_l < self._goal:
            return False
        self.recovering = False
        return True
