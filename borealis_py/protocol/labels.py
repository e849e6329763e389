"""The labels of tentative results: what they lacked, how complete they are, since when the state has diverged (B17).

A result of bucket b depends on the buckets [b - lookback, b]. Those that ran before the state diverged were complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from sunion.units import Bucket


@dataclass(frozen=True, slots=True)
class Share:
    """What one bucket had of its inputs when it ran.

    Attributes:
        missing: the sources missing in the bucket itself, here or in the tentative records that it used.
        missing_sources: these, and the sources that those records lacked in earlier buckets.
        completeness: mean over the inputs of 1 (stable), 0 (missing), or the tentative record's own.
        diverged_from: the lowest of those records'; None: it used none.
    """

    missing: tuple[str, ...]
    missing_sources: tuple[str, ...]
    completeness: float
    diverged_from: int | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """The label of one tentative result, over all buckets that it depends on: the sources missing in any of them
    (`missing_sources`), the lowest `completeness` among them (0 to 1), and the first bucket that was incomplete in the
    state, or in an input, behind it (`diverged_from`)."""

    missing_sources: tuple[str, ...]
    completeness: float
    diverged_from: int

    def __str__(self) -> str:
        return f"without {', '.join(self.missing_sources) or 'nothing'}, completeness {self.completeness:.2f}"


class Labels:
    """Labels the results of one replica, one divergence after the other. A bucket costs the same for any window.

    Args:
        lookback: how many earlier buckets an output may depend on.
        sources: the node's, in the order in which labels name them.
    """

    def __init__(self, lookback: int, sources: Iterable[str]) -> None:
        self._lookback = lookback
        self._last: dict[str, int | None] = dict.fromkeys(sources)
        """The last bucket that lacked each source; None: none in this divergence."""
        self._least: deque[tuple[int, float]] = deque()
        """Buckets whose completeness may yet be the lowest of a window; both ascend."""
        self._diverged_from: int | None = None

    def on_live_run(self, bucket: Bucket, share: Share) -> Label:
        """Label the next bucket that runs live. The first after `corrected` begins a divergence."""
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
        """End the divergence: the state is that of complete input again (F_s = F_l)."""
        self._last = dict.fromkeys(self._last)
        self._least.clear()
        self._diverged_from = None
