"""Sets of buckets as spans [first, end). Knows nothing else."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

Span = tuple[int, int]


@dataclass
class Spans:
    """Disjoint spans that do not touch, in order (`all`)."""

    all: list[Span] = field(default_factory=list)

    def add(self, first: int, end: int) -> None:
        """And the buckets [first, end), none if that is empty."""
        if end <= first:
            return
        begin = bisect_left(self.all, first, key=lambda span: span[1])
        beyond = bisect_right(self.all, end, key=lambda span: span[0])
        if begin < beyond:
            first, end = min(first, self.all[begin][0]), max(end, self.all[beyond - 1][1])
        self.all[begin:beyond] = [(first, end)]

    def and_those(self, other: Spans) -> Spans:
        """A set of both."""
        both = Spans(list(self.all))
        for first, end in other.all:
            both.add(first, end)
        return both

    def __contains__(self, bucket: int) -> bool:
        at = bisect_right(self.all, bucket, key=lambda span: span[0]) - 1
        return at >= 0 and bucket < self.all[at][1]

    def holes(self, first: int, end: int) -> list[Span]:
        """What of [first, end) is not in the set."""
        found = []
        for begin, beyond in self.all:
            if first < min(begin, end):
                found.append((first, min(begin, end)))
            first = max(first, beyond)
        return [*found, (first, end)] if first < end else found

    @property
    def end(self) -> int | None:
        """The first bucket beyond all of them; None: the set is empty."""
        return self.all[-1][1] if self.all else None
