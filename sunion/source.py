"""The fold of a source's log: what a record means depends only on the log before it (A2.2).

Replicas, redo tasks, resuming publishers and audits apply the same fold. Hence they all agree on what is late,
duplicate or fenced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sunion.bucket import Buckets
from sunion.model import FOREVER, Contents, Reject, RowOps, Rows, SourceRecord


@dataclass(frozen=True, slots=True)
class SourceFold:
    """The log so far: current `owner` (a publisher's uid) and its `epoch` (0: no claim yet), last sequence number
    (`last_seq`; -1: none), `boundary` (microseconds since 1970), and how late the owner's rows may come
    (`lateness_us`).

    A new stream's boundary is the start of the app's first bucket (origin), so that earlier tuples are late (B20).
    """

    boundary: int
    epoch: int = 0
    owner: str = ""
    last_seq: int = -1
    lateness_us: int = 0

    @property
    def ended(self) -> bool:
        """END was read: the source is finite and complete (B22)."""
        return self.boundary >= FOREVER


class Accepted(NamedTuple):
    """What one record contributes. `rows` maps buckets to (rows, count); `rejects` belong to bucket `reject_bucket`.

    Numbers of tuples that do not count: `duplicates` of earlier ones, `late`, `fenced` (their writer does not own the
    source), `after_end`. `foreign`: 1 for a record of another life of the app.
    """

    rows: tuple[tuple[int, Rows, int], ...] = ()
    rejects: tuple[Reject, ...] = ()
    reject_bucket: int = 0
    duplicates: int = 0
    late: int = 0
    fenced: int = 0
    after_end: int = 0
    foreign: int = 0

    @property
    def top(self) -> int | None:
        """The highest bucket that this record contributes to; None: none."""
        buckets = [b for b, _, _ in self.rows]
        if self.rejects:
            buckets.append(self.reject_bucket)
        return max(buckets, default=None)


NOTHING = Accepted()


def fold(
    state: SourceFold, record: SourceRecord, buckets: Buckets, ops: RowOps, source: str, ahead_max_us: int
) -> tuple[SourceFold, Accepted]:
    """Judge one record.

    Args:
        ahead_max_us: a tuple further than this plus its publisher's lateness beyond the boundary is rejected as
            being in the future; without a limit, one wrong stime would stay in memory for years.

    Returns:
        The fold after the record, and what the record contributes. Rejects belong to the first bucket that the source
        has not closed, so that every reader files them alike, wherever it starts. After END there is no such bucket:
        later records are only counted.
    """
    if record.foreign:
        return state, Accepted(foreign=1)
    here = buckets.closed_by(state.boundary)
    if state.ended and record.epoch < 0:
        return state, Accepted(after_end=len(record.rejects))
    if record.epoch < 0:
        return state, Accepted(rejects=record.rejects, reject_bucket=here)
    if record.claim:
        if record.epoch > state.epoch:
            return replace(state, epoch=record.epoch, owner=record.uid, lateness_us=record.lateness_us), NOTHING
        return state, NOTHING
    if not state.epoch or (record.epoch, record.uid) != (state.epoch, state.owner):
        return state, Accepted(fenced=len(record.seqs) + len(record.rejects))
    if state.ended:
        return state, Accepted(after_end=len(record.seqs) + len(record.rejects))
    last_seq, accepted = _tuples(state, record, buckets, ops, source, ahead_max_us, here)
    boundary = state.boundary if record.boundary is None else max(state.boundary, record.boundary)
    return SourceFold(boundary, state.epoch, state.owner, last_seq, state.lateness_us), accepted


def _tuples(
    state: SourceFold, record: SourceRecord, buckets: Buckets, ops: RowOps, source: str, ahead_max_us: int, here: int
) -> tuple[int, Accepted]:
    """The last position that now counts, and what the record's tuples contribute."""
    contents = record.opened()
    seqs, stimes, rejects = contents.seqs, contents.stimes, contents.rejects
    if not len(seqs) and not rejects:
        return state.last_seq, NOTHING
    horizon = state.boundary + state.lateness_us + ahead_max_us
    first, last = _positions(contents, state.last_seq)
    if first > state.last_seq and (not len(seqs) or _usual(stimes, state.boundary, horizon, buckets)):
        rows = ((buckets.of(stimes[0]), contents.rows, len(seqs)),) if len(seqs) else ()
        return last, Accepted(rows, rejects, here)
    return _one_by_one(state, contents, record.offset, buckets, ops, source, horizon, here)


def _positions(contents: Contents, last_seq: int) -> tuple[int, int]:
    """First and last position that a record covers; for a record that covers none, a pair that keeps `last_seq`."""
    if not contents.rejects:
        return contents.seqs[0], contents.seqs[-1]
    found = [contents.seqs[0], contents.seqs[-1]] if len(contents.seqs) else []
    found += [r.seq for r in contents.rejects if r.seq >= 0]
    return (min(found), max(found)) if found else (last_seq + 1, last_seq)


def _usual(stimes: Sequence[int], boundary: int, horizon: int, buckets: Buckets) -> bool:
    """Whether this is the common case: all tuples in one bucket and nothing to drop."""
    low, high = min(stimes), max(stimes)
    return low >= boundary and high < horizon and buckets.of(low) == buckets.of(high)


def _one_by_one(
    state: SourceFold,
    contents: Contents,
    offset: int,
    buckets: Buckets,
    ops: RowOps,
    source: str,
    horizon: int,
    here: int,
) -> tuple[int, Accepted]:
    last, duplicates, late = state.last_seq, 0, 0
    kept: dict[int, list[int]] = {}
    rejects = [r for r in contents.rejects if r.seq < 0]
    said: list[tuple[int, int, Reject | None]] = [(seq, i, None) for i, seq in enumerate(contents.seqs)]
    refused = [(r.seq, -1, r) for r in contents.rejects if r.seq >= 0]
    for seq, i, reject in sorted([*said, *refused], key=lambda one: one[0]) if refused else said:
        if seq <= last:
            duplicates += 1
            continue
        if reject is not None:
            last = seq
            rejects.append(reject)
            continue
        stime = contents.stimes[i]
        if stime < state.boundary:
            late += 1
            why = f"late: tuple {seq} has stime {stime}, boundary {state.boundary}"
            rejects.append(Reject(source, offset, why))
            continue
        last = seq
        if stime >= horizon:
            why = f"future: tuple {seq} has stime {stime}, boundary {state.boundary}"
            rejects.append(Reject(source, offset, why))
        else:
            kept.setdefault(buckets.of(stime), []).append(i)
    rows = tuple((b, ops.take(contents.rows, at), len(at)) for b, at in sorted(kept.items()))
    return last, Accepted(rows, tuple(rejects), here, duplicates=duplicates, late=late)
