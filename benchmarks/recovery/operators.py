"""Operators, with what the protocols ask of them: input-tuple indicators, processor time, and what is new in a state.

A node has a chain of them (`NodeOperators`). Indicators of a tuple, for each input stream of the node (H 201, 209):
`low`, the oldest tuple needed to produce it; `high`, the latest tuple that contributed. -1: none yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple, Protocol

from benchmarks.recovery.setting import PaperReading, PaperSetting

Marks = tuple[int, ...]


class PaperTuple(NamedTuple):
    """A tuple on a stream: `stream` and `seq` are the same whoever produced it, and however often."""

    stream: int
    seq: int
    low: Marks
    high: Marks


class NodeOperator(Protocol):
    """One box. `inputs`: its input queues. `keeps`: whether it has a state, whose oldest tuple a checkpoint names."""

    inputs: int
    keeps: bool

    def step(self, item: PaperTuple) -> tuple[int, PaperTuple | None]:
        """Process a tuple. Returns the processor time in us, and the output, if any."""
        ...

    def news(self) -> int:
        """How many tuples have entered the state since it was last asked, and are there still (H 115)."""
        ...

    def twin(self) -> NodeOperator:
        """Another one with the same state."""
        ...


class PaperFilter:
    """Passes every tuple: repeatable, selectivity 1 (H 275)."""

    inputs = 1
    keeps = False

    def __init__(self, cost_us: int) -> None:
        self._cost_us = cost_us

    def step(self, item: PaperTuple) -> tuple[int, PaperTuple | None]:
        return self._cost_us, item

    def news(self) -> int:
        return 0

    def twin(self) -> PaperFilter:
        return copy(self)


class PaperUnion:
    """Merges two streams in the order of arrival: arbitrary (H 65)."""

    inputs = 2
    keeps = False

    def __init__(self, cost_us: int) -> None:
        self._cost_us = cost_us
        self._last: Marks = (-1, -1)

    def step(self, item: PaperTuple) -> tuple[int, PaperTuple | None]:
        # Stateless: the indicators of the last tuple processed of each stream (H 201).
        self._last = tuple(item.seq if i == item.stream else mark for i, mark in enumerate(self._last))
        return self._cost_us, PaperTuple(item.stream, item.seq, self._last, self._last)

    def news(self) -> int:
        return 0

    def twin(self) -> PaperUnion:
        return copy(self)


class PaperAggregate:
    """One output for each window of `window` tuples, a window beginning every `advance` tuples: convergent-capable.

    A tuple costs a filter's time for each open window that it falls into: while windows fill after a start from
    nothing it costs less.
    """

    inputs = 1
    keeps = True

    def __init__(self, window: int, advance: int, cost_us: int, leaves_late: bool) -> None:
        self._window = window
        self._advance = advance
        self._cost_us = cost_us
        self._leaves = -advance if leaves_late else 0
        self._held: deque[PaperTuple] = deque()
        self._begins: int | None = None
        """Where the first window began: none is opened in its middle."""
        self._told = -1

    def step(self, item: PaperTuple) -> tuple[int, PaperTuple | None]:
        seq, window, advance = item.seq, self._window, self._advance
        if self._begins is None:
            self._begins = -(-seq // advance) * advance
        if seq < self._begins:
            return 0, None
        self._held.append(item)
        oldest = max(self._begins, (seq - window) // advance * advance + advance)
        cost_us = self._cost_us * max(0, (seq // advance * advance - oldest) // advance + 1)
        start = seq - window + 1
        if start < self._begins or start % advance:
            return cost_us, None
        # The oldest tuple that is in the state as the output is produced (H 201).
        out = PaperTuple(0, start // advance, self._held[0].low, item.high)
        while self._held and self._held[0].seq < start + advance + self._leaves:
            self._held.popleft()
        return cost_us, out

    def news(self) -> int:
        fresh = 0
        for item in reversed(self._held):
            if item.seq <= self._told:
                break
            fresh += 1
        if self._held:
            self._told = self._held[-1].seq
        return fresh

    def twin(self) -> PaperAggregate:
        other = copy(self)
        other._held = self._held.copy()
        return other


class NodeOperators:
    """A node's operators, one after the other."""

    def __init__(self, operators: Sequence[NodeOperator]) -> None:
        self._operators = operators

    @property
    def inputs(self) -> int:
        """Input streams."""
        return self._operators[0].inputs

    def step(self, item: PaperTuple) -> tuple[int, PaperTuple | None]:
        """Process a tuple by all operators that it or what comes of it reaches: us of the processor, and the output."""
        spent_us = 0
        now: PaperTuple | None = item
        for operator in self._operators:
            if now is None:
                break
            cost_us, now = operator.step(now)
            spent_us += cost_us
        return spent_us, now

    def news(self) -> int:
        """Tuples that are new in the states since the last time."""
        return sum(operator.news() for operator in self._operators)

    def positions(self) -> int:
        """Identifiers in a checkpoint: where each input queue was last read, and the oldest tuple of each state."""
        return sum(operator.inputs + operator.keeps for operator in self._operators)

    def twin(self) -> NodeOperators:
        """Another one with the same state."""
        return NodeOperators([operator.twin() for operator in self._operators])


class QueryNetwork(NamedTuple):
    """A query network. `window`, `advance`: in tuples of the node's input, which are ms at 1 000 a second."""

    kind: str = "aggregate"
    window: int = 100
    advance: int = 10
    operators: int = 1

    @property
    def inputs(self) -> int:
        """Input streams."""
        return 2 if self.kind == "union" else 1

    @property
    def spans(self) -> int:
        """How many tuples may stand behind a state, at most."""
        return self.operators * (self.window + self.advance) if self.kind == "aggregate" else 1

    def build(self, setting: PaperSetting, reading: PaperReading) -> NodeOperators:
        """It, with nothing in its state. Further aggregates have as long windows in time, of fewer tuples."""
        if self.kind == "filter":
            return NodeOperators([PaperFilter(setting.filter_us)])
        if self.kind == "union":
            return NodeOperators([PaperUnion(reading.union_us)])
        sizes = [(self.window, self.advance), *[(self.window // self.advance, 1)] * (self.operators - 1)]
        return NodeOperators([PaperAggregate(w, a, setting.filter_us, reading.leaves_late) for w, a in sizes])
