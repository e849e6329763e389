"""Digests of the stable buckets that a replica emitted: replicas compare them, since equal input must give equal rows
(R15.1).

Only what this replica computed counts. What it took over from a peer has no digest: absent is never different.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from sunion.model import Output, RowOps

TOLD_MAX = 64
"""The most digests in one heartbeat: the newest."""
KEPT_MAX = 1_024
"""How many told digests a replica keeps, so that a peer that lags, or corrects, is compared too."""
DIGEST_CHARS = 16
"""Length of the digest of a bucket with content."""
EMPTY = ""
"""The digest of buckets without rows and dead letters."""


class Digest(NamedTuple):
    """What a replica emitted for buckets [first, end): `digest` of one bucket's content, or `EMPTY` for a run of
    buckets that have none."""

    first: int
    end: int
    digest: str


class DigestPair(NamedTuple):
    """Two digests of the same `bucket`: the own one and a peer's; `EMPTY`: no rows."""

    bucket: int
    own: str
    peer: str


class StableDigests:
    """Digests of the stable buckets of one incarnation, in order.

    They are computed when they are told, and only the newest: catching up costs nothing for buckets that are not told.
    """

    def __init__(self, ops: RowOps) -> None:
        self._ops = ops
        self._untold: deque[tuple[int, int, Output | None]] = deque(maxlen=TOLD_MAX)
        self._kept: deque[Digest] = deque(maxlen=KEPT_MAX)

    def said(self, first: int, end: int, output: Output | None) -> None:
        """Buckets [first, end) were emitted as stable: one with `output`, or a run without any (None)."""
        if output is None or (not output.rejects and (output.rows is None or not self._ops.count(output.rows))):
            output = None
            if self._untold and self._untold[-1][1] == first and self._untold[-1][2] is None:
                first = self._untold.pop()[0]  # one run
        self._untold.append((first, end, output))

    def tell(self) -> tuple[Digest, ...]:
        """The digests since the last call, for the heartbeat; they are kept to compare a peer's with."""
        found = tuple(Digest(first, end, self._of(output)) for first, end, output in self._untold)
        self._untold.clear()
        self._kept.extend(found)
        return found

    def forget(self) -> None:
        """Compare only what is emitted from now on."""
        self._untold.clear()
        self._kept.clear()

    def difference(self, theirs: Iterable[Digest]) -> DigestPair | None:
        """The first bucket in which a peer emitted something else; None: none that both have told."""
        found = [at for at in map(self._differs, theirs) if at is not None]
        return min(found, default=None)

    def _differs(self, their: Digest) -> DigestPair | None:
        if not self._kept or their.end <= self._kept[0].first:
            return None
        least = None
        for own in reversed(self._kept):
            if own.end <= their.first:
                break
            if own.first < their.end and own.digest != their.digest:  # at most one of the two is a run of many
                least = DigestPair(max(own.first, their.first), own.digest, their.digest)
        return least

    def _of(self, output: Output | None) -> str:
        if output is None:
            return EMPTY
        digest = hashlib.blake2b(digest_size=DIGEST_CHARS // 2)
        for reject in output.rejects:  # not the reason: its words may quote more than values
            digest.update(f"{reject.source}\0{reject.offset}\0{reject.seq}\0".encode())
        if output.rows is not None and self._ops.count(output.rows):
            digest.update(self._ops.digest(output.rows))
        return digest.hexdigest()
