"""What a source's log holds, by the rules of PROTOCOL.md section 1.2, read by nobody else's code.

Tuples that are late, in the future, malformed or in no envelope are dead letters, and so is what its publisher refused;
repeated and fenced ones are nothing.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from borealis_py.demo.checker.history import Raw, Unreadable, open_envelope
from tests.drills.checker.network import Row

END = 1 << 62
AHEAD_MAX_US = 60_000_000


@dataclass
class SourceLog:
    """`boundary`: all later tuples have that stime or more; None: nothing was promised."""

    rows: list[Row] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    dead: Counter[int] = field(default_factory=Counter)
    """How many dead letters each offset gives."""
    gone: set[int] = field(default_factory=set)
    """Sequence numbers of tuples that ended as dead letters."""
    refused: dict[int, int] = field(default_factory=dict)
    """Sequence numbers of what its publisher refused, and the offset of the record that says so."""
    boundary: int | None = None
    fenced: int = 0
    repeated: int = 0

    @property
    def ended(self) -> bool:
        return self.boundary is not None and self.boundary >= END

    @property
    def missing(self) -> list[int]:
        """Sequence numbers from 0 to the last that never came."""
        there = {*self.seqs, *self.gone, *self.refused}
        return [n for n in range(max(there, default=-1) + 1) if n not in there]


def fold(raw: Iterable[Raw], columns: Sequence[str], origin_us: int) -> SourceLog:
    """Read a source's log from its beginning.

    Args:
        columns: of its tuples, in the order that rows are to have.
        origin_us: start of the app's first bucket.
    """
    log = SourceLog()
    epoch, owner, last_seq, boundary = 0, "", -1, origin_us
    for record in raw:
        try:
            header, payload = open_envelope(record.value)
            if header[0] == "EPOCH":
                if header[1] > epoch:
                    epoch, owner = header[1], header[2]
                continue
            _, of_epoch, uid, first_seq, packed, closes = header[:6]
            stimes = struct.unpack(f"<{len(packed) // 8}q", packed)
            tuples = json.loads(bytes(payload)) if stimes else []
            refused = [one[0] for one in (header[8] if len(header) > 8 else ())]
        except (Unreadable, ValueError, struct.error):
            log.dead[record.offset] += not log.ended
            continue
        if (of_epoch, uid) != (epoch, owner):
            log.fenced += len(stimes) + len(refused)
            continue
        if log.ended:
            continue
        positions = range(first_seq, first_seq + len(stimes) + len(refused))
        usable = zip([p for p in positions if p not in refused], stimes, tuples, strict=True)
        said = [*((seq, stime, values) for seq, stime, values in usable), *((seq, 0, None) for seq in refused)]
        for seq, stime, values in sorted(said, key=lambda one: one[0]):
            if seq <= last_seq:
                log.repeated += 1
                continue
            if values is None:
                log.dead[record.offset] += 1
                log.refused[seq] = record.offset
                last_seq = seq
                continue
            late = stime < boundary
            if late or stime >= boundary + AHEAD_MAX_US or set(values) != set(columns):
                log.dead[record.offset] += 1
                log.gone.add(seq)
            else:
                log.rows.append((*(values[c] for c in columns), stime))
                log.seqs.append(seq)
            last_seq = last_seq if late else seq
        if closes is not None:
            boundary = max(boundary, closes)
            log.boundary = boundary
    return log
