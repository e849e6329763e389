"""The fold of a source at its log's end, out of its last records alone (PROTOCOL 1.2, B5). Pure.

A publisher's record says where its writer stands: epoch, last position, boundary; and up to which offset (`read_to`)
the writer had read the log without finding a newer claim. If everything from `read_to` on is known, so is the owner at
that record: nobody claimed before it, and who claimed after it is seen. What a zombie of a lower epoch wrote does not
count: either its record names an offset before all that is known, or the claim that fenced it is there to be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
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
"""How many records are read at first: idle, a publisher tells all in each of them."""
FURTHER = 8
"""So many times as many where those do not tell."""


class _Uncounted(RowOps):
    """Rows do not matter to a publisher's fold."""

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


_UNCOUNTED = _Uncounted()


@dataclass(frozen=True, slots=True)
class TailEntry:
    """One record that a publisher wrote: header, and what the fold judges of it."""

    header: SourceHeader
    record: SourceRecord


def entry_of(record: Record, life: Life) -> TailEntry | None:
    """None: it says nothing about the stream (A2): another life's, or no publisher's (to readers a dead letter)."""
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


def fold_at_end(entries: Sequence[TailEntry], begin: int, target: Target) -> SourceFold | None:
    """The fold after these records.

    Args:
        entries: all publishers' records from offset `begin` to the log's end.

    Returns:
        None: they do not tell; what lies before `begin` is needed.
    """
    if begin == 0:
        state, rest = SourceFold(target.buckets.start(target.origin)), entries
    else:
        at = _certain(entries, begin)
        if at is None:
            return None
        header = entries[at].header
        assert isinstance(header, BatchHeader)
        assert header.boundary is not None
        last_seq, boundary = header.first_seq + header.positions - 1, min(header.boundary, FOREVER)
        state, rest = SourceFold(boundary, header.epoch, header.uid, last_seq), entries[at + 1 :]
    for entry in rest:
        state = advanced(state, entry, target)
    return state


def _certain(entries: Sequence[TailEntry], begin: int) -> int | None:
    """The first batch whose writer is known to have owned the stream when it was written."""
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
