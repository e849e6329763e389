"""What a tentative result says of itself: what it lacked, how complete it is, since when its state has diverged (B17).

A result of bucket b depends on the buckets [b - lookback, b]. Those that ran before the state diverged were complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What one bucket had of its inputs when it ran.

    `missing`: the sources that had not said it. `missing_sources`: those, and what tentative words that it used lacked.
    `completeness`: mean over its inputs of 1 (stable), 0 (missing) or the tentative word's own. `diverged_from`: lowest
    of those words'; None: it used none.
    """

    missing: tuple[str, ...]
    missing_sources: tuple[str, ...]
    completeness: float
    diverged_from: int | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """Of one tentative result, over all that it depends on."""

    missing_sources: tuple[str, ...]
    completeness: float
    diverged_from: int

    def __str__(self) -> str:
        return f"without {', '.join(self.missing_sources) or 'nothing'}, completeness {self.completeness:.2f}"


class Labels:
    """The labels of one replica, whose divergences follow each other; a bucket costs the same for any window.

    Args:
        lookback: how many earlier buckets an output may depend on. sources: the node's, in the order to name them.
    """

    def __init__(self, lookback: int, sources: Iterable[str]) -> None:
        self._lookback = lookback
        self._last: dict[str, int | None] = dict.fromkeys(sources)
        """The last bucket that lacked each source."""
        self._least: deque[tuple[int, float]] = deque()
        """Ascending in both: buckets whose completeness may yet be the lowest of a window."""
        self._diverged_from: int | None = None

    def ran(self, bucket: int, share: Share) -> Label:
        """The next bucket runs live. The first after `corrected` begins a divergence."""
        at = bucket if share.diverged_from is None else min(bucket, share.diverged_from)
        self._diverged_from = at = at if self._diverged_from is None else min(at, self._diverged_from)
        self._last.update(dict.fromkeys(share.missing_sources, bucket))
        while self._least and self._least[-1][1] >= share.completeness:
            self._least.pop()
        self._least.append((bucket, share.completeness))
        low = bucket - self._lookback
        while self._least[0][0] < low:
            self._least.popleft()
        missing_sources = tuple(name for name, last in self._last.items() if last is not None and last >= low)
        return Label(missing_sources, self._least[0][1], at)

    def corrected(self) -> None:
        """The state is that of complete input again (F_s = F_l)."""
        self._last = dict.fromkeys(self._last)
        self._least.clear()
        self._diverged_from = None
