"""Which sources of an app have ended: END is the last batch in their log."""

from __future__ import annotations

from contextlib import closing

from borealis_py.app.state import AppState
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, LogUnreachable, Lookup
from borealis_py.log.records import BatchHeader, EnvelopeError, unpack_source
from sunion.model import FOREVER

LAST = 8
"""Records read: an ingress may claim an input after its END, to write that of others."""


def ended_sources(log: Log, state: AppState) -> dict[str, bool]:
    """Each source, or partition of one, with whether it has ended. Reads a few records of each.

    Raises:
        LogUnreachable: no broker.
    """
    with closing(log.lookup()) as lookup:
        return {name: _ended(lookup, topics.source(state.name, name), state) for name in state.runs.sources}


def _ended(lookup: Lookup, feed: Feed, state: AppState) -> bool:
    try:
        first, end = lookup.bounds(feed)
        last = list(lookup.read(feed, max(first, end - LAST), end))
    except LogUnreachable:
        raise
    except LogError:
        return False  # a warning is not worth a failure
    for record in reversed(last):
        try:
            header, _ = unpack_source(record.value)
        except EnvelopeError:
            continue
        if isinstance(header, BatchHeader) and header.app_uid == state.app_uid and header.boundary is not None:
            return header.boundary >= FOREVER
    return False
