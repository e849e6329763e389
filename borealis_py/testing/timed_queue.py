"""What is to be done at later times. Pure."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")


class TimedQueue(Generic[Item]):
    """Items by the times at which they are due; of one time, in the order in which they were added."""

    def __init__(self) -> None:
        self._later: list[tuple[int, int, Item]] = []
        self._number = count()

    def add(self, item: Item, at_us: int) -> None:
        """An item that is due at this time."""
        heapq.heappush(self._later, (at_us, next(self._number), item))

    def take(self, now_us: int) -> list[tuple[int, Item]]:
        """The items that are due, with the times at which they became so; they are gone from here."""
        found = []
        while self._later and self._later[0][0] <= now_us:
            at_us, _, item = heapq.heappop(self._later)
            found.append((at_us, item))
        return found

    @property
    def next_us(self) -> int | None:
        """When the next item is due; None: none is left."""
        return self._later[0][0] if self._later else None

    @property
    def last_us(self) -> int:
        """When the last item is due; 0: none is left."""
        return max((at_us for at_us, _, _ in self._later), default=0)
