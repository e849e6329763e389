"""The last turns of a replica, for the error that a broken rule raises: inputs, frontiers and effects of each.

It keeps counts and frontiers, no rows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from borealis_py.protocol.turn import Effect, Turn
from sunion.units import Bucket, MonotonicUs

TURNS = 64
"""How many turns are kept."""
TAKEN = ("heartbeats", "source records", "stream records", "redo results", "progress records", "writer events")


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn.

    Attributes:
        now: microseconds of the local monotonic clock.
        took: how many items of each kind in `TAKEN` came in.
        f_s, f_l, state: the frontiers and the state after the turn.
        effects: class names of the effects that it returned, in order.
    """

    now: MonotonicUs
    took: tuple[int, ...]
    f_s: Bucket
    f_l: Bucket
    state: str
    effects: tuple[str, ...]

    def __str__(self) -> str:
        decided = ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(self.effects).items()))
        return (
            f"{_begun(self.now, self.took)}; F_s {self.f_s}, F_l {self.f_l}, {self.state}; "
            f"decided {decided or 'nothing'}"
        )


class History:
    """The last `TURNS` turns of one replica."""

    def __init__(self) -> None:
        self.turns: deque[TurnRecord] = deque(maxlen=TURNS)

    def add(self, turn: Turn, f_s: Bucket, f_l: Bucket, state: str, effects: Sequence[Effect]) -> None:
        """Record a turn that is over."""
        kinds = tuple(type(effect).__name__ for effect in effects)
        self.turns.append(TurnRecord(turn.now, _took(turn), f_s, f_l, state, kinds))

    def lines(self, turn: Turn) -> list[str]:
        """One line per turn; the last is `turn`, which was broken off by the error."""
        return [*map(str, self.turns), f"{_begun(turn.now, _took(turn))}; broken off"]


def _took(turn: Turn) -> tuple[int, ...]:
    sources, streams = (sum(map(len, records.values())) for records in (turn.inputs, turn.streams))
    return len(turn.beats), sources, streams, len(turn.redo), len(turn.progress), len(turn.writer)


def _begun(now: MonotonicUs, took: tuple[int, ...]) -> str:
    counts = ", ".join(f"{n} {kind}" for kind, n in zip(TAKEN, took, strict=True) if n)
    return f"at {now / 1e6:.6f} s: took {counts or 'nothing'}"
