"""Ways to run one redo job, and the live turns that a replica runs meanwhile.

Everything runs in one loop, as in a replica: a slice of an inline redo and a live turn compete for time, a thread takes
some of the interpreter's, and a job on Spark some of the machine's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from borealis_py.bench.figures import BenchError
from borealis_py.bench.redo import DEADLINE_S, Bits, bits
from borealis_py.log.base import Record
from borealis_py.log.codec import SourceCodec
from borealis_py.log.description import Life
from borealis_py.log.kernel import Kernel
from borealis_py.log.source_records import decode_source
from borealis_py.protocol.input_state import InputState
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob
from borealis_py.protocol.settings import Timing
from reconcile.redo_client import RedoRunner
from sunion.model import Output, State
from sunion.units import Bucket

WallClock = Callable[[], float]
"""Monotonic seconds."""
Result = tuple[State, Mapping[int, Output]]
"""The state after a job, and what came out of it."""
AFTER = -1
"""Stands for the state where buckets are keys."""
WORD_S = 0.1
"""A live turn is due so often: a bucket's width."""


class RedoWay(Protocol):
    """One way to run a job. Its results are valid once `turn` returns True."""

    def start_job(self) -> None: ...

    def turn(self) -> bool:
        """Do the work that is due in the loop. True: the job is done."""

    @property
    def idle(self) -> bool:
        """There is nothing to do in the loop until the bell rings."""

    @property
    def refusals(self) -> int:
        """How many jobs of it were refused by whom they were asked of, and ran from memory."""

    @property
    def results(self) -> list[Result]:
        """Of each of its jobs."""


class Inline:
    """From memory, in slices of a turn (R4.3).

    Args:
        intake: holds all rows of the job. width_us: of a bucket.
    """

    def __init__(self, job: RedoJob, intake: InputState, kernel: Kernel, timing: Timing, width_us: int) -> None:
        self._job = job
        self._intake = intake
        self._kernel = kernel
        self._timing = timing
        self._width_us = width_us
        self._outputs: dict[int, Output] = {}

    def start_job(self) -> None:
        self._pace = Pace(self._timing, self._width_us)
        self._at, self._state, self._turned = self._job.first, self._job.state, time.monotonic()

    def turn(self) -> bool:
        now = time.monotonic()
        self._pace.turn(round((now - self._turned) * 1e6), waited=False)
        self._turned = now
        end, _ = self._intake.slice(self._at, self._job.end, self._pace, self._timing.slice_buckets)
        ordered = self._intake.union.ordered(self._at, end)
        self._state, outputs = self._kernel.step(self._state, self._at, end, ordered)
        self._outputs.update(outputs)
        self._at = end
        return end >= self._job.end

    @property
    def idle(self) -> bool:
        return False

    @property
    def refusals(self) -> int:
        return 0

    @property
    def results(self) -> list[Result]:
        return [(self._state, self._outputs)]


class Quiet:
    """No job at all, for the given time."""

    refusals = 0
    idle = True

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = 0.0

    def start_job(self) -> None:
        self._end = time.monotonic() + self._seconds

    def turn(self) -> bool:
        return time.monotonic() >= self._end

    @property
    def results(self) -> list[Result]:
        return []


class SubmittedRedo:
    """By a runner of redos; from memory if that refuses, as a replica does.

    Args:
        inline: None: a refusal is an error.
    """

    def __init__(self, job: RedoJob, redo: RedoRunner, inline: Inline | None = None) -> None:
        self._job = job
        self._redo = redo
        self._inline = inline
        self._done: RedoDone | None = None
        self._refused = ""

    def start_job(self) -> None:
        self._redo.submit_job(self._job)

    def turn(self) -> bool:
        if self._refused:
            assert self._inline is not None
            return self._inline.turn()
        for answer in self._redo.poll_results():
            if not isinstance(answer, RedoFailed):
                self._done = answer
            elif self._inline is None:
                raise BenchError(f"a redo failed: {answer.reason}")
            else:
                self._refused = answer.reason
                self._inline.start_job()
        return self._done is not None

    @property
    def idle(self) -> bool:
        return not self._refused

    @property
    def refusals(self) -> int:
        return int(bool(self._refused))

    @property
    def results(self) -> list[Result]:
        if self._done is not None:
            return [(self._done.state, self._done.outputs)]
        return [] if self._inline is None else self._inline.results


