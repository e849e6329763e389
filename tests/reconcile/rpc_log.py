"""A log in memory whose letters can be kept back and lost, and a clock that is set by hand."""

from __future__ import annotations

from collections import defaultdict
from threading import Event

from borealis_py.log.base import Feed, NewRecord, OffsetGone, Record, Wake


class HandClock:
    """Time as a test says."""

    def __init__(self) -> None:
        self.us = 1_000_000

    def now_us(self) -> int:
        return self.us

    def wall_us(self) -> int:
        return self.us


class LetterLog:
    """The part of `Log` that letters use; many clients may have it. `held`: feeds whose appends wait for `release`.
    `answers`: while it is clear, questions wait.
    """

    def __init__(self) -> None:
        self.values: dict[Feed, list[bytes]] = defaultdict(list)
        self.held: set[Feed] = set()
        self.gone: set[Feed] = set()
        self.answers = Event()
        self.answers.set()
        self._waiting: list[NewRecord] = []
        self._readers: list[_Reader] = []

    def put(self, record: NewRecord) -> None:
        if record.feed in self.held:
            self._waiting.append(record)
        else:
            self.values[record.feed].append(record.value or b"")
            for reader in self._readers:
                reader.arrived(record.feed)

    def release(self, feed: Feed) -> None:
        """What was kept back arrives."""
        self.held.discard(feed)
        for record in [r for r in self._waiting if r.feed == feed]:
            self.put(record)
        self._waiting = [r for r in self._waiting if r.feed != feed]

    def lookup(self) -> LetterLog:
        return self

    def bounds(self, feed: Feed) -> tuple[int, int]:
        assert self.answers.wait(20)
        return 0, len(self.values[feed])

    def reader(self, wake: Wake) -> _Reader:
        self._readers.append(_Reader(self, wake))
        return self._readers[-1]

    def appender(self, wake: Wake) -> _Appender:
        return _Appender(self)

    def close(self) -> None:
        pass


class _Reader:
    def __init__(self, log: LetterLog, wake: Wake) -> None:
        self._log, self._wake = log, wake
        self._at: dict[Feed, int] = {}

    def arrived(self, feed: Feed) -> None:
        if feed in self._at:
            self._wake()

    def open(self, feed: Feed, offset: int) -> None:
        self._at[feed] = offset
        self._log.gone.discard(feed)

    def poll(self) -> list[Record]:
        found = []
        for feed, at in self._at.items():
            if feed in self._log.gone:
                raise OffsetGone(feed, at)
            new = self._log.values[feed][at:]
            found += [Record(feed, at + n, 0, None, value) for n, value in enumerate(new)]
            self._at[feed] = at + len(new)
        return found

    def close(self) -> None:
        self._at.clear()


class _Appender:
    def __init__(self, log: LetterLog) -> None:
        self._log = log

    def append(self, record: NewRecord, token: object = None) -> None:
        assert token is None
        self._log.put(record)

    def flush(self, timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        pass
