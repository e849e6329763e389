"""When a replica says what it may still read (R16).

It costs a replica at rest one comparison a turn: a new word needs a new oldest checkpoint, and causes no turn itself.
"""

from __future__ import annotations

import platform

from borealis_py.log.acks import ack_record
from borealis_py.log.base import NewRecord
from borealis_py.node.checkpoints import KEEP
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Identity
from borealis_py.protocol.trimming import KeptCheckpoint, Need, ReplicaName, least
from sunion.units import Bucket, MonotonicUs

REPEAT_US = 600_000_000
"""An acknowledgement is repeated after ten minutes although nothing is new: others tell by it that a replica lives."""


class Acknowledging:
    """The acknowledgements of one incarnation. `every_us`: the least time between two."""

    def __init__(self, spec: ReplicaSpec, identity: Identity, every_us: int) -> None:
        self._spec, self._identity, self._every_us = spec, identity, every_us
        self._sources = tuple(of.name for of in spec.inputs if not of.replicas)
        self._place = spec.checkpoint_uri or f"{spec.host or platform.node()}:{spec.data_dir}"
        self._number = 0
        self._said: tuple[KeptCheckpoint, ...] | None = None
        self._said_us = MonotonicUs(0)

    def due(
        self, now: MonotonicUs, kept: tuple[KeptCheckpoint, ...] | None, published: Bucket | None
    ) -> NewRecord | None:
        """The acknowledgement to append in this turn; None: none.

        Args:
            kept: all checkpoints that a start may use. None: not known; then what the incarnation before said stands,
                which is not more.
            published: the first bucket that is not published, by the progress that was read; None: none was.
        """
        if kept is None or (kept == self._said and now - self._said_us < REPEAT_US):
            return None
        if self._said is not None and now - self._said_us < self._every_us:
            return None
        self._said, self._said_us = kept, now
        self._number += 1
        oldest = least(kept, Bucket(self._spec.origin), len(self._sources), KEEP)
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
        return ack_record(self._spec.app, self._spec.app_uid, ReplicaName(self._spec.node, me.replica), need)
