"""How far a node has been published, as the log tells (protocol R10)."""

from __future__ import annotations

from borealis_py.log.base import Feed, Lookup
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import Life

_WINDOWS = (32, 4_096)


def last_progress(lookup: Lookup, feed: Feed, life: Life, origin: int) -> int | None:
    """The last progress record that says anything; None: there is none.

    Markers of transactions and compaction leave holes, hence windows of growing size.

    Raises:
        LogError: the log could not be read.
    """
    first, end = lookup.bounds(feed)
    for start in (*(max(first, end - window) for window in _WINDOWS), first):
        said = [read_progress(record, life, origin) for record in lookup.read(feed, start, end)]
        found = next((bucket for bucket in reversed(said) if bucket is not None), None)
        if found is not None or start == first:
            return found
    return None
