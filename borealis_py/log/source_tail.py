"""Which records at the end of a source's log certainly are its owner's (A2.4, B5). Pure.

A publisher's record names the offset (`read_to`) up to which its writer had read the log without finding a newer claim.
If everything from `read_to` on is known, so is the owner at that record: there was no claim before it, and any later
one is visible. Records of a zombie with a lower epoch do not count: either such a record names an offset before
everything known, or the claim that fenced it is visible.

From such a record a publisher resumes (`client.tail`), so trimming keeps one (R16.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from borealis_py.log.base import Record
from borealis_py.log.description import Life
from borealis_py.log.records import (
    ClaimHeader,
    EnvelopeError,
    SourceHeader,
    check_numbers,
    tuple_seqs,
    unpack_source,
    unpack_stimes,
)
from sunion.model import Reject, SourceRecord
from sunion.units import Offset


@dataclass(frozen=True, slots=True)
class TailEntry:
    """One record of a publisher: its `header` as written, and the form that the fold judges (`record`)."""

    header: SourceHeader
    record: SourceRecord


def header_of(record: Record, life: Life) -> SourceHeader | None:
    """The header of a publisher's record; None: another life's, or not a publisher's (a dead letter to readers) (A2).

    Only `entry_of` looks whether a batch's stimes and rejects fit.
    """
    try:
        header, _ = unpack_source(record.value)
        check_numbers(header)
    except EnvelopeError:
        return None
    return header if life.owns(record, header.app_uid) else None


def entry_of(record: Record, life: Life) -> TailEntry | None:
    """Decode a publisher's record; None: another life's, or not a publisher's (A2)."""
    header = header_of(record, life)
    if header is None:
        return None
    if isinstance(header, ClaimHeader):
        claim = SourceRecord(record.offset, header.epoch, header.uid, claim=True, lateness_us=header.lateness_us)
        return TailEntry(header, claim)
    try:
        stimes, seqs = unpack_stimes(header.stimes), tuple_seqs(header)
    except EnvelopeError:
        return None
    rejects = tuple(Reject("", record.offset, "", seq=r.seq) for r in header.rejects)
    of = SourceRecord(
        record.offset, header.epoch, header.uid, False, seqs, stimes, boundary=header.boundary, rejects=rejects
    )
    return TailEntry(header, of)


def first_certain(entries: Sequence[TailEntry], begin: int) -> int | None:
    """The index of the first batch whose writer is known to have owned the source when it wrote it.

    Args:
        entries: all publishers' records from offset `begin` on, in order.

    Returns:
        None: there is none; records before `begin` are needed.
    """
    return next((at for at, _ in _certain(entries, begin)), None)


def resumable(entries: Sequence[TailEntry], begin: int) -> Offset | None:
    """The highest offset from which on the log still shows a publisher where to resume: all below may be deleted.

    Args:
        entries: as for `first_certain`.

    Returns:
        None: these records do not show it.
    """
    return max((Offset(read_to) for _, read_to in _certain(entries, begin)), default=None)


def _certain(entries: Sequence[TailEntry], begin: int) -> Iterator[tuple[int, int]]:
    """The certain batches: the index of each, and the offset from which on the log makes it so."""
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
            yield at, header.read_to
