"""Raw record of a source -> what the fold judges. Used alike by replicas, redo tasks and audits, so that they agree.

Knows the envelope and nothing of rows: those the codec of the source takes apart. No I/O. Bad bytes never raise; they
become rejects, which the fold files under a bucket and the publishing replica writes to the dead-letter topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.log.base import Record
from borealis_py.log.codec import SourceCodec
from borealis_py.log.description import Life
from borealis_py.log.records import (
    BatchHeader,
    ClaimHeader,
    EnvelopeError,
    checked_lateness,
    tuple_seqs,
    unpack_source,
    unpack_stimes,
)
from sunion.model import Reject, SourceRecord


def decode_source(record: Record, codec: SourceCodec, source: str, life: Life) -> SourceRecord:
    """Take one record of a source's log apart.

    Args:
        record: as the log gave it.
        codec: decodes this source's rows.
        source: its name, for the rejects.
        life: of the app; a record of another one is told apart before anything of it is decoded.

    Returns:
        The record for `sunion.source.fold`. Where nothing was rejected `seqs` is a range. A record that no publisher of
        ours can have written has epoch -1 and one reject that says why (protocol A2); an envelope of another version
        is one of those: all who read this source read the same version of the description, so they judge it alike.
    """
    try:
        header, payload = unpack_source(record.value)
        if not life.owns(record, header.app_uid):
            return SourceRecord(record.offset, header.epoch, header.uid, foreign=True)
        if header.epoch < 0:
            raise EnvelopeError(f"epoch {header.epoch} is negative")
        if isinstance(header, ClaimHeader):
            lateness_us = checked_lateness(header)
            return SourceRecord(record.offset, header.epoch, header.uid, claim=True, lateness_us=lateness_us)
        stimes, seqs = unpack_stimes(header.stimes), tuple_seqs(header)
    except EnvelopeError as exc:
        return _foreign(record, source, f"not a publisher's record: {exc}")
    return _batch(record.offset, header, stimes, seqs, payload, codec, source)


def _foreign(record: Record, source: str, reason: str) -> SourceRecord:
    reject = Reject(source, record.offset, reason, record.value or b"")
    return SourceRecord(record.offset, -1, "", rejects=(reject,))


def _batch(
    offset: int,
    header: BatchHeader,
    stimes: tuple[int, ...],
    seqs: Sequence[int],
    payload: memoryview,
    codec: SourceCodec,
    source: str,
) -> SourceRecord:
    rows, bad = codec.decode(bytes(payload), header.encoding, stimes) if stimes else (None, ())
    refused = tuple(Reject(source, offset, r.reason, r.raw, r.seq) for r in header.rejects)
    rejects = tuple(_reject(source, offset, seqs, *one) for one in bad) + refused
    late_us = tuple(r.late_us for r in header.rejects if r.late_us > 0)
    if bad:
        gone = {position for position, _, _ in bad}
        good = () if -1 in gone or rows is None else tuple(i for i in range(len(stimes)) if i not in gone)
        seqs, stimes, rows = tuple(seqs[i] for i in good), tuple(stimes[i] for i in good), rows if good else None
    return SourceRecord(
        offset,
        header.epoch,
        header.uid,
        seqs=seqs,
        stimes=stimes,
        rows=rows,
        boundary=header.boundary,
        rejects=rejects,
        late_us=late_us,
    )


def _reject(source: str, offset: int, seqs: Sequence[int], position: int, reason: str, raw: bytes) -> Reject:
    what = "batch" if position < 0 else f"tuple {seqs[position]}"
    return Reject(source, offset, f"malformed: {what}: {reason}", raw)
