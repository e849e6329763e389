"""The last turns of a replica, for the error that a broken rule raises: inputs, frontiers and effects of each.

It keeps counts, headers and frontiers, no rows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from borealis_py.protocol.redo import RedoDone, RedoResult
from borealis_py.protocol.turn import Effect, Turn
from sunion.model import GapRange, SourceRecord, StableRange, StreamRecord
from sunion.units import Bucket, MonotonicUs

T = TypeVar("T")

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
        headers: of these items, one text each.
        f_s, f_l, state: the frontiers and the state after the turn.
        effects: class names of the effects that it returned, in order.
    """

    now: MonotonicUs
    took: tuple[int, ...]
    headers: tuple[str, ...]
    f_s: Bucket
    f_l: Bucket
    state: str
    effects: tuple[str, ...]

    def __str__(self) -> str:
        decided = ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(self.effects).items()))
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
        kinds = tuple(type(effect).__name__ for effect in effects)
        self.turns.append(TurnRecord(turn.now, _took(turn), tuple(_headers(turn)), f_s, f_l, state, kinds))

    def lines(self, turn: Turn) -> list[str]:
        """One line per turn; the last is `turn`, which was broken off by the error."""
        return [*map(str, self.turns), f"{_begun(turn.now, _took(turn), tuple(_headers(turn)))}; broken off"]


def _took(turn: Turn) -> tuple[int, ...]:
    sources, streams = (sum(map(len, records.values())) for records in (turn.inputs, turn.streams))
    return len(turn.beats), sources, streams, len(turn.redo), len(turn.progress), len(turn.writer)


def _begun(now: MonotonicUs, took: tuple[int, ...], headers: tuple[str, ...]) -> str:
    counts = ", ".join(f"{n} {kind}" for kind, n in zip(TAKEN, took, strict=True) if n)
    return f"at {now / 1e6:.6f} s: took {counts or 'nothing'}" + (f" ({', '.join(headers)})" if headers else "")


def _headers(turn: Turn) -> Iterator[str]:
    for offset, beat in turn.beats:
        yield f"r{beat.replica} inc {beat.inc} {beat.state}{' asking' * beat.asking} to {beat.ack_s} at {offset}"
    for i, records in turn.inputs.items():
        yield from (f"input {i} {_source(record)}" for record in _ends(records))
    for i, said in turn.streams.items():
        yield from (f"input {i} r{replica} {_stream(record)}" for replica, record in _ends(said))
    yield from map(_redo, turn.redo)
    yield from (f"published to {bucket}" for bucket in turn.progress)
    yield from map(str, turn.writer)
    if turn.delays is not None:
        yield str(turn.delays)


def _ends(records: Sequence[T]) -> Sequence[T]:
    return records if len(records) <= 2 * ENDS else [*records[:ENDS], *records[-ENDS:]]


def _source(record: SourceRecord) -> str:
    what = "claim" if record.claim else f"{len(record.seqs)} rows to {record.boundary}"
    return f"epoch {record.epoch} {what} at {record.offset}"


def _stream(record: StreamRecord) -> str:
    bucket = f"{record.first} to {record.end}" if isinstance(record, StableRange | GapRange) else record.bucket
    return f"inc {record.inc} {type(record).__name__} {bucket}"


def _redo(result: RedoResult) -> str:
    return f"job {result.id} " + (f"by {result.engine}" if isinstance(result, RedoDone) else result.reason)
