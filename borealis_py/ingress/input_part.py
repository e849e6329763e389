"""What some records of one partition are to one input: rows, and refused ones with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from borealis_py.ingress.decoder import Decoded, Int64s


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that becomes a dead letter: its `place` among the input's records of this part, `reason`, `raw` bytes,
    and by how much it was late (`late_us`; 0: it was not)."""

    place: int
    reason: str
    raw: bytes
    late_us: int = 0


@dataclass(frozen=True, slots=True)
class InputPart:
    """Records of one partition for one input, in offset order.

    `offsets`: of each of them. `rows`, `stimes` and `places` run in parallel, for those that are rows. `refused`: the
    others, ascending. `partition`: where they come from; `after`: the offset to go on at after all of them. `misread`:
    how the times of refused ones seem to be read wrong, for people; "": nothing says so.
    """

    partition: int
    offsets: Int64s
    rows: pa.RecordBatch
    stimes: Int64s
    places: Int64s
    refused: tuple[RefusedRecord, ...]
    after: int
    misread: str = ""

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def gap(cls, partition: int, reason: str, after: int, schema: pa.Schema) -> InputPart:
        """A dead letter for what is not there any more."""
        nothing, none = np.empty(0, np.int64), pa.RecordBatch.from_pylist([], schema)
        refused = (RefusedRecord(0, reason, b""),)
        return cls(partition, np.zeros(1, np.int64), none, nothing, nothing, refused, after)

    def halves(self) -> tuple[InputPart, InputPart]:
        """Both halves of its records."""
        at = len(self) // 2
        n = int(np.searchsorted(self.places, at))
        first = tuple(one for one in self.refused if one.place < at)
        rest = tuple(RefusedRecord(r.place - at, r.reason, r.raw, r.late_us) for r in self.refused if r.place >= at)
        return (
            InputPart(
                self.partition,
                self.offsets[:at],
                self.rows.slice(0, n),
                self.stimes[:n],
                self.places[:n],
                first,
                int(self.offsets[at]),
                self.misread,
            ),
            InputPart(
                self.partition,
                self.offsets[at:],
                self.rows.slice(n),
                self.stimes[n:],
                self.places[n:] - at,
                rest,
                self.after,
                self.misread,
            ),
        )


@dataclass(frozen=True, slots=True)
class InputLimits:
    """What decides whether a row can be sent to an input. `boundary`: a row below it is late; `future`: one at or after
    it is in the future, however late its topic may be. `first`: records of the partition before this offset were
    copied. `misread`: `TopicDecoder.misread`."""

    boundary: int
    future: int
    first: int
    misread: Callable[[int, int], str]


def part_for(
    decoded: Decoded, partition: int, mine: Int64s | None, takes_bad: bool, limits: InputLimits
) -> InputPart | None:
    """What records are to an input; None: nothing.

    Args:
        mine: indices of the rows that belong to the input; None: all do.
        takes_bad: it takes what is no row.
    """
    offsets = np.fromiter((record.offset for record in decoded.records), np.int64, len(decoded))
    rows, at, stimes = decoded.rows, decoded.at, decoded.stimes
    keep = offsets[at] >= limits.first
    if mine is not None:
        own = np.zeros(len(at), np.bool_)
        own[mine] = True
        keep &= own
    late, future = keep & (stimes < limits.boundary), keep & (stimes >= limits.future)
    why: dict[int, tuple[str, int]] = {}
    misread = ""
    for i in np.flatnonzero(late | future).tolist():
        stime = int(stimes[i])
        before = limits.boundary - stime
        reason = (
            f"late: stime {stime} is before the boundary {limits.boundary}"
            if before > 0
            else f"future: stime {stime} is not before {limits.future}"
        )
        wrong = limits.misread(stime, before)
        misread = misread or wrong
        why[int(at[i])] = f"{reason}; {wrong}" if wrong else reason, max(0, before)
    if takes_bad:
        misread = misread or decoded.misread
        why |= {position: (reason, 0) for position, reason in decoded.bad if offsets[position] >= limits.first}
    good = keep & ~late & ~future
    if good.all():
        chosen, sent, times = at, rows, stimes
    else:
        chosen, sent, times = at[good], rows.filter(pa.array(good)), stimes[good]
    if not why and len(chosen):
        places = np.arange(len(chosen))
        return InputPart(partition, offsets[chosen], sent, times, places, (), decoded.records[-1].offset + 1, misread)
    refused = np.asarray(sorted(why), np.int64)
    if not len(chosen) and not len(refused):
        return None
    positions = np.sort(np.concatenate([chosen, refused]))
    letters = tuple(
        RefusedRecord(place, why[position][0], decoded.records[position].value or b"", why[position][1])
        for place, position in zip(np.searchsorted(positions, refused).tolist(), refused.tolist(), strict=True)
    )
    places = np.searchsorted(positions, chosen)
    return InputPart(
        partition, offsets[positions], sent, times, places, letters, decoded.records[-1].offset + 1, misread
    )
