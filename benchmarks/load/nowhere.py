"""A log that keeps nothing: what is appended is delivered at once and read back once. Used to measure writers alone."""

from __future__ import annotations

from borealis_py.log.base import GATHERED_US, Delivery, Feed, NewRecord, Record, Wake


class Nowhere:
    """What a publisher needs of `log.base.Log`, for one publisher of one source."""

    def __init__(self) -> None:
        self.end = 0
        self.bytes = 0
        """Of all values so far."""
        self.unread: list[Record] = []

    def reader(self, wake: Wake) -> NowhereReader:
        return NowhereReader(self)

    def appender(self, wake: Wake) -> NowhereAppender:
        return NowhereAppender(self, wake)

    def lookup(self) -> NowhereLookup:
        return NowhereLookup()


class NowhereLookup:
    def bounds(self, feed: Feed) -> tuple[int, int]:
        return 0, 0

    def close(self) -> None:
        pass


class NowhereReader:
    more = False

    def __init__(self, log: Nowhere) -> None:
        self._log = log
        self._position = 0

    def open(self, feed: Feed, offset: int) -> None:
        self._position = offset

    def poll(self) -> list[Record]:
        found, self._log.unread = self._log.unread, []
        self._position += len(found)
        return found

    def hush(
        self,
        feeds: frozenset[Feed],
        gathered: frozenset[Feed] = frozenset(),
        awaited: frozenset[Feed] = frozenset(),
        within_us: int = GATHERED_US,
    ) -> None:
        pass

    def rest(self) -> None:
        pass

    def position(self, feed: Feed) -> int:
        return self._position

    def close(self) -> None:
        pass


class NowhereAppender:
    clock_ahead_us = None
    log_us = None

    def __init__(self, log: Nowhere, wake: Wake) -> None:
        self._log = log
        self._wake = wake
        self._delivered: list[Delivery] = []

    def append(self, record: NewRecord, token: object = None) -> None:
        log = self._log
        log.unread.append(Record(record.feed, log.end, record.timestamp_ms or 0, record.key, record.value))
        self._delivered.append(Delivery(token, log.end))
        log.end += 1
        log.bytes += len(record.value or b"")
        self._wake()

    def deliveries(self) -> list[Delivery]:
        delivered, self._delivered = self._delivered, []
        return delivered

    def flush(self, timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        pass
