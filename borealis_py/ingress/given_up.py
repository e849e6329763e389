"""The partitions of a foreign topic that no input waits for, and those that it no longer has: it was created again with
fewer.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

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


log = structlog.get_logger(__package__)


class GivenUp:
    """Partitions that users gave up (`skipped`), and those that the topic does not have any more.

    Args:
        name: of the topic, in messages.
    """

    def __init__(self, name: str) -> None:
        self.skipped: frozenset[int] = frozenset()
        self._name = name
        self._look = GonePartitions()
        self._gone = frozenset[int]()

    @property
    def partitions(self) -> frozenset[int]:
        """All of them."""
        return self._gone | self.skipped

    def all_of(self, partitions: Iterable[int]) -> bool:
        """Whether these are some, and all are given up."""
        known = frozenset(partitions)
        return bool(known) and known <= self.partitions

    def counted(self, known: Iterable[int], count: int, counted_us: int) -> None:
        """The topic has so many partitions; see `GonePartitions.look`."""
        gone = self._look.look(known, count, counted_us)
        if gone - self._gone:
            log.error(
                f"{self._name} has fewer partitions than before, so it was deleted and created again: no input "
                "waits for those that are gone",
                partitions=sorted(gone - self._gone),
            )
        self._gone = gone
