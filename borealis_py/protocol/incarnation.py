"""One incarnation of a replica: its identity, where it begins, and the records that describe it (B30, R7, R11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from borealis_py.protocol.states import ReplicaState
from sunion.digests import Digest
from sunion.units import NOWHERE, Bucket, Offset

if TYPE_CHECKING:  # who only decodes a heartbeat loads no SUnion
    from sunion.model import Output, RowOps, State
    from sunion.union import Mark


def why_shared(replica: int, inc: int, uid: str) -> str:
    """Why a replica starts again with a number of its own: another process, `uid`, has `inc`, too (B30)."""
    return f"replica {replica}: {uid} has incarnation {inc}, too"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which replica this is (B30).

    Attributes:
        replica: its index, from 0. inc: number of the incarnation; it grows with each start.
        uid: random id of this incarnation. app_uid: of the app's present life; records of other lives are ignored.
    """

    replica: int
    inc: int
    uid: str
    app_uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a replica reports in the control topic, partition of its node, key `<node>/<replica>` (R7).

    Attributes:
        app_uid, replica, inc, uid: its `Identity`. state: value of a `ReplicaState`.
        ack_s: first bucket that its own topic does not hold as stable. ack_l: first that it does not hold at all.
        asking: it asks to correct.
        ask_offset: offset in the control log of the first heartbeat of this run of asking; None: not read back yet.
        progress: first bucket that is not in the corrected stream, as far as known.
        checkpoint_bucket: first bucket not in its newest durable checkpoint; -1: it has none (its status then says 0).
        runs: it speaks for its node, or all do; False: it stands by (R17.1).
        digests: of the stable buckets emitted since the heartbeat before, the newest 64 at most (R15.1).
    """

    app_uid: str
    replica: int
    inc: int
    uid: str
    state: str
    ack_s: Bucket
    ack_l: Bucket
    asking: bool
    ask_offset: Offset | None = None
    progress: Bucket
    checkpoint_bucket: Bucket = NOWHERE
    runs: bool = True
    digests: tuple[Digest, ...] = ()

    @property
    def recovering(self) -> bool:
        """It has not caught up since its start (R11.3)."""
        return self.state == ReplicaState.RECOVERING.value


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two replicas emitted different rows for one stable bucket (R15.2).

    Attributes:
        bucket: the first in which they were seen to differ.
        replica: the one that noticed. digest: of what it emitted; empty: no rows.
        peer: the other one. peer_digest: of what that one emitted.
        node: whose replicas they are; empty: the node that this is about.
    """

    bucket: int
    replica: int
    digest: str
    peer: int
    peer_digest: str
    node: str = ""

    def __str__(self) -> str:
        of, own, other = (
            f" of {self.node}" if self.node else "",
            self.digest or "no rows",
            self.peer_digest or "no rows",
        )
        return (
            f"replicas {self.replica} and {self.peer}{of} emitted different rows for stable bucket {self.bucket} "
            f"({own}, {other})"
        )


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Where to begin: a checkpoint's content, or the origin with the fragment's initial state.

    Attributes:
        bucket: first bucket to run. state: the fragment's state before it.
        marks: where to read each source from; None: from its beginning.
        own: first bucket that the replica says. A peer's checkpoint may be ahead of what its own topic holds; what it
            gives before its state is whole again is not the result (R17.14). None: `bucket`.
        empty: `state` is the one before the first bucket.
        outputs: what the peer emitted for [own, bucket). The replica emits it first, so that its own topic has no hole
            (B2).
        present: leave out what the inputs hold now, and run from the first bucket that is not complete then (R18.3).
            `own`: the first bucket that nobody has said; what is left out from there on is lost.
    """

    bucket: Bucket
    state: State
    marks: tuple[Mark, ...] | None = None
    own: Bucket | None = None
    outputs: Mapping[int, Output] = field(default_factory=dict)
    empty: bool = False
    present: bool = False


@dataclass(slots=True)
class RowCounts:
    """What this incarnation has emitted, for its status: rows in stable buckets (`stable_rows`) and in tentative ones
    (`tentative_rows`); `stable_buckets` with output; `tentative_buckets`, empty ones too."""

    stable_rows: int = 0
    tentative_rows: int = 0
    stable_buckets: int = 0
    tentative_buckets: int = 0

    def stable(self, outputs: Mapping[int, Output], ops: RowOps) -> None:
        """Count buckets with output that were emitted as stable."""
        self.stable_buckets += len(outputs)
        self.stable_rows += sum(ops.count(o.rows) for o in outputs.values() if o.rows is not None)

    def tentative(self, output: Output, ops: RowOps) -> None:
        """Count a bucket that was emitted as tentative."""
        self.tentative_buckets += 1
        self.tentative_rows += 0 if output.rows is None else ops.count(output.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReport:
    """One input of a replica. `name`: of the source, or of the node whose stream it is.

    Attributes:
        closed: first bucket that it leaves open. late: all its feeds are LATE (R3.4). ended: it has sent its END.
        tuples: rows that this incarnation took from it. rejected: its dead letters.
        lateness_us: how late rows may come, as the source's publisher declares it; 0 for a stream.
        late_us: how late rows came: 50 %, 99 % and all of them by at most so many microseconds; 0 for a stream.
    """

    name: str
    closed: Bucket
    late: bool
    ended: bool
    tuples: int
    rejected: int
    lateness_us: int = 0
    late_us: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """Where a replica stands, for `node.reporter`.

    Attributes:
        identity: of its incarnation. state: value of a `ReplicaState`. f_s, f_l: the frontiers (R2, R3).
        asking: it asks to correct. granted: it may (R4.2).
        head: the replica that has asked longest; None: no replica asks.
        writer: value of a `publishing.Phase`. progress: first bucket not in the corrected stream, as far as known.
        counts: what this incarnation has emitted. inputs: in the node's order.
        disagreement: because of which nothing is published; None: there is none.
        lost: buckets [first, end) that it found lost when it started (R18.3); None: none.
    """

    identity: Identity
    state: str
    f_s: Bucket
    f_l: Bucket
    asking: bool
    granted: bool
    head: int | None
    writer: str
    progress: Bucket
    counts: RowCounts
    inputs: tuple[InputReport, ...]
    disagreement: Disagreement | None = None
    lost: tuple[Bucket, Bucket] | None = None
