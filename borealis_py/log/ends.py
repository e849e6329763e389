"""Was everything read? The question that live expiry waits for (R3, B14)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from borealis_py.log.base import EndsQuery, Feed, Lookup, Reader

LOOK_US = 5_000
"""An answer wakes nobody: whoever asked looks again after this."""
GIVE_UP_US = 200_000
"""A feed that has not told its end by then, or has not come nearer to it for as long, is cut off: it counts as read.

X has no more time for it than the slack, which this must stay below."""
FIRST_US = 1_000_000
"""The first question of all may take so long: it looks the brokers up."""
CUT_OFF_US = 2_000_000
"""For how long nobody waits for it again, unless something is read from it before."""


@dataclass(slots=True)
class _Way:
    """From a feed's position to its end: where it stood, and since when."""

    end: int
    position: int
    since: int


class EndsWatch:
    """Asks for the ends of feeds, and tells when everything below them has come out of the reader.

    Feeds that are cut off are not asked, or one of them would hold up every bucket anew.
    """

    def __init__(self, lookup: Lookup, reader: Reader) -> None:
        self._lookup = lookup
        self._reader = reader
        self._query: EndsQuery | None = None
        self._ways: dict[Feed, _Way] | None = None
        self._asked: list[Feed] = []
        self._asked_at = 0
        self._patience_us = FIRST_US
        self._cut_off: dict[Feed, tuple[int, int]] = {}  # (its position, since when)

    @property
    def asking(self) -> bool:
        return self._query is not None

    @property
    def unanswered(self) -> bool:
        """The log's answer is still to come; look again after `LOOK_US`."""
        return self._query is not None and self._ways is None

    def ask(self, now: int, feeds: Sequence[Feed]) -> None:
        """Begin; a question still open is dropped."""
        self._cut_off = {
            feed: (position, since)
            for feed, (position, since) in self._cut_off.items()
            if feed in feeds and self._reader.position(feed) == position and now - since < CUT_OFF_US
        }
        self._asked = [feed for feed in feeds if feed not in self._cut_off]
        self._query, self._ways, self._asked_at = self._lookup.ask_ends(self._asked), None, now

    def read_to(self, now: int, stopped: Collection[Feed] = ()) -> int | None:
        """When it was asked, once all of it was read; None before. A feed that is cut off counts as read."""
        if self._query is None:
            return None
        if self._ways is None:
            self._ways = self._answered(now, self._query, stopped)
        if self._ways is None:
            return None
        unread = [f for f, way in self._ways.items() if f not in stopped and not self._read(now, f, way)]
        if unread:
            return None
        self._query = self._ways = None
        return self._asked_at

    def _answered(self, now: int, query: EndsQuery, stopped: Collection[Feed]) -> dict[Feed, _Way] | None:
        answer = query.poll()
        if answer is None:
            if now - self._asked_at < self._patience_us:
                return None
            answer = {}
        self._patience_us = GIVE_UP_US
        ends = {feed: answer.get(feed) for feed in self._asked if feed not in stopped}
        self._give_up(now, (feed for feed, end in ends.items() if end is None))
        return {feed: _Way(end, self._reader.position(feed), now) for feed, end in ends.items() if end is not None}

    def _read(self, now: int, feed: Feed, way: _Way) -> bool:
        position = self._reader.position(feed)
        if position >= way.end:
            return True
        if position > way.position:
            way.position, way.since = position, now
        elif now - way.since >= GIVE_UP_US:
            self._give_up(now, [feed])
            return True
        return False

    def _give_up(self, now: int, feeds: Iterable[Feed]) -> None:
        for feed in feeds:
            self._cut_off[feed] = self._reader.position(feed), now
