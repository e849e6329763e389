"""Was everything read? The question that live expiry waits for (protocol R3, B14)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from borealis_py.log.base import EndsQuery, Feed, Lookup, Reader


class EndsWatch:
    """Asks for the ends of feeds, and tells when everything below them has come out of the reader."""

    def __init__(self, lookup: Lookup, reader: Reader) -> None:
        self._lookup = lookup
        self._reader = reader
        self._query: EndsQuery | None = None
        self._targets: dict[Feed, int] | None = None
        self._asked_at = 0

    @property
    def asking(self) -> bool:
        return self._query is not None

    def ask(self, now: int, feeds: Sequence[Feed]) -> None:
        """Begin; a question still open is dropped."""
        self._query, self._targets, self._asked_at = self._lookup.ask_ends(feeds), None, now

    def read_to(self, stopped: Collection[Feed] = ()) -> int | None:
        """When it was asked, once all of it was read; None before. A feed that cannot be reached counts as read."""
        if self._query is None:
            return None
        if self._targets is None:
            answer = self._query.poll()
            if answer is None:
                return None
            self._targets = {feed: end for feed, end in answer.items() if end is not None}
        for feed, end in self._targets.items():
            if feed not in stopped and self._reader.position(feed) < end:
                return None
        self._query = self._targets = None
        return self._asked_at
