"""When a replica says what it may still read (R16.2).

It costs a replica at rest one comparison a turn: a new word needs a new oldest checkpoint, and causes no turn itself.
"""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Iterator

from borealis_py.log.acks import LastNeeds, ack_record
from borealis_py.log.base import Lookup, NewRecord
from borealis_py.log.description import Life
from borealis_py.node.checkpoints import KEEP
from borealis_py.node.endings import NumberShared
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Identity, StartPoint, why_shared
from borealis_py.protocol.trimming import KeptCheckpoint, Need, ReplicaName, least
from borealis_py.protocol.trimming.fold import SENT_MAX
from sunion.units import Bucket, MonotonicUs, Offset

REPEAT_US = 600_000_000
"""An acknowledgement is repeated after ten minutes although nothing is new: others tell by it that a replica lives."""


class Acknowledging:
    """The acknowledgements of one incarnation. `every_us`: the least time between two."""

    def __init__(self, spec: ReplicaSpec, identity: Identity, every_us: int) -> None:
        self._spec = spec
        self._identity = identity
        self._every_us = every_us
        self._sources = tuple(of.name for of in spec.inputs if not of.replicas)
        self._place = spec.place or spec.checkpoint_uri or f"{spec.host or platform.node()}:{spec.data_dir}"
        self._needs = LastNeeds(spec.app, Life(spec.app_uid))
        self._number = 0
        self._said: tuple[KeptCheckpoint, ...] | None = None
        self._first: tuple[KeptCheckpoint, Bucket | None] | None = None
        self._repeated: tuple[KeptCheckpoint, Bucket | None] | None = None
        self._said_us = MonotonicUs(0)
        self._sent: deque[tuple[Need, MonotonicUs]] = deque(maxlen=SENT_MAX)

    def first(self, now: MonotonicUs, lookup: Lookup, start: StartPoint) -> NewRecord:
        """The acknowledgement with which an incarnation begins: it may read all that those before it might, and what
        follows its own `start`. Others so learn soon that it lives, however long it takes to catch up.

        Raises:
            LogError: the log cannot be read.
        """
        bucket = Bucket(min(start.bucket if start.own is None else start.own, start.bucket))
        marks = dict(zip(self._sources, () if start.marks is None else start.marks, strict=start.marks is not None))
        offsets = {s: Offset(marks[s].offset if s in marks else 0) for s in self._sources}
        before = self._before(lookup)
        for said in before:
            bucket = min(bucket, said.bucket)
            offsets = {s: min(at, said.offsets.get(s, Offset(0))) for s, at in offsets.items()}
        published = max((said.published for said in before if said.published is not None), default=None)
        self._first = KeptCheckpoint(bucket, tuple(offsets.values())), published
        return self._record(now, *self._first)

    def _before(self, lookup: Lookup) -> list[Need]:
        """What those before it may have to read, from whose checkpoints it may start. Raises LogError."""
        near = self._spec.recovery.stands_by
        said = self._last(lookup)
        return [need for k, need in said.items() if k == self._spec.replica or (near and need.place == self._place)]

    def _last(self, lookup: Lookup) -> dict[int, Need]:
        """What each replica of the node has acknowledged last, by its index. Raises LogError."""
        return {name.index: need for name, need in self._needs.read(lookup).items() if name.node == self._spec.node}

    def due(
        self, now: MonotonicUs, kept: tuple[KeptCheckpoint, ...] | None, published: Bucket | None
    ) -> NewRecord | None:
        """The acknowledgement to append in this turn; None: none.

        Args:
            kept: where a start may begin, as `CheckpointStore.kept`. None: not known; then what the incarnation said
                first stands, which is not more.
            published: the first bucket that is not published, by the progress that was read; None: none was.
        """
        if kept is None:  # also for hours, while an input is away: silence would mean that this one is gone
            due = self._first is not None and now - self._said_us >= REPEAT_US
            return self._record(now, *self._first) if self._first is not None and due else None
        if kept == self._said and now - self._said_us < REPEAT_US:
            return None
        if self._said is not None and now - self._said_us < self._every_us:
            return None
        self._said = kept
        return self._record(now, least(kept, Bucket(self._spec.origin), len(self._sources), KEEP), published)

    def repeated(self, now: MonotonicUs, lookup: Lookup, runner: int) -> NewRecord | None:
        """What replica `runner` has acknowledged last, as the own word; None: that was said already, it has said
        nothing, or keeps its checkpoints where a standby on this machine does not find them.

        Raises:
            LogError: the log cannot be read. NumberShared: what this one says counts for nobody (B30).
        """
        last, me = self._last(lookup), self._identity
        own = last.get(me.replica)
        if own is not None and own.inc == me.inc and own.uid != me.uid:
            raise NumberShared(why_shared(me.replica, own.inc, own.uid))
        said = last.get(runner)
        if said is None or said.place != self._place or set(said.offsets) != set(self._sources):
            return None
        oldest = KeptCheckpoint(said.bucket, tuple(said.offsets[s] for s in self._sources))
        if (oldest, said.published) == self._repeated and now - self._said_us < REPEAT_US:
            return None
        self._repeated = oldest, said.published
        return self._record(now, oldest, said.published)

    def sent(self) -> Iterator[tuple[Need, MonotonicUs]]:
        """What was said since the last call, and when. May be called in another thread."""
        while self._sent:
            yield self._sent.popleft()

    def _record(self, now: MonotonicUs, oldest: KeptCheckpoint, published: Bucket | None) -> NewRecord:
        self._said_us = now
        self._number += 1
        me = self._identity
        need = Need(
            inc=me.inc,
            uid=me.uid,
            number=self._number,
            bucket=oldest.bucket,
            offsets=dict(zip(self._sources, oldest.offsets, strict=True)),
            published=published,
            place=self._place,
        )
        self._sent.append((need, now))
        return ack_record(self._spec.app, self._spec.app_uid, ReplicaName(self._spec.node, me.replica), need)
