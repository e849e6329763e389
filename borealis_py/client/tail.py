"""The fold of a source at its log's end, from its last records alone (A2.4, B5). Pure.

A publisher's record carries its writer's whole fold (epoch, last position, boundary); which record's writer certainly
owned the source then is decided in `borealis_py.log.source_tail`.

An ingress's record also says how far it has copied its topic (`at`), so that its successor goes on exactly there (B48).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from borealis_py.client.target import Target
from borealis_py.log.records import BatchHeader
from borealis_py.log.source_tail import TailEntry, first_certain
from sunion.model import RowOps, Rows
from sunion.source import SourceFold, fold

TAIL_RECORDS = 50
"""Number of records to read first: even an idle publisher repeats everything in each record."""
FURTHER = 8
"""Factor by which to read more if those do not suffice."""


class _Uncounted(RowOps):
    """Row operations for a publisher's fold, which does not need rows."""

    def take(self, rows: Rows, indices: Sequence[int]) -> Rows:
        return None

    def concat(self, parts: Sequence[Rows]) -> Rows:
        return None

    def settle(self, groups: Sequence[Sequence[Rows]]) -> Sequence[Rows]:
        return groups

    def order(self, parts: Sequence[Rows | None]) -> Rows:
        return None

    def count(self, rows: Rows) -> int:
        return 0

    def size_bytes(self, rows: Rows) -> int:
        return 0

    def digest(self, rows: Rows) -> bytes:
        return b""


_UNCOUNTED = _Uncounted()


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where a source's log stands: its `fold`, and the positions that the last record which counts has named (`at`, by
    partition of the topic that an ingress copies). `at` None: no record that counts is known. `topic_id`: of the topic
    in which these positions count; "": not known. `spoken`: see `BatchHeader`."""

    fold: SourceFold
    at: Mapping[int, int] | None = None
    topic_id: str = ""
    spoken: bool = False


def advanced(state: SourceFold, entry: TailEntry, target: Target) -> SourceFold:
    """The fold after one more record."""
    return fold(state, entry.record, target.buckets, _UNCOUNTED, target.source, target.ahead_max_us)[0]


def end_after(end: SourceEnd, entry: TailEntry, target: Target) -> SourceEnd:
    """Where the log stands after one more record: only its owner's records say how far its topic was copied."""
    header, before = entry.header, end.fold
    counts = isinstance(header, BatchHeader) and (header.epoch, header.uid) == (before.epoch, before.owner)
    at, topic_id, spoken = end.at, end.topic_id, end.spoken
    if counts and isinstance(header, BatchHeader) and header.at:
        at, topic_id, spoken = dict(header.at), header.topic_id, header.spoken
    return SourceEnd(advanced(before, entry, target), at, topic_id, spoken)


def source_end(entries: Sequence[TailEntry], begin: int, target: Target) -> SourceEnd | None:
    """Where the log stands after these records.

    Args:
        entries: all publishers' records from offset `begin` to the log's end.

    Returns:
        None: they do not determine it; records before `begin` are needed.
    """
    if begin == 0:
        end, rest = SourceEnd(SourceFold(target.buckets.start(target.origin))), entries
    else:
        at = first_certain(entries, begin)
        if at is None:
            return None
        header = entries[at].header
        assert isinstance(header, BatchHeader)
        assert header.boundary is not None
        last_seq, boundary = header.first_seq + header.positions - 1, header.boundary
        state = SourceFold(boundary, header.epoch, header.uid, last_seq)
        end = SourceEnd(state, dict(header.at) or None, header.topic_id, header.spoken)
        rest = entries[at + 1 :]
    for entry in rest:
        end = end_after(end, entry, target)
    return end


def fold_at_end(entries: Sequence[TailEntry], begin: int, target: Target) -> SourceFold | None:
    """The fold of `source_end`."""
    end = source_end(entries, begin, target)
    return None if end is None else end.fold
