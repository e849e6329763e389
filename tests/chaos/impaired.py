"""Who was impaired when, and what follows for the bound: pure.

The bound is promised while one replica of each node, the log and a subscriber are well (RELIABILITY.md). Times when all
of such a group are impaired are blackouts. One source always speaks: no fault silences all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from borealis_py.verify.evidence import Blackout


@dataclass(frozen=True)
class Group:
    """Of which one must be well for the bound to be promised. `why`: what it is called when none is.

    `partition`: of the query, the bound of which depends on it; None: that of all.
    """

    why: str
    members: tuple[str, ...]
    partition: int | None = None


@dataclass
class Impaired:
    """Several may impair the same: it is well when all have ended."""

    _spans: dict[str, list[list[int | None]]] = field(default_factory=dict)

    def begin(self, what: str, at_us: int) -> int:
        """From now on. Returns a ticket for `end`."""
        spans = self._spans.setdefault(what, [])
        spans.append([at_us, None])
        return len(spans) - 1

    def end(self, what: str, ticket: int, at_us: int) -> None:
        """It is well, as far as this one is concerned."""
        self._spans[what][ticket][1] = at_us

    def now(self, what: str) -> bool:
        return any(end is None for _, end in self._spans.get(what, ()))

    def blackouts(self, groups: Sequence[Group], until_us: int) -> list[Blackout]:
        """When all of a group were impaired at once."""
        found = []
        for group in groups:
            for begin, end in _common([self._whole(m, until_us) for m in group.members]):
                found.append(Blackout(begin, end, group.why, group.partition))
        return sorted(found, key=lambda b: b.from_us)

    def _whole(self, what: str, until_us: int) -> list[tuple[int, int]]:
        return [(b or 0, until_us if e is None else e) for b, e in self._spans.get(what, ())]


def _common(spans: Sequence[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Where each of several lists of spans has one; spans that touch are one."""
    edges = sorted({at for of in spans for span in of for at in span})
    out: list[tuple[int, int]] = []
    for begin, end in pairwise(edges):
        if all(any(b <= begin and end <= e for b, e in of) for of in spans):
            if out and out[-1][1] == begin:
                out[-1] = out[-1][0], end
            else:
                out.append((begin, end))
    return out
