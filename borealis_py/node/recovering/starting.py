"""Where an incarnation begins: at a checkpoint, its own or a peer's, else at the origin (R11, R17, B45)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import structlog

from borealis_py.log.base import Appender, Lookup, NewRecord
from borealis_py.log.kernel import Kernel
from borealis_py.log.messages import Incarnation, encode
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.input_reader import InputReader
from borealis_py.node.peers import Peers
from borealis_py.node.recovering.checkpoint_files import LoadedCheckpoint
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.trimmer import needed_by_others
from borealis_py.protocol.incarnation import Identity, StartPoint
from borealis_py.protocol.roles.fold import Role
from borealis_py.query.recovery import RecoveryWay
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.union import Mark
from sunion.units import Bucket

log = structlog.get_logger("borealis.replica")

Check = Callable[[tuple[Mark, ...] | None, int, Buckets], None]
"""Given a checkpoint's marks and bucket, raises RetentionLost if the log no longer holds what follows."""


def role_of(spec: ReplicaSpec, stood_by: object | None) -> Role:
    """How an incarnation begins. `stood_by`: None if it was no standby before."""
    if stood_by is not None:
        return Role.TOOK_OVER
    return Role.STANDS_BY if spec.recovery.stands_by else Role.ALWAYS_RUNS


def rebuild_buckets(spec: ReplicaSpec, kernel: Kernel) -> int | None:
    """From how many buckets before its frontier a start rebuilds the state; None: checkpoints hold it. They also do if
    no start could: commands refuse upstream backup of such a node, and a setting may have been written by hand."""
    backup = spec.recovery.way is RecoveryWay.UPSTREAM_BACKUP
    return kernel.lookback_buckets if backup and not kernel.unbounded else None


def new_identity(spec: ReplicaSpec, reader: InputReader, appender: Appender, uid: str) -> Identity:
    """Take the highest incarnation + 1, and say so in the settings (R11). Raises LogError."""
    inc = reader.read_control() + 1
    value = encode(Incarnation(spec.app_uid, inc, uid))
    appender.append(NewRecord(spec.settings_feed, value, f"incarnation/{spec.node}/{spec.replica}".encode()))
    return Identity(spec.replica, inc, uid, spec.app_uid)


class Starting:
    """Finds where to begin. `check`: of the inputs."""

    def __init__(self, spec: ReplicaSpec, store: CheckpointStore, kernel: Kernel, lookup: Lookup, check: Check) -> None:
        self._spec, self._store, self._kernel, self._lookup, self._check = spec, store, kernel, lookup, check
        self._buckets = Buckets(spec.bucket_us)
        self.own_bucket: Bucket | None = None
        """Of the newest own checkpoint; None: there is none."""

    def point(self) -> StartPoint:
        """Where to begin.

        Raises:
            RetentionLost: the log holds what follows neither the own checkpoint nor a peer's.
            OSError: the checkpoints cannot be read.
        """
        own = self._own()
        if self._spec.recovery.stands_by:
            return self._furthest(own)
        try:
            self._check(own.marks, own.bucket, self._buckets)
        except RetentionLost as lost:
            peers, trimming = Peers(self._spec, self._store, self._kernel), self._spec.trimming
            needed = None if trimming is None else needed_by_others(self._spec, trimming, self._lookup)
            return peers.start_point(own, self._lookup, self._check, lost, needed)
        return own

    def _own(self) -> StartPoint:
        loaded = self._store.newest()
        if loaded is None:
            return StartPoint(Bucket(self._spec.origin), self._kernel.initial(), empty=True)
        self.own_bucket = Bucket(loaded.bucket)
        return _at(loaded)

    def _furthest(self, own: StartPoint) -> StartPoint:
        """The checkpoint that is furthest, whosever it is: what lies below it is in one topic or another (B2)."""
        lost: RetentionLost | None = None
        for start in self._candidates(own):
            try:
                self._check(start.marks, start.bucket, self._buckets)
            except RetentionLost as exc:
                lost = lost or exc
                continue
            return start
        assert lost is not None
        raise lost

    def _candidates(self, own: StartPoint) -> Iterator[StartPoint]:
        for peer, loaded in self._store.of_peers(whole=False):
            if loaded.frontier > _frontier(own):
                log.info("starts from a peer's checkpoint", node=self._spec.node, peer=peer, bucket=loaded.frontier)
                yield _at(loaded)
        yield own


def _at(loaded: LoadedCheckpoint) -> StartPoint:
    bucket = Bucket(loaded.bucket)
    if loaded.whole:
        return StartPoint(bucket, loaded.state, loaded.marks)
    return StartPoint(bucket, loaded.state, loaded.marks, Bucket(loaded.said), empty=True)


def _frontier(start: StartPoint) -> Bucket:
    return start.bucket if start.own is None else start.own
