"""Reads what ingresses write into sources, as it comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType

import numpy as np

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log
from borealis_py.log.records import BatchHeader, unpack_source
from borealis_py.query.names import part_name

WAIT_S = 0.05


class SourceFollower(AbstractContextManager["SourceFollower"]):
    """Follows the only partition of each of these sources of an app, from its beginning."""

    def __init__(self, log: Log, app: str, sources: list[str]) -> None:
        self._woken = threading.Event()
        self._reader = log.reader(self._woken.set)
        self._numbers: dict[Feed, int] = {}
        for number, source in enumerate(sources):
            feed = topics.source(app, part_name(source, 0))
            self._numbers[feed] = number
            self._reader.open(feed, 0)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._reader.close()

    def poll(self) -> Iterator[tuple[int, int, int]]:
        """Of each record with rows that has come: the source's place, how many rows, their largest stime. Waits a
        moment if there is none.
        """
        self._woken.clear()
        found = self._reader.poll()
        if not found and not self._reader.more:
            self._woken.wait(WAIT_S)
        for record in found:
            header, _ = unpack_source(record.value)
            if isinstance(header, BatchHeader) and header.stimes:
                stimes = np.frombuffer(header.stimes, "<i8")
                yield self._numbers[record.feed], len(stimes), int(stimes.max())
