"""Decodes raw source records for the fold. Replicas, redo tasks and audits all use it, so that they agree.

It knows the envelope but not rows, which the source's codec decodes. No I/O. Invalid bytes never raise: they become
rejects, which the fold files under a bucket and the publishing replica writes to the dead-letter topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from borealis_py.log.base import Record
from borealis_py.log.codec import SourceCodec
from borealis_py.log.description import Life
from borealis_py.log.records import (
    ClaimHeader,
    EnvelopeError,
    check_numbers,
    tuple_seqs,
    unpack_source,
    unpack_stimes,
)
from sunion.model import Contents, Reject, SourceRecord


def decode_source(record: Record, codec: SourceCodec, source: str, life: Life) -> SourceRecord:
    """Decode one record of a source's log.

    Args:
        record: as read from the log.
        codec: decodes this source's rows.
        source: the source's name, for the rejects.
        life: of the app; records of another life are recognised before anything in them is decoded.

    Returns:
        The record for `sunion.source.fold`, which decodes its rows (`unpack`) only once it knows that the writer owns
        the source. `seqs` is a range if nothing was rejected. A record that none of our publishers can have written has
        epoch -1 and one reject with the reason (A2.2); so does an envelope of another version: all readers of
        this source have read the same version of the description, so they judge it alike.
    """
    try:
        header, payload = unpack_source(record.value)
        if not life.owns(record, header.app_uid):
            return SourceRecord(record.offset, header.epoch, header.uid, foreign=True)
        check_numbers(header)
        if isinstance(header, ClaimHeader):
            return SourceRecord(record.offset, header.epoch, header.uid, claim=True, lateness_us=header.lateness_us)
        stimes, seqs = unpack_stimes(header.stimes), tuple_seqs(header)
    except EnvelopeError as exc:
        return _foreign(record, source, f"not a publisher's record: {exc}")
    refused = tuple(Reject(source, record.offset, r.reason, r.raw, r.seq) for r in header.rejects)
    return SourceRecord(
        record.offset,
        header.epoch,
        header.uid,
        seqs=seqs,
        stimes=stimes,
        boundary=header.boundary,
        rejects=refused,
        late_us=tuple(r.late_us for r in header.rejects if r.late_us > 0),
        unpack=partial(_unpacked, payload, header.encoding, codec, source) if stimes else None,
    )


def _foreign(record: Record, source: str, reason: str) -> SourceRecord:
    reject = Reject(source, record.offset, reason, record.value or b"")
    return SourceRecord(record.offset, -1, "", rejects=(reject,))


def _unpacked(payload: memoryview, encoding: str, codec: SourceCodec, source: str, packed: SourceRecord) -> Contents:
    """The content of a record. Rows that cannot be used become rejects, listed before those of the publisher."""
    seqs, stimes = packed.seqs, packed.stimes
    rows, bad = codec.decode(bytes(payload), encoding, stimes)
    if not bad:
        return Contents(seqs, stimes, rows, packed.rejects)
    gone = {position for position, _, _ in bad}
    good = () if -1 in gone or rows is None else tuple(i for i in range(len(stimes)) if i not in gone)
    rejects = tuple(_reject(source, packed.offset, seqs, *one) for one in bad) + packed.rejects
    return Contents(tuple(seqs[i] for i in good), tuple(stimes[i] for i in good), rows if good else None, rejects)


def _reject(source: str, offset: int, seqs: Sequence[int], position: int, reason: str, raw: bytes) -> Reject:
    what = "batch" if position < 0 else f"tuple {seqs[position]}"
    return Reject(source, offset, f"malformed: {what}: {reason}", raw)
