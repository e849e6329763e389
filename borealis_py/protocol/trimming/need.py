"""What one replica may still read, as it says itself: its acknowledgement, level 1 of Hwang et al. (R16.2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sunion.units import Bucket, Offset


@dataclass(frozen=True, slots=True, order=True)
class ReplicaName:
    """One replica of an app: the `index`-th of `node`."""

    node: str
    index: int

    def __str__(self) -> str:
        return f"{self.node}.r{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a start from a replica's oldest kept checkpoint reads. Any other start of it reads less (R11.2, R12.2).

    Attributes:
        inc, uid: the incarnation that says it. number: of its acknowledgement within the incarnation, from 1.
        bucket: of that checkpoint, the origin if it may have to start from there. From here on it reads the streams
            of other nodes, writes its own topic, and takes over peers' results (R14).
        offsets: for each source that it reads, by name, the first offset that it reads. A source that is absent may
            be needed whole.
        published: the first bucket that is not published, by the progress that it has read. None: it has read none.
        place: where its checkpoints lie. Replicas with the same place can read each other's. Empty: nobody else can.
    """

    inc: int
    uid: str
    number: int
    bucket: Bucket
    offsets: Mapping[str, Offset]
    published: Bucket | None = None
    place: str = ""

    def counts_after(self, before: Need | None) -> bool:
        """Whether it counts although its replica has said `before`: the highest incarnation does, and the first that
        has a number owns it (B30)."""
        return before is None or self.inc > before.inc or (self.inc, self.uid) == (before.inc, before.uid)


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint that a replica may start from: its `bucket` and, for each source in the node's order, the offset to
    read from (`offsets`)."""

    bucket: Bucket
    offsets: tuple[Offset, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """What all replicas of an app say, as one reader of their acknowledgements knows it.

    Attributes:
        said: the last valid acknowledgement of each replica.
        doubts: replicas whose last acknowledgement cannot be used, and why, in words.
        silent: replicas that have said nothing for so long that live peers may stand for them.
        forgotten: replicas that a user has given up.
        audits: by query, the first offset in each source that its next audit reads; None: what it said last cannot be
            used.
    """

    said: Mapping[ReplicaName, Need] = field(default_factory=dict)
    doubts: Mapping[ReplicaName, str] = field(default_factory=dict)
    silent: frozenset[ReplicaName] = frozenset()
    forgotten: frozenset[ReplicaName] = frozenset()
    audits: Mapping[str, Mapping[str, Offset] | None] = field(default_factory=dict)

    def of(self, node: str) -> list[ReplicaName]:
        """All replicas of a node that have said anything, valid or not."""
        return sorted({name for name in (*self.said, *self.doubts) if name.node == node})


def least(kept: Iterable[KeptCheckpoint], origin: Bucket, sources: int, keep: int) -> KeptCheckpoint:
    """The start that reads most, of the checkpoints that a replica keeps.

    Any of them may turn out to be torn, so a replica with fewer than `keep` may have to start from the origin (R11.2).
    """
    found = sorted(kept, key=lambda k: k.bucket)
    if len(found) < keep:
        return KeptCheckpoint(origin, (Offset(0),) * sources)
    offsets = zip(*(k.offsets for k in found), strict=True)
    return KeptCheckpoint(found[0].bucket, tuple(min(of) for of in offsets))
