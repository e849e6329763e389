"""Reading all replicas of a stream: each stable bucket from whoever says it first (PROTOCOL 1.3, R5).

No choice, no switching: every replica's topic is a feed with a cursor of its own. For clients; a node reads its inputs
by `Intake`.
"""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.protocol.delay import Creation, FeedState, Presence, ready_at, view
from borealis_py.protocol.settings import DelayPolicy
from sunion.bucket import Buckets
from sunion.model import StreamRecord
from sunion.stream_fold import FeedProgress, StreamFold
from sunion.view import Change, View


class StreamView:
    """What a consumer has read of a stream with `replicas` replicas, from bucket `start` on.

    Args:
        wait: D = X - slack, microseconds: how long past a bucket's end a feed that may still say it stably is awaited.
    """

    def __init__(self, stream: str, replicas: int, start: int, buckets: Buckets, wait: int) -> None:
        self.stream = stream
        self.buckets = buckets
        self.wait = wait
        self.view = View(start)
        self._fold = StreamFold(stream, replicas, start)
        self._feeds = [FeedState(start) for _ in range(replicas)]
        self._creation = Creation(start)
        self._waited: list[tuple[int, int]] = []

    @property
    def next(self) -> int:
        """First bucket that is not stable."""
        return self.view.stable

    @property
    def live(self) -> int:
        """Next bucket to show."""
        return self.view.live

    def waits(self, replica: int) -> bool:
        """This replica's cursor is to be read no further for now: the others must say what is before (A3)."""
        return self._fold.waits(replica)

    def read(self, now: int, records: Sequence[tuple[int, StreamRecord]]) -> list[Change]:
        """Take (replica, record) pairs, each replica's in its log's order; return what became stable.

        Raises:
            RetentionLost: every replica's topic goes on beyond the bucket that is needed next.
        """
        changes: list[Change] = []
        for said in self._fold.read(records):
            if isinstance(said, FeedProgress):
                self._feeds[said.replica].word(said.bucket, said.tentative, self.live)
                if said.tentative or said.waited_us:
                    self._waited.append((said.bucket, said.waited_us))
                continue
            together = self.live == self.next
            changes += self.view.stable_run(said.first, said.end, said.output)
            if together:
                for feed in self._feeds:
                    feed.forgive()
        self._fold.passed(self.live)
        self._create(now)
        return changes

    def _create(self, now: int) -> None:
        top = self._fold.top
        if top is not None and top < self.buckets.last:
            self._creation.extend(top, now)
        for bucket, held in self._waited:
            self._creation.waited(bucket, now, held, self.buckets.width_us)
        self._waited.clear()
        self._creation.forget(min(self.next, self.live))

    def show(self, now: int) -> list[Change]:
        """Tentative buckets whose time has come (R3 a); a bucket that no replica has is passed over (R5)."""
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
                feed.ran(bucket)

    def ready_at(self) -> int | None:
        """When the next bucket is to be shown or passed over at the latest; None: not while things are as they are.

        A bucket that nobody has said is passed over only for one beyond it: each replica says its buckets in order, so
        it may be on its way, and giving it up for nothing would leave it out (it would come a little after D).
        """
        created = self._creation.at(self.live)
        if created is None:
            return None
        presence = Presence.TENTATIVE if self.live in self._fold.tentative else Presence.MISSING
        if presence is Presence.MISSING and max(self._fold.tentative, default=self.live) <= self.live:
            return None
        views = [view(presence, self._feeds, self.live)]
        return ready_at(created + self.buckets.width_us, views, DelayPolicy.PROCESS, self.wait, self.wait)
