"""The partitions of a foreign topic that no input waits for."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from borealis_py.ingress.gone_partitions import GonePartitions

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
