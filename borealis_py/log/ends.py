"""Has everything been read? Buckets that run live wait for the answer (R3.2, B14)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from borealis_py.log.base import EndsQuery, Feed, Lookup, Reader
from sunion.units import MonotonicUs

LOOK_US = 5_000
"""An answer triggers no wake-up, so the asker polls again after this time."""
GIVE_UP_US = 200_000
"""A feed is cut off, that is, counts as read, if it does not report its end within this time or makes no progress
towards it for as long. Polls that leave records do not count, up to `FULL_POLLS` of them: its own may be among those.

X has no more time for it than the slack, which must exceed this.
"""
FULL_POLLS = 10
"""A reader that never gets to the end of what arrives must not wait for a lost feed for ever."""
FIRST_US = 1_000_000
"""The very first query may take this long, because it looks up the brokers."""
CUT_OFF_US = 2_000_000
"""For how long a feed that was cut off is not waited for again, unless something is read from it earlier."""


@dataclass(slots=True)
class _Way:
    """A feed on the way from its position to its end: where it stood, since when, and after how many full polls."""

    end: int
    position: int
    since: int
    full: int = 0


class EndsWatch:
    """Queries the ends of feeds, and reports when everything below them has been read.

    Feeds that are cut off are not queried; otherwise one of them would delay every bucket again.
    """

    def __init__(self, lookup: Lookup, reader: Reader) -> None:
        self._lookup = lookup
        self._reader = reader
        self._query: EndsQuery | None = None
        self._ways: dict[Feed, _Way] | None = None
        self._asked: list[Feed] = []
        self._asked_at = MonotonicUs(0)
        self._patience_us = FIRST_US
        self._cut_off: dict[Feed, tuple[int, int]] = {}  # (its position, since when)

    @property
    def asking(self) -> bool:
        return self._query is not None

    @property
    def unanswered(self) -> bool:
        """The log has not answered yet; poll again after `LOOK_US`."""
        return self._query is not None and self._ways is None

    def ask(self, now: MonotonicUs, feeds: Sequence[Feed]) -> None:
        """Start a query; one still open is dropped."""
        self._cut_off = {
            feed: (position, since)
            for feed, (position, since) in self._cut_off.items()
            if feed in feeds and self._reader.position(feed) == position and now - since < CUT_OFF_US
        }
        self._asked = [feed for feed in feeds if feed not in self._cut_off]
        self._query, self._ways, self._asked_at = self._lookup.ask_ends(self._asked), None, now

    def read_to(self, now: MonotonicUs, stopped: Collection[Feed] = ()) -> MonotonicUs | None:
        """The time of the query, once everything below the ends was read; None before. A feed that is cut off counts as
        read.
        """
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
        self._give_up(self._asked_at, (feed for feed, end in ends.items() if end is None))
        return {feed: _Way(end, self._reader.position(feed), now) for feed, end in ends.items() if end is not None}

    def _read(self, now: int, feed: Feed, way: _Way) -> bool:
        position = self._reader.position(feed)
        if position >= way.end:
            return True
        if position > way.position:
            way.position, way.since, way.full = position, now, 0
        elif self._reader.more and way.full < FULL_POLLS:
            way.since, way.full = now, way.full + 1
        elif now - way.since >= GIVE_UP_US:
            self._give_up(way.since, [feed])
            return True
        return False

    def _give_up(self, since: int, feeds: Iterable[Feed]) -> None:
        """They are cut off. `since`: nothing is known of them after that: the asker may have been away until now."""
        for feed in feeds:
            self._cut_off[feed] = self._reader.position(feed), since
