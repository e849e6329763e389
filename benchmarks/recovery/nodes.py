"""The nodes: Nu that feeds, N or N' that works, Nd that reads (Figure 1 of the paper)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from benchmarks.recovery.events import EventClock
from benchmarks.recovery.operators import Marks, NodeOperators, PaperTuple


class OutputQueue:
    """What a node has produced and may have to send again, numbered from 0 in its order (H 27)."""

    def __init__(self) -> None:
        self._items: deque[PaperTuple] = deque()
        self._first = 0

    def __iter__(self) -> Iterator[PaperTuple]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def end(self) -> int:
        """The number of the next one."""
        return self._first + len(self._items)

    def append(self, item: PaperTuple) -> int:
        """Returns its number."""
        self._items.append(item)
        return self.end - 1

    def at(self, number: int) -> PaperTuple | None:
        """The tuple of a number. None: it is not here."""
        return self._items[number - self._first] if self._first <= number < self.end else None

    def trim(self, number: int) -> None:
        """Let go everything before this number."""
        while self._items and self._first < number:
            self._drop()

    def trim_high(self, high: Marks) -> None:
        """Let go what was made of these input tuples, or of older ones, alone (H 209)."""
        while self._items and all(mark <= limit for mark, limit in zip(self._items[0].high, high, strict=True)):
            self._drop()

    def _drop(self) -> None:
        self._items.popleft()
        self._first += 1

    def twin(self) -> OutputQueue:
        """Another one with the same content."""
        other = OutputQueue()
        other._items, other._first = self._items.copy(), self._first
        return other


class Upstream:
    """Nu: emits tuples at a steady rate, logs them if it has to, and sends them to who is to get them."""

    def __init__(self, inputs: int, logs: bool) -> None:
        self.inputs = inputs
        self.log: deque[PaperTuple] = deque()
        self.kept_from = [0] * inputs
        """Of each stream, the first tuple that is still wanted."""
        self.targets: list[Callable[[PaperTuple], None]] = []
        self._logs = logs
        self._next = [0] * inputs

    def emit(self, stream: int) -> None:
        """The next tuple of a stream. It is its own indicator (H 201)."""
        seq = self._next[stream]
        self._next[stream] = seq + 1
        marks = tuple(seq if i == stream else -1 for i in range(self.inputs))
        item = PaperTuple(stream, seq, marks, marks)
        if self._logs:
            self.log.append(item)
        for send in self.targets:
            send(item)

    def trim(self, stream: int, seq: int) -> None:
        """Let go the tuples of a stream before this one."""
        self.kept_from[stream] = max(self.kept_from[stream], seq)
        while self.log and self.log[0].seq < self.kept_from[self.log[0].stream]:
            self.log.popleft()

    def wanted(self) -> list[PaperTuple]:
        """The tuples in its output queues, in the order in which they were emitted."""
        return [item for item in self.log if item.seq >= self.kept_from[item.stream]]


class WorkingNode:
    """N or N': processes one tuple after the other, and hands each output to `sends` when it is done.

    Attributes:
        received, done: of each input stream, the last tuple that came, and the last one processed.
        confirmed: the number of the output tuple from which on Nd has acknowledged nothing.
    """

    def __init__(self, clock: EventClock, fragment: NodeOperators) -> None:
        self.fragment = fragment
        self.queue = OutputQueue()
        self.received = [-1] * fragment.inputs
        self.done = [-1] * fragment.inputs
        self.confirmed = 0
        self.alive = True
        self.sends: Callable[[int, PaperTuple], None] = lambda number, item: None
        self.processed: Callable[[PaperTuple], None] = lambda item: None
        self._clock = clock
        self._waiting: deque[tuple[PaperTuple, int]] = deque()
        self._busy = False
        self._between: list[Callable[[], None]] = []

    def take(self, item: PaperTuple, more_us: int = 0) -> None:
        """A tuple has arrived. `more_us`: what receiving it costs the processor. What it has had already is left."""
        if not self.alive or item.seq <= self.received[item.stream]:
            return
        self.received[item.stream] = item.seq
        self._waiting.append((item, more_us))
        if not self._busy:
            self._begin()

    def between(self, call: Callable[[], None]) -> None:
        """Call it when no tuple is being processed: now, or after this one."""
        if self._busy:
            self._between.append(call)
        elif self.alive:
            call()

    def _begin(self) -> None:
        item, more_us = self._waiting.popleft()
        self._busy = True
        cost_us, out = self.fragment.step(item)
        self._clock.at(self._clock.now_us + cost_us + more_us, self._end, item, out)

    def _end(self, item: PaperTuple, out: PaperTuple | None) -> None:
        if not self.alive:
            return
        self._busy = False
        self.done[item.stream] = item.seq
        if out is not None:
            self.sends(self.queue.append(out), out)
        self.processed(item)
        calls, self._between = self._between, []
        for call in calls:
            call()
        if self._waiting:
            self._begin()


class Downstream:
    """Nd: knows each output tuple that it got, and how many came again."""

    def __init__(self) -> None:
        self.got: set[tuple[int, int]] = set()
        self.next = 0
        """The number, of its sender, of the output that it expects next."""
        self.again = 0

    def take(self, number: int, item: PaperTuple) -> None:
        """An output tuple has arrived."""
        self.next = number + 1
        key = item.stream, item.seq
        self.again += key in self.got
        self.got.add(key)

    def lost(self) -> int:
        """Output tuples that lie between two that it got, and that it never got."""
        missing = 0
        for stream in {stream for stream, _ in self.got}:
            seqs = [seq for one, seq in self.got if one == stream]
            missing += max(seqs) - min(seqs) + 1 - len(seqs)
        return missing