class AtOnce:
    """Several jobs at the same time, of nodes that one failure struck."""

    def __init__(self, ways: Sequence[RedoWay]) -> None:
        self._ways = ways
        self._left: list[RedoWay] = []

    def start_job(self) -> None:
        self._left = list(self._ways)
        for way in self._ways:
            way.start_job()

    def turn(self) -> bool:
        self._left = [way for way in self._left if not way.turn()]
        return not self._left

    @property
    def idle(self) -> bool:
        return all(way.idle for way in self._left)

    @property
    def refusals(self) -> int:
        return sum(way.refusals for way in self._ways)

    @property
    def results(self) -> list[Result]:
        return [result for way in self._ways for result in way.results]


class LiveTurns:
    """What comes meanwhile: a bucket's records of every source each tenth of a second, run live at once.

    Args:
        records: of each bucket, by source, without end. codecs: of each source, and its name.
        first: of their buckets.
    """

    def __init__(
        self,
        records: Iterator[Sequence[Record]],
        codecs: Sequence[tuple[str, SourceCodec]],
        life: Life,
        intake: InputState,
        kernel: Kernel,
        first: int,
        clock: WallClock = time.monotonic,
    ) -> None:
        self._records = records
        self._codecs = codecs
        self._life = life
        self._intake = intake
        self._kernel = kernel
        self._clock = clock
        self._bucket = Bucket(first)
        self._state = kernel.initial()
        self.due = 0.0
        """When the next one is, by the clock."""
        self.late_s = 0.0
        """How late the latest ended since `begin`."""

    def begin(self) -> None:
        """The first turn is due now."""
        self.due, self.late_s = self._clock(), 0.0

    def catch_up(self) -> None:
        """Run the turns that are due."""
        while self.due <= self._clock():
            self._turn(next(self._records))
            self.late_s = max(self.late_s, self._clock() - self.due)
            self.due += WORD_S

    def _turn(self, records: Sequence[Record]) -> None:
        intake, bucket = self._intake, self._bucket
        for index, (record, (name, codec)) in enumerate(zip(records, self._codecs, strict=True)):
            intake.union.feed_all(index, [decode_source(record, codec, name, self._life)])
        self._state, outputs = self._kernel.step(self._state, bucket, bucket + 1, intake.ordered_live(bucket))
        for output in outputs.values():
            if output.rows is not None:
                self._kernel.encode(output.rows)
        intake.union.forget(bucket + 1)
        self._bucket = Bucket(bucket + 1)


class Ringing:
    """A wake function that a loop waits for, until its next turn is due."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def __call__(self) -> None:
        self._rung.set()

    def wait(self, seconds: float) -> None:
        self._rung.wait(max(0.0, seconds))
        self._rung.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run. `late_s`: the longest that a live turn ended after it was due."""

    seconds: float
    late_s: float
    results: list[Result]


def ran(way: RedoWay, live: LiveTurns, bell: Ringing) -> Ran:
    """Run a job while live turns go on.

    Raises:
        BenchError: it failed, or did not end in time.
    """
    live.begin()
    began = time.monotonic()
    way.start_job()
    while not way.turn():
        live.catch_up()
        if way.idle:
            bell.wait(live.due - time.monotonic())
        if time.monotonic() > began + DEADLINE_S:
            raise BenchError(f"a redo did not end within {DEADLINE_S:g} s")
    seconds = time.monotonic() - began
    live.catch_up()
    return Ran(seconds=seconds, late_s=live.late_s, results=way.results)


def bits_of(result: Result, kernel: Kernel) -> Bits:
    """A hash of each bucket's rows, and of the state."""
    state, outputs = result
    return {**bits(outputs), AFTER: sha256(kernel.encode_state(state)).hexdigest()}
