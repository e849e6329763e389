"""Reading all replicas of a stream: each stable bucket from whoever says it first (protocol A3, R5).

No choice, no switching: every replica's topic is a feed with a cursor of its own. Clients use it now; a node's stream
input will.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from borealis_py.protocol.delay import Creation, Feed, Presence, ready_at, view
from borealis_py.protocol.settings import DelayPolicy
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Output, StableBucket, StableRange, StreamRecord, TentativeBucket
from sunion.view import Change, View


class StreamReader:
    """What a consumer has read of a stream with `replicas` replicas, from bucket `start` on.

    Args:
        wait: D = X - slack, microseconds: how long past a bucket's end a feed that may still say it stably is awaited.
    """

    def __init__(self, stream: str, replicas: int, start: int, buckets: Buckets, wait: int) -> None:
        self.stream = stream
        self.buckets = buckets
        self.wait = wait
        self.view = View(start)
        self._feeds = [Feed(start) for _ in range(replicas)]
        self._queues: list[deque[StreamRecord]] = [deque() for _ in range(replicas)]
        self._inc = [0] * replicas
        self._creation = Creation(start)
        self._tentative: dict[int, dict[int, TentativeBucket]] = {}
        self._waited: list[tuple[int, int]] = []
        self._top = start

    @property
    def next(self) -> int:
        """First bucket that is not stable."""
        return self.view.stable

    @property
    def live(self) -> int:
        """Next bucket to show."""
        return self.view.live

    def read(self, now: int, records: Sequence[tuple[int, StreamRecord]]) -> list[Change]:
        """Take (replica, record) pairs, each replica's in its log's order; return what became stable.

        Raises:
            RetentionLost: every replica's topic goes on beyond the bucket that is needed next.
        """
        for k, record in records:
            self._queues[k].append(record)
        changes: list[Change] = []
        moved = True
        while moved:
            moved = False
            for k, queue in enumerate(self._queues):
                while queue and self._consume(k, queue[0], changes):
                    queue.popleft()
                    moved = True
        if all(self._queues):
            raise RetentionLost(
                f"stream {self.stream}: bucket {self.next} is in no replica's topic any more (retention); "
                "start again from a later position"
            )
        self._create(now)
        return changes

    def _consume(self, k: int, record: StreamRecord, changes: list[Change]) -> bool:
        """False: this cursor waits, its record is beyond the next bucket (A3)."""
        taken = True
        if isinstance(record, StableBucket):
            taken = self._stable(k, record.bucket, record.bucket + 1, record.output, record.held, changes)
        elif isinstance(record, StableRange):
            taken = self._stable(k, record.first, record.end, Output(), record.held, changes)
        elif isinstance(record, TentativeBucket):
            self._store(k, record)
        if taken:
            self._inc[k] = max(self._inc[k], record.inc)
        return taken

    def _stable(self, k: int, first: int, end: int, output: Output, held: int, changes: list[Change]) -> bool:
        if first > self.next:
            return False
        self._feeds[k].word(end - 1, False, self.live)
        if end > self.next:
            changes += self.view.stable_run(self.next, end, output)
            if held:
                self._waited.append((end - 1, held))
            for bucket in [b for b in self._tentative if b < end]:
                del self._tentative[bucket]
        self._top = max(self._top, end)
        return True

    def _store(self, k: int, record: TentativeBucket) -> None:
        if record.inc < self._inc[k]:
            return  # a zombie's
        self._feeds[k].word(record.bucket, True, self.live)
        self._top = max(self._top, record.bucket)
        self._waited.append((record.bucket, record.held))
        if record.bucket >= self.live:
            self._tentative.setdefault(record.bucket, {})[k] = record

    def _create(self, now: int) -> None:
        if self._top < self.buckets.last:
            self._creation.extend(self._top, now)
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
            stored = self._tentative.pop(bucket, None)
            if stored is None:
                self.view.pass_over(bucket)
            else:
                _, best = min(stored.items(), key=lambda kv: (len(kv[1].lacked), kv[0]))
                changes += self.view.tentative_bucket(
                    bucket, best.output, best.completeness, best.lacked, best.diverged_from
                )
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
        presence = Presence.TENTATIVE if self.live in self._tentative else Presence.MISSING
        if presence is Presence.MISSING and max(self._tentative, default=self.live) <= self.live:
            return None
        views = [view(presence, self._feeds, self.live)]
        return ready_at(created + self.buckets.width_us, views, DelayPolicy.PROCESS, self.wait, self.wait)
