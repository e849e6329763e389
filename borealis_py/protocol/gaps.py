"""What an incarnation has lost that begins with nothing, where its inputs stand (R18.3; Hwang et al., ICDE 2005, 4.1).

ARRIVING --all read that the logs held at the start, and its bucket opened--> not WHOLE --F_s at `whole`--> WHOLE
"""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.protocol.incarnation import StartPoint
from borealis_py.protocol.labels import Label
from sunion.model import FOREVER
from sunion.units import NOWHERE, Bucket


class Losing:
    """What is lost at one start.

    Args:
        start: where the incarnation begins. sources: the node's. lookback: how many earlier buckets a result may depend
            on. origin: the app's first bucket; an empty state is whole there.

    Attributes:
        arriving: it reads on, and runs nothing yet. placed: it is known from where on it will.
        first: the first lost bucket, if there is one.
        whole: the first bucket whose result stands on nothing lost; far off while it arrives, NOWHERE if nothing was
            lost.
    """

    def __init__(self, start: StartPoint, sources: Sequence[str], lookback: int, origin: Bucket) -> None:
        self.arriving = start.present
        self.placed = False
        self.first = start.bucket if start.own is None else start.own
        self.whole = Bucket(FOREVER) if start.present else NOWHERE
        self._sources = tuple(dict.fromkeys(sources))
        """The node's sources, each once, in the order given."""
        self._lookback = lookback
        """How many earlier buckets a result may depend on."""
        self._origin = origin
        """The app's first bucket."""

    @property
    def lost(self) -> tuple[Bucket, Bucket] | None:
        """The lost buckets [first, end), those included that stand on them; None: none, or not known yet."""
        return None if self.arriving or self.whole <= self.first else (self.first, self.whole)

    def place(self, at: Bucket, complete: Bucket, all_read: bool) -> Bucket:
        """Where it begins, as far as is known: `at`, or behind what is complete by when all was read that the logs held
        at the start. What comes later is not lost."""
        found = at if self.placed else max(at, complete)
        self.placed |= all_read
        return found

    def arrived(self, at: Bucket) -> None:
        """It runs from bucket `at` on."""
        self.arriving = False
        self.whole = at if at == self._origin else Bucket(at + self._lookback)

    def label(self, bucket: Bucket, label: Label | None = None) -> Label:
        """The label of a result that lacked `label` besides; None: nothing. Nobody knows what lost buckets lack."""
        if bucket >= self.whole and label is not None:
            return label
        first = self.first if label is None else min(self.first, label.diverged_from)
        return Label(self._sources, 0.0, first)
