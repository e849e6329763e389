"""Reads stable rows that are still to be published and are in memory no longer (R10)."""

from __future__ import annotations

from contextlib import closing

from borealis_py.log.base import Log, LogError
from borealis_py.log.kernel import Kernel
from borealis_py.log.stream_topics import StreamGap
from borealis_py.node.peers import asked, said_by, topics_of
from borealis_py.node.spec import ReplicaSpec
from sunion.errors import RetentionLost
from sunion.model import Output


class NeverPublished(RetentionLost):
    """Stable buckets that the corrected stream lacks are neither in memory nor in the log: a restart will not help."""


class _InGap(LogError):
    """Bucket and all up to `end` are in a gap, and in no topic as stable."""

    def __init__(self, end: int) -> None:
        super().__init__(f"lost up to bucket {end}")
        self.end = end


class Unpublished:
    """Reads stable rows that are to be published but left memory, or were emitted by an earlier incarnation (R10.5)."""

    def __init__(self, spec: ReplicaSpec, log_: Log, kernel: Kernel) -> None:
        self._spec = spec
        self._log = log_
        self._kernel = kernel
        self._replicas = asked(spec, spec.replica)
        self._lost: NeverPublished | None = None

    def portion(self, first: int, end: int) -> tuple[dict[int, Output], int, bool]:
        """As `said`; the last value: bucket `first` and all up to the end are lost, and in no topic as stable
        (R18.7)."""
        try:
            return *self.said(first, end), False
        except _InGap as gap:
            return {}, gap.end, True

    def said(self, first: int, end: int) -> tuple[dict[int, Output], int]:
        """The output for buckets [first, end) from the own topic, and from other replicas' where that has a hole:
        stable output is the same.

        Called in the writer's thread; if no replica has bucket `first` any more, `check` raises that in the turn.

        Returns:
            As much as fits one transaction and lies in the topics, and the bucket up to which it reaches.

        Raises:
            LogError: it cannot be read, now or ever; if bucket `first` is lost, `_InGap`.
        """
        spec = self._spec
        with closing(self._log.lookup()) as lookup:
            try:
                return said_by(spec, self._replicas, lookup, self._kernel, first, end, spec.timing.publish_most)
            except StreamGap as exc:
                why = f"{spec.node}: not all is published yet: {exc}"
            parts = topics_of(spec, self._replicas, lookup, self._kernel)
            lost_to = min(part.lost_to(first, end) for part in parts) if spec.gap else first
            if lost_to > first:
                raise _InGap(lost_to)
            if any(part.lost(first, spec.recovery.stands_by) for part in parts):
                self._lost = NeverPublished(f"{why} any more (retention). `--reset` starts the app anew")
        raise LogError(why)

    def check(self) -> None:
        """Raises NeverPublished: no replica's topic holds the rows that must be published next."""
        if self._lost is not None:
            raise self._lost
