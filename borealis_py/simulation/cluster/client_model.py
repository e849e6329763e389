"""A client's model of the stream: it applies every change, and checks that the changes are consistent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from borealis_py.log.stream import Encoded
from borealis_py.simulation.violation import Violation
from sunion.model import Kind
from sunion.view import Change

_decode = msgspec.json.Decoder(list[list[Any]]).decode


class ClientPicture:
    """A client that applies all changes delivered to it, and checks their consistency."""

    def __init__(self, origin: int) -> None:
        self.start = origin
        self.stable = origin
        self.rows: dict[int, list[list[Any]]] = {}
        self.tentative: set[int] = set()
        self.arrival: dict[int, int] = {}
        self.seen = origin
        self.tentative_seen = 0
        self.missing: dict[int, tuple[str, ...]] = {}
        """For each bucket that was tentative at first: the sources missing in the bucket itself."""
        self.lost: str | None = None
        """Why no more changes are delivered."""
        self.passed_over: list[range] = []
        """Buckets that it never saw as stable, since it fell behind what is kept."""
        self.gaps: list[range] = []
        """Lost buckets, as it was told."""
        self._undone_from: int | None = None

    def begin_anew(self, now_us: int, start: int) -> None:
        """A subscription that begins at bucket `start` follows one that was told that what it needs is gone."""
        gone = range(self.stable, start)
        self.passed_over.append(gone)
        for bucket in gone:
            self.arrival.setdefault(bucket, now_us)
        self.stable, self.seen = start, max(self.seen, start)
        for bucket in self.tentative:
            self.rows.pop(bucket, None)
        self.tentative.clear()
        self._undone_from = None

    def end(self, why: str) -> None:
        """No more changes are delivered: the next data needed is gone."""
        self.lost = why

    def apply(self, now_us: int, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind is Kind.UNDO:
                if change.bucket not in self.tentative:
                    raise Violation("undo", f"UNDO({change.bucket}), of which nothing was shown", change.bucket)
                self._undone_from = change.bucket
            elif change.kind is Kind.REC_DONE:
                left = [b for b in self.tentative if b < change.bucket]
                if left:
                    raise Violation("rec_done", f"REC_DONE({change.bucket}) while {left} are tentative")
                self._undone_from = None
            elif change.kind is Kind.TENTATIVE:
                self._tentative(change)
                self._arrived(now_us, change)
            elif change.kind is Kind.GAP:
                self._gap(change)
                self._arrived(now_us, change)
            else:
                self._stable(change)
                self._arrived(now_us, change)

    def _gap(self, change: Change) -> None:
        """What was tentative stays as it is, and is the last word."""
        if change.bucket != self.stable:
            raise Violation("client", f"gap from bucket {change.bucket}, expected {self.stable}", self.stable)
        self.gaps.append(range(change.bucket, change.end))
        self.tentative = {bucket for bucket in self.tentative if bucket >= change.end}
        self.stable = change.end

    def _tentative(self, change: Change) -> None:
        if change.bucket < self.stable:
            said = f"tentative bucket {change.bucket} below the stable frontier {self.stable}"
            raise Violation("client", said, change.bucket)
        self.tentative_seen += 1
        self.tentative.add(change.bucket)
        self.missing.setdefault(change.bucket, change.missing)
        self._put(change.bucket, change)

    def _stable(self, change: Change) -> None:
        if change.bucket != self.stable:
            raise Violation("client", f"stable bucket {change.bucket}, expected {self.stable}", self.stable)
        replaced = {b for b in self.tentative if b < change.end}
        if replaced and (self._undone_from is None or self._undone_from > min(replaced)):
            raise Violation("undo", f"tentative buckets {sorted(replaced)} replaced without UNDO", min(replaced))
        for bucket in replaced:
            self.rows.pop(bucket, None)
        self.tentative -= replaced
        if change.kind is Kind.STABLE:
            self._put(change.bucket, change)
        self.stable = change.end

    def _put(self, bucket: int, change: Change) -> None:
        rows = change.output.rows
        self.rows.pop(bucket, None)
        if isinstance(rows, Encoded):
            self.rows[bucket] = [row for part in rows.parts for row in _decode(part)]

    def _arrived(self, now_us: int, change: Change) -> None:
        if change.kind is Kind.TENTATIVE:
            self.arrival.setdefault(change.bucket, now_us)
            self.seen = max(self.seen, change.bucket + 1)
            return
        for bucket in range(change.bucket, min(change.end, change.bucket + 10_000)):  # END closes all
            self.arrival.setdefault(bucket, now_us)
        self.seen = max(self.seen, change.end)
