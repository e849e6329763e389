"""When a replica process that died is restarted: at once, then after 1 s, doubling up to 30 s. Pure."""

from __future__ import annotations

READY_S = 60.0
"""A process that was READY this long before it died is restarted at once, as after its first end."""
FIRST_S = 1.0
MAX_S = 30.0


class Backoff:
    """The restart delays of one process."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def died(self, ready_s: float) -> float:
        """The delay before the next start, in seconds.

        Args:
            ready_s: for how long it had been READY when it died; 0: it was not.
        """
        pause_s = 0.0 if ready_s >= READY_S else self._next_s
        self._next_s = min(max(FIRST_S, 2 * pause_s), MAX_S)
        return pause_s
