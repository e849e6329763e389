"""The fold of a source at its log's end, from its last records alone (PROTOCOL 4.2, B5). Pure.

A publisher's record carries its writer's whole fold (epoch, last position, boundary), and the offset (`read_to`) up to
which the writer had read the log without finding a newer claim. If everything from `read_to` on is known, so is the
owner at that record: there was no claim before it, and any later one is visible. Records of a zombie with a lower epoch
do not count: either such a record names an offset before everything known, or the claim that fenced it is visible.

An ingress's record also says how far it has copied its topic (`at`), so that its successor goes on exactly there (B48).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from borealis_py.client.target import Target
from borealis_py.log.base import Record
from borealis_py.log.description import Life
from borealis_py.log.records import (
    BatchHeader,
    ClaimHeader,
    EnvelopeError,
    SourceHeader,
    checked_lateness,
    tuple_seqs,
    unpack_source,
    unpack_stimes,
)
from sunion.model import FOREVER, Reject, RowOps, Rows, SourceRecord
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
class TailEntry:
    """One record of a publisher: its `header` as written, and the form that the fold judges (`record`)."""

    header: SourceHeader
    record: SourceRecord


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where a source's log stands: its `fold`, and the positions that the last record which counts has named (`at`, by
    partition of the topic that an ingress copies). `at` None: no record that counts is known."""

    fold: SourceFold
    at: Mapping[int, int] | None = None


def entry_of(record: Record, life: Life) -> TailEntry | None:
    """Decode a publisher's record; None: another life's, or not a publisher's (a dead letter to readers) (A2)."""
    try:
        header, _ = unpack_source(record.value)
        if not life.owns(record, header.app_uid) or header.epoch < 0:
            return None
        if isinstance(header, ClaimHeader):
            lateness_us = checked_lateness(header)
            return TailEntry(
                header, SourceRecord(record.offset, header.epoch, header.uid, claim=True, lateness_us=lateness_us)
            )
        stimes, seqs = unpack_stimes(header.stimes), tuple_seqs(header)
    except EnvelopeError:
        return None
    rejects = tuple(Reject("", record.offset, "", seq=r.seq) for r in header.rejects)
    of = SourceRecord(
        record.offset, header.epoch, header.uid, False, seqs, stimes, boundary=header.boundary, rejects=rejects
    )
    return TailEntry(header, of)


def advanced(state: SourceFold, entry: TailEntry, target: Target) -> SourceFold:
    """The fold after one more record."""
    return fold(state, entry.record, target.buckets, _UNCOUNTED, target.source, target.ahead_max_us)[0]


def end_after(end: SourceEnd, entry: TailEntry, target: Target) -> SourceEnd:
    """Where the log stands after one more record: only its owner's records say how far its topic was copied."""
    header, before = entry.header, end.fold
    counts = isinstance(header, BatchHeader) and (header.epoch, header.uid) == (before.epoch, before.owner)
    at = dict(header.at) if counts and isinstance(header, BatchHeader) and header.at else end.at
    return SourceEnd(advanced(before, entry, target), at)


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
        at = _certain(entries, begin)
        if at is None:
            return None
        header = entries[at].header
        assert isinstance(header, BatchHeader)
        assert header.boundary is not None
        last_seq, boundary = header.first_seq + header.positions - 1, min(header.boundary, FOREVER)
        end = SourceEnd(SourceFold(boundary, header.epoch, header.uid, last_seq), dict(header.at) or None)
        rest = entries[at + 1 :]
    for entry in rest:
        end = end_after(end, entry, target)
    return end


def fold_at_end(entries: Sequence[TailEntry], begin: int, target: Target) -> SourceFold | None:
    """The fold of `source_end`."""
    end = source_end(entries, begin, target)
    return None if end is None else end.fold


def _certain(entries: Sequence[TailEntry], begin: int) -> int | None:
    """The first batch whose writer is known to have owned the stream when writing it."""
    claims: list[SourceRecord] = []
    for at, entry in enumerate(entries):
        header = entry.header
        if isinstance(header, ClaimHeader):
            claims.append(entry.record)
        elif (
            header.boundary is not None
            and header.read_to >= begin
            and all(claim.epoch <= header.epoch for claim in claims if claim.offset >= header.read_to)
        ):
            return at
    return None
