"""What goes on beside a replica's turns; and heartbeats during a long one, so that peers do not take a busy replica for
a dead one (R7.2)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from borealis_py.log.base import Appender, Feed, NewRecord
from borealis_py.log.messages import beat_key, encode
from borealis_py.protocol.incarnation import Heartbeat
from borealis_py.protocol.settings import Timing

REPEAT_AFTER = 1.5
"""How many intervals old a heartbeat is repeated."""


@contextmanager
def repeating(
    do: Callable[[], int | None],
    every_us: int,
    name: str,
    last: Callable[[], None] = lambda: None,
    end_s: float | None = None,
) -> Iterator[None]:
    """Call `do` in another thread, `name`, until the block ends: first after `every_us` microseconds; then after as
    many as it returned, or `every_us` if it returned None.

    Args:
        last: called in that thread at its end.
        end_s: how long the end waits for a call that is on its way; None: until it returns.
    """
    over = threading.Event()

    def run() -> None:
        wait_us: int | None = None
        try:
            while not over.wait((every_us if wait_us is None else wait_us) / 1e6):
                wait_us = do()
        finally:
            last()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(end_s)


class Pulse:
    """Sends a replica's heartbeats, and repeats the last one in the middle of a turn. Thread-safe.

    It stops `pulse_max_us` after the turn began: a hung replica must fall silent.

    Args:
        feed: the partition of its `node` in the control topic.
    """

    def __init__(self, appender: Appender, timing: Timing, feed: Feed, node: str) -> None:
        self._appender = appender
        self._timing = timing
        self._feed = feed
        self._node = node
        self._lock = threading.Lock()  # otherwise an older heartbeat could follow a newer one
        self._last: Heartbeat | None = None
        self._said_us = 0
        self._began_us = 0

    def pace(self, timing: Timing) -> None:
        """Go by these times from now on."""
        self._timing = timing

    def turn(self, now: int) -> None:
        """A turn begins at `now`, in microseconds of the monotonic clock."""
        self._began_us = now

    def send(self, beat: Heartbeat, now: int) -> None:
        """Send a heartbeat of the turn itself."""
        with self._lock:
            self._append(beat, _says_nothing_new(beat, self._last))
            self._last, self._said_us = beat, now

    def repeat(self, now: int) -> int:
        """Send the last heartbeat again if it is due. Call it from another thread. Returns when to call it again,
        microseconds from now."""
        after_us = round(REPEAT_AFTER * self._timing.heartbeat_us)
        with self._lock:
            left_us = self._said_us + after_us - now
            if left_us > 0:
                return left_us
            if self._last is not None and now - self._began_us <= self._timing.pulse_max_us:
                self._append(self._last, conflatable=True)
                self._said_us = now
        return after_us

    def _append(self, beat: Heartbeat, conflatable: bool) -> None:
        key = beat_key(self._node, beat.replica)
        self._appender.append(NewRecord(self._feed, encode(beat), key, conflatable=conflatable))


def _says_nothing_new(beat: Heartbeat, before: Heartbeat | None) -> bool:
    """Whether peers may miss this heartbeat if they read the next one. Not where it has digests, which are told once
    (R15.1), or changes what they fold in the order of the log: asks (R9.2) and roles (R17.2)."""
    if before is None or beat.digests:
        return False
    return (beat.state, beat.asking, beat.runs) == (before.state, before.asking, before.runs)
