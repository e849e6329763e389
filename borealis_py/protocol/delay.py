"""When an incomplete bucket may run (R1, R3). Pure: time comes in as numbers.

Used by replicas for their inputs and by clients for the replicas of a stream: both read feeds, know when a bucket came
into being, and decide alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from borealis_py.protocol.settings import DelayPolicy


class Creation:
    """created[b]: when each bucket came into being, less what upstream had waited (R1).

    Runs of buckets created at once are one entry, so that a jump over an hour costs nothing (B20).
    """

    def __init__(self, first: int) -> None:
        self._low = first
        self._ends: list[int] = []
        self._times: list[int] = []
        self._held: dict[int, int] = {}

    @property
    def top(self) -> int:
        """The highest bucket that exists (one below the first if none does)."""
        return self._ends[-1] - 1 if self._ends else self._low - 1

    def extend(self, top: int, now: int) -> None:
        """Every bucket up to `top` that is new was created now."""
        if top > self.top:
            self._ends.append(top + 1)
            self._times.append(now)

    def waited(self, bucket: int, now: int, held: int, width: int) -> None:
        """A TENTATIVE(b, held) or a held STABLE(b) was read: upstream has waited that long already (B12)."""
        for b, at in ((bucket, now - held - width), (bucket + 1, now - held)):
            if self._low <= b <= self.top:
                self._held[b] = min(self._held.get(b, at), at)

    def at(self, bucket: int) -> int | None:
        """When it was created; None if it does not exist (or is forgotten)."""
        if not self._low <= bucket <= self.top:
            return None
        created = self._times[bisect_right(self._ends, bucket)]
        return min(created, self._held.get(bucket, created))

    def forget(self, below: int) -> None:
        """Buckets below are done."""
        keep = bisect_right(self._ends, below)
        del self._ends[:keep], self._times[:keep]
        self._low = max(self._low, below)
        for bucket in [b for b in self._held if b < below]:
            del self._held[bucket]


@dataclass(slots=True)
class FeedState:
    """One log that an input is read from: a source, or one replica's topic (PROTOCOL 2.1, "per feed").

    `said`: furthest bucket it spoke about, plus one. `tentative`: its last word was TENTATIVE. `late`: buckets run
    without it. `heard`: something was read from it since it became late.
    """

    said: int
    tentative: bool = False
    late: bool = False
    heard: bool = False

    def word(self, bucket: int, tentative: bool, live: int) -> None:
        """It spoke about `bucket` (A3). `live`: the reader's live frontier."""
        self.heard = True
        self.said = max(self.said, bucket + 1)
        if bucket == self.said - 1:
            self.tentative = tentative
        if bucket >= live:
            self.late = False

    def awaited(self, bucket: int) -> bool:
        """It may still say this bucket stably, and is worth waiting for (R3, B15)."""
        return self.said <= bucket and not self.late and not self.tentative

    def ran(self, bucket: int) -> None:
        """The bucket ran while the feed's input was not stable in it (R3, effect)."""
        was, self.late = self.late, self.said <= bucket
        if self.late and not was:
            self.heard = False

    def forgive(self) -> None:
        """A feed that was heard since it became late gets the full wait again (R2, B13); a dead one stays late."""
        if self.late and self.heard:
            self.late = False


class Presence(Enum):
    """What an input has of a bucket."""

    STABLE = "stable"
    TENTATIVE = "tentative"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class InputView:
    """One input as the decision sees it: some feed is awaited; all its feeds are late; what it has lacks a source."""

    presence: Presence
    awaited: bool
    all_late: bool
    lacks: bool = False


def view(presence: Presence, feeds: Iterable[FeedState], bucket: int, lacks: bool = False) -> InputView:
    """Sum up an input's feeds for `bucket`."""
    awaited, all_late = False, True
    for feed in feeds:
        awaited = awaited or feed.awaited(bucket)
        all_late = all_late and feed.late
    return InputView(presence, awaited, all_late, lacks)


ALWAYS = -(2**62)


def ready_at(end: int, inputs: Iterable[InputView], policy: DelayPolicy, wait: int, delta: int) -> int | None:
    """The time from which a bucket may run live (R3 a to c).

    Args:
        end: created + width of the bucket, in local monotonic microseconds.
        wait: D, for an input that was there before. delta: for one that is late already.

    Returns:
        That time (ALWAYS: nothing to wait for), or None: never (suspend).
    """
    if policy is DelayPolicy.SUSPEND:
        return None
    at = end + wait if policy is DelayPolicy.DELAY else ALWAYS
    views = list(inputs)
    missing = [v for v in views if v.presence is Presence.MISSING]
    tentative = [v for v in views if v.presence is Presence.TENTATIVE]
    if any(v.awaited for v in tentative):
        at = max(at, end + wait)
    if missing and all(v.all_late for v in missing) and any(v.lacks for v in tentative):
        return at  # their time has passed upstream, which has waited for its own (B11)
    for v in missing:
        at = max(at, end + (delta if v.all_late else wait))
    return at
