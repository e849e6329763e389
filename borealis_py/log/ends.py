"""Was everything read? The question that live expiry waits for (protocol R3, B14)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from borealis_py.log.base import EndsQuery, Feed, Lookup, Reader

LOOK_US = 5_000
"""An answer wakes nobody: whoever asked looks again after this."""
ASK_AGAIN_US = 500_000
"""A feed that has not been read to its end by then may have become unreachable since: ask anew."""


class EndsWatch:
    """Asks for the ends of feeds, and tells when everything below them has come out of the reader."""

    def __init__(self, lookup: Lookup, reader: Reader) -> None:
        self._lookup = lookup
        self._reader = reader
        self._query: EndsQuery | None = None
        self._targets: dict[Feed, int] | None = None
        self._feeds: tuple[Feed, ...] = ()
        self._asked_at = 0
        self._sent_at = 0

    @property
    def asking(self) -> bool:
        return self._query is not None

    @property
    def unanswered(self) -> bool:
        """The log's answer is still to come; look again after `LOOK_US`."""
        return self._query is not None and self._targets is None

    def ask(self, now: int, feeds: Sequence[Feed]) -> None:
        """Begin; a question still open is dropped."""
        self._feeds, self._asked_at = tuple(feeds), now
        self._send(now)

    def _send(self, now: int) -> None:
        self._query, self._targets, self._sent_at = self._lookup.ask_ends(self._feeds), None, now

    def read_to(self, now: int, stopped: Collection[Feed] = ()) -> int | None:
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
                if now - self._sent_at >= ASK_AGAIN_US:
                    self._send(now)
                return None
        self._query = self._targets = None
        return self._asked_at
