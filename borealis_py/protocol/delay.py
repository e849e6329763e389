"""When an incomplete bucket may run (R1, R3). Pure: time is an argument.

Replicas use it for their inputs, clients for the replicas of a stream: both read feeds, know when a bucket was created,
and decide alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from borealis_py.protocol.settings import DelayPolicy
from sunion.units import Bucket, MonotonicUs


class Creation:
    """created[b]: when each bucket was created, less what upstream had waited; not after any later bucket (R1.2).

    Buckets created at once share one entry, so that a jump over an hour costs nothing (B20).
    """

    def __init__(self, first: int) -> None:
        self._low = first
        self._ends: list[int] = []
        self._times: list[int] = []
        self._moved: list[tuple[int, int]] = []
        """(bucket, when it was created at the latest), both rising: each holds for all buckets before it too."""

    @property
    def top(self) -> int:
        """The highest bucket that exists; one below the first if none does."""
        return self._ends[-1] - 1 if self._ends else self._low - 1

    def extend(self, top: Bucket, now: MonotonicUs) -> None:
        """Create every new bucket up to `top` at time `now`."""
        if top > self.top:
            self._ends.append(top + 1)
            self._times.append(now)

    def waited(self, bucket: Bucket, *, now: MonotonicUs, waited_us: int, width_us: int) -> None:
        """Move creation back: a TENTATIVE or delayed STABLE record shows that upstream waited `waited_us` (B12)."""
        for b, at in ((bucket, now - waited_us - width_us), (bucket + 1, now - waited_us)):
            if self._low <= b <= self.top:
                self._move(b, at)

    def _move(self, bucket: int, at: int) -> None:
        index = bisect_left(self._moved, (bucket, at))
        if index < len(self._moved) and self._moved[index][1] <= at:
            return
        least = index
        while least and self._moved[least - 1][1] >= at:
            least -= 1
        if index < len(self._moved) and self._moved[index][0] == bucket:
            index += 1
        self._moved[least:index] = [(bucket, at)]

    def at(self, bucket: Bucket) -> int | None:
        """When the bucket was created; None: it does not exist or is forgotten."""
        if not self._low <= bucket <= self.top:
            return None
        created = self._times[bisect_right(self._ends, bucket)]
        moved = bisect_left(self._moved, (bucket,))
        return min(created, self._moved[moved][1]) if moved < len(self._moved) else created

    def forget(self, below: int) -> None:
        """Forget the buckets below `below`: they are done."""
        keep = bisect_right(self._ends, below)
        del self._ends[:keep], self._times[:keep]
        self._low = max(self._low, below)
        del self._moved[: bisect_left(self._moved, (below,))]


@dataclass(slots=True)
class FeedState:
    """One log that an input is read from: a source, or one replica's topic (`docs/protocol/running.md`).

    Attributes:
        said: the furthest bucket that it reported, plus one.
        tentative: its report of that bucket was TENTATIVE.
        late: it is LATE: a bucket ran before the feed reported it.
        heard: something was read from it since it became LATE.
    """

    said: int
    tentative: bool = False
    late: bool = False
    heard: bool = False

    def on_report(self, bucket: Bucket, *, tentative: bool, live: Bucket) -> None:
        """The feed reported `bucket` (A3). `live`: the reader's live frontier."""
        self.heard = True
        self.said = max(self.said, bucket + 1)
        if bucket == self.said - 1:
            self.tentative = tentative
        if bucket >= live:
            self.late = False

    def awaited(self, bucket: Bucket) -> bool:
        """Whether it may still report the bucket as stable and is worth waiting for (R3.3, B15)."""
        return self.said <= bucket and not self.late and not self.tentative

    def on_live_run(self, bucket: Bucket) -> None:
        """The bucket ran while this feed's input was not stable in it (R3.4, effect)."""
        was, self.late = self.late, self.said <= bucket
        if self.late and not was:
            self.heard = False

    def forgive(self) -> None:
        """Clear LATE if the feed was heard since: it gets the full wait again (R2.2, B13). A dead feed stays LATE."""
        if self.late and self.heard:
            self.late = False


class Presence(Enum):
    """In which form an input has a bucket that it has not closed."""

    TENTATIVE = "tentative"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class InputView:
    """An input that has not closed a bucket, as R3.3 sees it.

    Attributes:
        presence: in which form it has the bucket.
        awaited: at least one of its feeds is awaited.
        all_late: all its feeds are LATE.
        lacks: its tentative record of the bucket names a missing source.
    """

    presence: Presence
    awaited: bool
    all_late: bool
    lacks: bool = False


def view(presence: Presence, feeds: Iterable[FeedState], bucket: Bucket, lacks: bool = False) -> InputView:
    """Combine the states of an input's feeds for `bucket`."""
    awaited, all_late = False, True
    for feed in feeds:
        awaited = awaited or feed.awaited(bucket)
        all_late = all_late and feed.late
    return InputView(presence, awaited, all_late, lacks)


ALWAYS = MonotonicUs(-(2**62))


def ready_at(
    end: MonotonicUs, inputs: Iterable[InputView], policy: DelayPolicy, *, wait_us: int, delta_us: int
) -> MonotonicUs | None:
    """The time from which a bucket may run live (R3.3 a to c).

    Args:
        end: created + width of the bucket. inputs: those that have not closed it.
        wait_us: D, for an input that was there before. delta_us: for one that is LATE already.

    Returns:
        That time; ALWAYS: there is nothing to wait for; None: never (suspend).
    """
    if policy is DelayPolicy.SUSPEND:
        return None
    waited, at = MonotonicUs(end + wait_us), ALWAYS
    missing: list[InputView] = []
    tentative: list[InputView] = []
    for v in inputs:
        (missing if v.presence is Presence.MISSING else tentative).append(v)
    if policy is DelayPolicy.DELAY or any(v.awaited for v in tentative):
        at = waited
    if missing and all(v.all_late for v in missing) and any(v.lacks for v in tentative):
        return at  # upstream has waited for these inputs already (B11)
    for v in missing:
        at = max(at, MonotonicUs(end + delta_us) if v.all_late else waited)
    return at
