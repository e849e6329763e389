"""One life of a replica: who it is, where it begins, what it has said (B30, R11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sunion.model import Output, RowOps, State
from sunion.union import Mark


@dataclass(frozen=True, slots=True)
class Identity:
    """Which replica this is: index, incarnation number and random process id (B30)."""

    replica: int
    inc: int
    uid: str


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Where to begin: a checkpoint's content, or the origin with the fragment's initial state.

    A checkpoint of a peer may be ahead of the own topic, which `own` is the first bucket not in: then `outputs` has
    what the peer said of [own, bucket), to be said first, so that the own topic has no hole (B2).
    """

    bucket: int
    state: State
    marks: tuple[Mark, ...] | None = None
    own: int | None = None
    outputs: Mapping[int, Output] = field(default_factory=dict)


@dataclass(slots=True)
class RowCounts:
    """What has left this incarnation, for status."""

    stable_rows: int = 0
    tentative_rows: int = 0
    stable_buckets: int = 0
    tentative_buckets: int = 0

    def stable(self, outputs: Mapping[int, Output], ops: RowOps) -> None:
        """Buckets with output are said as stable."""
        self.stable_buckets += len(outputs)
        self.stable_rows += sum(ops.count(o.rows) for o in outputs.values() if o.rows is not None)

    def tentative(self, output: Output, ops: RowOps) -> None:
        """A bucket is said as tentative."""
        self.tentative_buckets += 1
        self.tentative_rows += 0 if output.rows is None else ops.count(output.rows)
