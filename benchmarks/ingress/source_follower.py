"""Reads what ingresses write into sources, as it comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NamedTuple

import numpy as np

from borealis_py.log import topics
from borealis_py.log.base import EndsQuery, Feed, Log
from borealis_py.log.records import BatchHeader, unpack_source
from borealis_py.query.names import part_name

WAIT_S = 0.05


class Copied(NamedTuple):
    """A record of a source: the source's place, its offset, how many rows it has, their largest stime (µs)."""

    place: int
    offset: int
    rows: int
    stime: int


class SourceFollower(AbstractContextManager["SourceFollower"]):
    """Follows the only partition of each of these sources of an app, from its beginning."""

    def __init__(self, log: Log, app: str, sources: list[str]) -> None:
        self.moments: list[list[int]] = []
        """Where the logs ended, of each source, as often as `look` was answered."""
        self._woken = threading.Event()
        self._reader = log.reader(self._woken.set)
        self._lookup = log.lookup()
        self._ends: EndsQuery | None = None
        self._numbers: dict[Feed, int] = {}
        for number, source in enumerate(sources):
            feed = topics.source(app, part_name(source, 0))
            self._numbers[feed] = number
            self._reader.open(feed, 0)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._reader.close()
        self._lookup.close()

    def look(self) -> None:
        """Ask where all logs end now, unless it has been asked and not answered. Does not wait."""
        answer = None if self._ends is None else self._ends.poll()
        if answer is not None and None not in (known := [answer[feed] for feed in self._numbers]):
            self.moments.append([end for end in known if end is not None])
        if answer is not None or self._ends is None:
            self._ends = self._lookup.ask_ends(list(self._numbers))

    def poll(self) -> Iterator[Copied]:
        """Of each record with rows that has come. Waits a moment if there is none."""
        self._woken.clear()
        found = self._reader.poll()
        if not found and not self._reader.more:
            self._woken.wait(WAIT_S)
        for record in found:
            header, _ = unpack_source(record.value)
            if isinstance(header, BatchHeader) and header.stimes:
                stimes = np.frombuffer(header.stimes, "<i8")
                yield Copied(self._numbers[record.feed], record.offset, len(stimes), int(stimes.max()))
