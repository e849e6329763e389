"""Reads all replicas of a stream; each stable bucket comes from the replica that reports it first (A3, R5).

Nothing is chosen and nothing switched: every replica's topic is a feed with a cursor of its own. For clients; a node
reads its inputs through `InputState`.
"""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.protocol.delay import ALWAYS, Creation, FeedState, Presence, ready_at, view
from borealis_py.protocol.settings import DelayPolicy
from sunion.bucket import Buckets
from sunion.model import StreamRecord
from sunion.stream_fold import FeedProgress, Lost, StreamFold
from sunion.units import Bucket, MonotonicUs
from sunion.view import Change, View


class StreamView:
    """What a consumer has read of a stream with `replicas` replicas, from bucket `start` on.

    Args:
        wait_us: D = X - slack: how long past a bucket's end it waits for a feed that may still report the
            bucket as stable.
    """

    def __init__(self, stream: str, replicas: int, start: Bucket, buckets: Buckets, wait_us: int) -> None:
        self.stream = stream
        self.buckets = buckets
        self.wait_us = wait_us
        self.view = View(start)
        self._fold = StreamFold(stream, replicas, start)
        self._feeds = [FeedState(start) for _ in range(replicas)]
        self._creation = Creation(start)
        self._waited: list[tuple[Bucket, int]] = []
        self._lost_end = 0
        """Where the last gap that was shown ends."""

    @property
    def next(self) -> Bucket:
        """The first bucket that is not stable."""
        return Bucket(self.view.stable)

    @property
    def live(self) -> Bucket:
        """The next bucket to show."""
        return Bucket(self.view.live)

    def waits(self, replica: int) -> bool:
        """Whether not to read this replica's cursor further until the others have reported what is before (A3)."""
        return self._fold.waits(replica)

    def read(self, now: MonotonicUs, records: Sequence[tuple[int, StreamRecord]]) -> list[Change]:
        """Take (replica, record) pairs, each replica's in log order; return the changes of buckets that became stable,
        and of lost ones.

        Raises:
            RetentionLost: every replica's topic goes on beyond the bucket that is needed next.
        """
        changes: list[Change] = []
        for said in self._fold.read(records):
            if isinstance(said, FeedProgress):
                self._feeds[said.replica].on_report(Bucket(said.bucket), tentative=said.tentative, live=self.live)
                if said.tentative or said.waited_us:
                    self._waited.append((Bucket(said.bucket), said.waited_us))
                continue
            if isinstance(said, Lost):
                changes += self.view.lost_run(said.first, said.end, said.last_words)
                self._lost_end = said.end
                continue
            changes += self.view.stable_run(said.first, said.end, said.output)
            if self.live == self.next:  # nothing tentative is left to correct
                for feed in self._feeds:
                    feed.forgive()
        self._fold.passed(self.live)
        self._create(now)
        return changes

    def _create(self, now: MonotonicUs) -> None:
        top = self._fold.top
        if top is not None and top < self.buckets.last:
            self._creation.extend(Bucket(top), now)
        for bucket, waited_us in self._waited:
            self._creation.waited(bucket, now=now, waited_us=waited_us, width_us=self.buckets.width_us)
        self._waited.clear()
        self._creation.forget(Bucket(min(self.next, self.live)))

    def show(self, now: MonotonicUs) -> list[Change]:
        """Show tentative buckets whose time has come (R3.3 a); pass over a bucket that no replica has (R5.3)."""
        changes: list[Change] = []
        while True:
            at = self.ready_at()
            if at is None or at > now:
                return changes
            bucket = self.live
            best = self._fold.pick(bucket)
            if best is None:
                self.view.pass_over(bucket)
            else:
                changes += self.view.tentative_bucket(best)
            self._fold.passed(self.live)
            for feed in self._feeds:
                feed.on_live_run(bucket)

    def ready_at(self) -> MonotonicUs | None:
        """When to show or pass over the next bucket at the latest; None: not without new records.

        A bucket that no replica has reported is passed over only for a later one that some replica has. Each replica
        reports its buckets in order, so this one may be on its way, and would be left out if it came shortly after D.
        """
        created = self._creation.at(self.live)
        if created is None:
            return None
        if not any(bucket >= self.live for bucket in self._fold.tentative):
            return None
        best = self._fold.pick(self.live)
        if best is not None and best.diverged_from < self._lost_end == self.next:
            return ALWAYS  # it stands on lost buckets, so no replica will say it as stable (R18.6)
        presence = Presence.MISSING if best is None else Presence.TENTATIVE
        views = [view(presence, self._feeds, self.live)]
        end = MonotonicUs(created + self.buckets.width_us)
        return ready_at(end, views, DelayPolicy.PROCESS, wait_us=self.wait_us, delta_us=self.wait_us)
