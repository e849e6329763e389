"""The last turns of a replica, for the error that a broken rule raises: inputs, frontiers and effects of each.

It keeps counts, headers and frontiers, no rows. Texts are made of them only for an error: most turns are never told.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from borealis_py.protocol.incarnation import Heartbeat
from borealis_py.protocol.redo import RedoDone, RedoResult
from borealis_py.protocol.turn import Effect, Turn
from sunion.model import GapRange, SourceRecord, StableRange, StreamRecord
from sunion.units import Bucket, MonotonicUs, Offset

T = TypeVar("T")
Header = tuple[str, tuple[object, ...]]
"""The header of an item that came in: how to write it, and what."""

TURNS = 64
"""How many turns are kept."""
TAKEN = ("heartbeats", "source records", "stream records", "redo results", "progress records", "writer events")
ENDS = 3
"""Of how many records at each end of what came from one input the headers are kept."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn.

    Attributes:
        now: microseconds of the local monotonic clock.
        took: how many items of each kind in `TAKEN` came in.
        kept: of these items, in order.
        f_s, f_l, state: the frontiers and the state after the turn.
        effects: classes of the effects that it returned, in order.
    """

    now: MonotonicUs
    took: tuple[int, ...]
    kept: tuple[Header, ...]
    f_s: Bucket
    f_l: Bucket
    state: str
    effects: tuple[type[Effect], ...]

    @property
    def headers(self) -> tuple[str, ...]:
        """One text for each header."""
        return _written(self.kept)

    def __str__(self) -> str:
        kinds = Counter(effect.__name__ for effect in self.effects)
        decided = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
        return (
            f"{_begun(self.now, self.took, self.headers)}; F_s {self.f_s}, F_l {self.f_l}, {self.state}; "
            f"decided {decided or 'nothing'}"
        )


class History:
    """The last `TURNS` turns of one replica."""

    def __init__(self) -> None:
        self.turns: deque[TurnRecord] = deque(maxlen=TURNS)

    def add(self, turn: Turn, f_s: Bucket, f_l: Bucket, state: str, effects: Sequence[Effect]) -> None:
        """Record a turn that is over."""
        kinds = tuple(map(type, effects))
        self.turns.append(TurnRecord(turn.now, _took(turn), tuple(_headers(turn)), f_s, f_l, state, kinds))

    def lines(self, turn: Turn) -> list[str]:
        """One line per turn; the last is `turn`, which was broken off by the error."""
        return [*map(str, self.turns), f"{_begun(turn.now, _took(turn), _written(_headers(turn)))}; broken off"]


def _took(turn: Turn) -> tuple[int, ...]:
    sources, streams = sum(map(len, turn.inputs.values())), sum(map(len, turn.streams.values()))
    return len(turn.beats), sources, streams, len(turn.redo), len(turn.progress), len(turn.writer)


def _begun(now: MonotonicUs, took: tuple[int, ...], headers: tuple[str, ...]) -> str:
    counts = ", ".join(f"{n} {kind}" for kind, n in zip(TAKEN, took, strict=True) if n)
    return f"at {now / 1e6:.6f} s: took {counts or 'nothing'}" + (f" ({', '.join(headers)})" if headers else "")


def _written(headers: Iterable[Header]) -> tuple[str, ...]:
    return tuple(how % what for how, what in headers)


def _headers(turn: Turn) -> list[Header]:
    found = [_beat(offset, beat) for offset, beat in turn.beats]
    for i, records in turn.inputs.items():
        found += [_source(i, record) for record in _ends(records)]
    for i, said in turn.streams.items():
        found += [_stream(i, replica, record) for replica, record in _ends(said)]
    found += [("%s", (_redo(result),)) for result in turn.redo]
    found += [("published to %s", (bucket,)) for bucket in turn.progress]
    found += [("%s", (event,)) for event in turn.writer]
    if turn.delays is not None:
        found.append(("%s", (turn.delays,)))
    return found


def _ends(records: Sequence[T]) -> Sequence[T]:
    return records if len(records) <= 2 * ENDS else [*records[:ENDS], *records[-ENDS:]]


def _beat(offset: Offset, beat: Heartbeat) -> Header:
    asking = " asking" if beat.asking else ""
    return "r%d inc %d %s%s to %d at %d", (beat.replica, beat.inc, beat.state, asking, beat.ack_s, offset)


def _source(index: int, record: SourceRecord) -> Header:
    if record.claim:
        return "input %d epoch %d claim at %d", (index, record.epoch, record.offset)
    what = index, record.epoch, len(record.seqs), record.boundary, record.offset
    return "input %d epoch %d %d rows to %s at %d", what


def _stream(index: int, replica: int, record: StreamRecord) -> Header:
    kind = type(record).__name__
    if isinstance(record, StableRange | GapRange):
        return "input %d r%d inc %d %s %d to %d", (index, replica, record.inc, kind, record.first, record.end)
    return "input %d r%d inc %d %s %d", (index, replica, record.inc, kind, record.bucket)


def _redo(result: RedoResult) -> str:
    return f"job {result.id} " + (f"by {result.engine}" if isinstance(result, RedoDone) else result.reason)
