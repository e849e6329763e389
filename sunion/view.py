"""The consumer's view of a replicated stream: what a subscriber is told, made from what its reader read (B40).

A stable bucket replaces whatever tentative rows the consumer holds for it. UNDO and REC_DONE are the view's own: no
replica's marks are passed on, so a replica that dies or a reader that starts late leaves nobody waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sunion.errors import IllegalTransition
from sunion.model import Kind, Output, TentativeBucket


@dataclass(frozen=True, slots=True)
class Change:
    """One change to a consumer's picture of the stream, for buckets [bucket, end).

    STABLE, BOUNDARY (stable and empty), TENTATIVE: `output` is what those buckets hold from now on. UNDO: tentative
    rows from `bucket` on are about to be replaced. REC_DONE: everything below `bucket` is stable.
    """

    kind: Kind
    bucket: int
    end: int
    output: Output = field(default_factory=Output)
    completeness: float = 1.0
    missing_sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    diverged_from: int | None = None


class View:
    """Turns stable and tentative buckets into changes.

    `stable`: first bucket not stable. `live`: next bucket to show. `shown`: end of the tentative buckets delivered.
    """

    def __init__(self, start: int) -> None:
        self.stable = start
        self.live = start
        self.shown = start
        self._undone = False

    def stable_run(self, bucket: int, end: int, output: Output) -> list[Change]:
        """Buckets [bucket, end) became stable. Raises IllegalTransition unless they come in order, each once."""
        if bucket != self.stable or end <= bucket:
            raise IllegalTransition(f"stable [{bucket}, {end}) at stable frontier {self.stable}")
        changes = []
        if bucket < self.shown and not self._undone:
            self._undone = True
            changes.append(Change(Kind.UNDO, bucket, bucket))
        empty = output.rows is None
        changes.append(Change(Kind.BOUNDARY if empty else Kind.STABLE, bucket, end, output))
        self.stable = end
        self.live = max(self.live, end)
        if self._undone and end >= self.shown:
            self._undone = False
            changes.append(Change(Kind.REC_DONE, end, end))
        return changes

    def tentative_bucket(self, said: TentativeBucket) -> list[Change]:
        """A tentative bucket is shown. Raises IllegalTransition below what was shown already."""
        bucket = said.bucket
        self.pass_over(bucket)
        self.shown = bucket + 1
        of = said.completeness, said.missing_sources, said.missing, said.diverged_from
        return [Change(Kind.TENTATIVE, bucket, bucket + 1, said.output, *of)]

    def pass_over(self, bucket: int) -> None:
        """Nobody has said anything of this bucket in time: go on to the next."""
        if bucket != self.live:
            raise IllegalTransition(f"bucket {bucket} at live frontier {self.live}")
        self.live = bucket + 1
