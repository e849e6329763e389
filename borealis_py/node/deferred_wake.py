"""A wake that may wait for the next turn while the replica is at ease: acknowledgements and commits then need none of
their own."""

from __future__ import annotations

from borealis_py.log.base import Wake


class DeferredWake:
    """Called, in any thread, when something arrived. `wake` makes a turn due at once."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._at_ease = False
        self._arrived = False

    def __call__(self) -> None:
        self._arrived = True  # before the look at `_at_ease`: else `end_turn`, between the two, would miss it
        if not self._at_ease:
            self._wake()

    def begin_turn(self) -> None:
        """A turn begins, which takes all that has arrived."""
        self._arrived = False

    def end_turn(self, at_ease: bool) -> None:
        """A turn is over. `at_ease`: what arrives from now on may wait for the next one."""
        self._at_ease = at_ease
        if not at_ease and self._arrived:
            self._wake()
