"""What a process says that begins with nothing where its inputs stand (R18.3), judged by what it has read."""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.log.records import GapHeader, TentativeHeader
from borealis_py.simulation.cluster.recorder import Recording
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.place import ReplicaPlace
from sunion.model import FOREVER


@dataclass
class Frontiers:
    """The next bucket to be emitted as stable, and the next one to be emitted at all."""

    stable: int
    live: int


class Lacking:
    """What it lacks, and how far it has said so.

    Attributes:
        diverged: a bucket ran live, and it has not been corrected since, as far as can be seen.
    """

    def __init__(self, place: ReplicaPlace, heard: Recording, at: Frontiers) -> None:
        self.diverged = False
        self._place = place
        self._heard = heard
        self._at = at
        self._arrived = not heard.arrives
        self._first = heard.says_from
        self._begins = 0
        self._whole = 0

    @property
    def unseen(self) -> bool:
        """Whether its stable frontier moves unseen: it arrives, or what it runs stands on lost buckets."""
        return not self._arrived or self._at.stable < self._whole

    @property
    def quiet(self) -> bool:
        """Whether it says nothing below its start, and nothing of what it runs stands on lost buckets."""
        return self._arrived and self._whole <= self._first

    def since(self, header: TentativeHeader) -> int:
        """Since when the state has diverged, by a result that stands on lost buckets. FOREVER: it tells only where
        buckets below `says_from` ran unseen."""
        return header.diverged_from if self._begins <= header.diverged_from < self._first else FOREVER

    def turn(self, number: int, complete: int) -> None:
        """It has read what this turn reads. What is complete is left out until it arrives."""
        if self._arrived:
            return
        at, placed = self._at, self._heard.placed
        if placed is None or number <= placed:
            at.stable = at.live = max(at.stable, complete)
        if number == self._heard.arrived:
            self._arrived, self._begins = True, at.stable
            origin = at.stable == self._place.origin
            self._whole = at.stable if origin else at.stable + self._place.span - 1

    def lost(self, complete: int, header: GapHeader) -> None:
        """It says that buckets are lost."""
        at, begins = self._at, max(self._first, self._begins)
        spans = [(self._first, self._begins), (begins, self._whole)]
        there = max(complete, self._heard.bucket)
        if not self._arrived or (header.first, header.end) not in spans or header.end > there:
            said = f"{self._heard.name}: {header}, arrived {self._arrived}, complete is {complete}, may be {spans}"
            raise Violation("gap", said, header.first)
        if header.end == self._whole:
            at.stable = self._whole
            at.live = max(at.live, at.stable)

    def takes(self, header: TentativeHeader) -> bool:
        """Whether a tentative result stands on lost buckets."""
        return self._arrived and header.bucket < self._whole

    def judge(self, header: TentativeHeader) -> None:
        """Raises Violation: it does not say that nobody knows what it lacks, or is said again."""
        bucket = header.bucket
        sources = {name for of, _ in self._place.inputs for name in self._place.origins.get(of, (of,))}
        right = set(header.missing_sources) == sources and header.completeness == 0
        if not right or header.diverged_from > self._first or bucket < self._at.live:
            said = f"{self._heard.name}: bucket {bucket} stands on lost ones, and says {header}"
            raise Violation("labels", said, bucket)
