"""The last turns of a replica, for the error that a broken rule raises: what came in, where it stood, what it decided.

Counts and frontiers; no rows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from borealis_py.protocol.turn import Effect, Turn

TURNS = 64
"""So many are kept."""
TAKEN = ("heartbeats", "source records", "stream records", "redo results", "progress records", "writer events")


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn.

    Attributes:
        now: microseconds of the local monotonic clock.
        took: how much came in, of each kind in `TAKEN`.
        f_s, f_l: the frontiers after it. state: likewise.
        effects: the kinds of what it decided, in order.
    """

    now: int
    took: tuple[int, ...]
    f_s: int
    f_l: int
    state: str
    effects: tuple[str, ...]

    def __str__(self) -> str:
        took = ", ".join(f"{n} {kind}" for kind, n in zip(TAKEN, self.took, strict=True) if n)
        decided = ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(self.effects).items()))
        return (
            f"at {self.now / 1e6:.6f} s: took {took or 'nothing'}; F_s {self.f_s}, F_l {self.f_l}, {self.state}; "
            f"decided {decided or 'nothing'}"
        )


class History:
    """The last `TURNS` turns of one replica."""

    def __init__(self) -> None:
        self.turns: deque[TurnRecord] = deque(maxlen=TURNS)

    def add(self, turn: Turn, f_s: int, f_l: int, state: str, effects: Sequence[Effect]) -> None:
        """A turn is over."""
        kinds = tuple(type(effect).__name__ for effect in effects)
        self.turns.append(TurnRecord(turn.now, _took(turn), f_s, f_l, state, kinds))

    def lines(self, turn: Turn) -> list[str]:
        """One line a turn, the latest last: `turn`, which was broken off."""
        last = TurnRecord(turn.now, _took(turn), 0, 0, "", ())
        return [*map(str, self.turns), f"{str(last).partition(';')[0]}; broken off"]


def _took(turn: Turn) -> tuple[int, ...]:
    sources, streams = (sum(map(len, records.values())) for records in (turn.inputs, turn.streams))
    return len(turn.beats), sources, streams, len(turn.redo), len(turn.progress), len(turn.writer)
