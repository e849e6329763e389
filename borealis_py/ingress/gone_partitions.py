"""Partitions that a topic had, and has no more: it was deleted and created again with fewer. Pure."""

from __future__ import annotations

from collections.abc import Iterable

GONE_US = 10_000_000
"""For how long the broker must tell of fewer partitions: right after a topic has grown, some broker may not know."""


class GonePartitions:
    """Tells which partitions no input need wait for, since the topic does not have them any more."""

    def __init__(self) -> None:
        self._since_us: dict[int, int] = {}
        """When the first of the questions was asked in whose answers the partition was not."""

    def look(self, known: Iterable[int], count: int, counted_us: int) -> frozenset[int]:
        """Which of the `known` partitions are gone.

        Args:
            count: of partitions, as the broker told when it was asked at `counted_us`. 0: there is no topic, which may
                come back as it was.
        """
        if count:
            self._since_us = {p: self._since_us.get(p, counted_us) for p in known if p >= count}
        return frozenset(p for p, since in self._since_us.items() if count and counted_us - since >= GONE_US)
