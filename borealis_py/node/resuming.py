"""Finds out how far the corrected stream is written, in the writer's thread, after it has fenced (R10.2).

Progress may be ahead of what this replica's inputs close: the last writer had read more of them, or the record is
garbage. No replica publishes a bucket that its inputs leave open, so the two cases can be told apart once everything is
read that the inputs held when the writer asked. Until then nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import structlog

from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, Lookup, Mend
from borealis_py.log.corrected import Progress
from borealis_py.log.description import Life, OtherLife, OtherVersion, check_life
from borealis_py.log.mending import Mender
from borealis_py.log.progress import ProgressLost, Published
from borealis_py.node.spec import ReplicaSpec

log = structlog.get_logger(__package__)


class Inputs(Protocol):
    """What `Resuming` needs of the reading side."""

    def has_read(self, ends: Mapping[Feed, int]) -> bool:
        """Whether everything below these offsets has been read."""


@dataclass(slots=True)
class _Doubt:
    """Progress beyond what the inputs close, or an acknowledged one (`Published.floor`).

    Attributes:
        said: the progress. ends: where the inputs ended when it was read.
        settled: everything below `ends` has been read.
    """

    said: int
    ends: Mapping[Feed, int]
    settled: bool = False


class Resuming:
    """`log.base.Resume` of one replica. Called in the writer's thread; `turned` in the replica's, after each turn.

    Attributes:
        ended: why this replica must end, found by the writer's thread; None: it need not.
    """

    def __init__(self, spec: ReplicaSpec, closed: int) -> None:
        self.ended: Exception | None = None
        self._spec = spec
        self._closed = closed
        self._doubts: tuple[_Doubt, ...] = ()

    @property
    def doubts(self) -> bool:
        """Whether inputs must be read on to judge the progress; a replica that has read more may publish meanwhile."""
        return any(not doubt.settled and doubt.said > self._closed for doubt in self._doubts)

    def turned(self, closed: int, inputs: Inputs) -> None:
        """A turn is over: the inputs close the buckets below `closed`, as far as they have been read."""
        self._closed = closed
        for doubt in self._doubts:
            doubt.settled = doubt.settled or inputs.has_read(doubt.ends)

    def __call__(self, lookup: Lookup) -> int | None:
        """The first bucket that is not published; None: nothing was ever published.

        `--reset` deletes the description, fences all writers, and describes the app anew. A writer that it did not
        fence finds another description here, or none, before it writes anything.

        Raises:
            LogError: it cannot be found out now.
        """
        with self._after_fence(lookup):
            return self._upto(lookup)

    def unended(self, lookup: Lookup, raw: Lookup) -> int | None:
        """The offset up to which an unended transaction of this node is written; None: none. Raises LogError."""
        spec = self._spec
        feed = topics.corrected(spec.app, spec.node) if spec.corrected else spec.progress_feed
        end = raw.bounds(feed)[1]
        return end if lookup.bounds(feed)[1] < end else None

    def mend(self, lookup: Lookup, raw: Lookup, known: int | None, progress: Callable[[int], Progress]) -> Mend | None:
        """See `Mender.next`. Raises LogError: it cannot be found out now."""
        with self._after_fence(lookup):
            return Mender(self._published(), self._upto, known, progress).next(lookup, raw)

    def _upto(self, lookup: Lookup) -> int | None:
        published = self._published()
        said = published.said(lookup)
        if said is not None and said <= self._closed:
            return said
        told = [bucket for bucket in (said, published.floor(lookup)) if bucket is not None]
        self._doubts = tuple(doubt for doubt in self._doubts if doubt.said in told)
        for ahead in told:
            if ahead > self._closed and not self._is_garbage(ahead, lookup):
                query, closed = self._spec.node, self._closed
                raise LogError(f"{query}: progress is at bucket {ahead}, the inputs close only up to {closed}")
        return published.upto(lookup, self._closed)

    def _published(self) -> Published:
        spec = self._spec
        return Published(spec.app, spec.node, spec.corrected, Life(spec.app_uid), spec.origin, spec.gap)

    @contextmanager
    def _after_fence(self, lookup: Lookup) -> Iterator[None]:
        try:
            check_life(lookup, self._spec.app, self._spec.app_uid)
            yield
        except (OtherLife, OtherVersion, ProgressLost) as exc:
            self.ended = exc
            raise LogError(str(exc)) from exc

    def _is_garbage(self, said: int, lookup: Lookup) -> bool:
        doubt = next((doubt for doubt in self._doubts if doubt.said == said), None)
        if doubt is None:
            feeds = [feed for i in range(len(self._spec.inputs)) for feed in self._spec.feeds(i)]
            self._doubts += (_Doubt(said, {feed: lookup.bounds(feed)[1] for feed in feeds}),)
            log.info(
                "progress is ahead of the inputs: reading the inputs further before publishing",
                node=self._spec.node,
                progress=said,
            )
            return False
        if doubt.settled:
            log.warning(
                "progress record ignored: it is ahead of what the inputs close", node=self._spec.node, progress=said
            )
        return doubt.settled
