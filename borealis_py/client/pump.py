"""Feeds an input to a publisher: in real time, paced, or as fast as possible; with resume and progress reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from borealis_py.client.items import BadLine, InputRow, Items, RowRun
from borealis_py.client.publisher import Publisher, wall_us
from borealis_py.client.stimes import PublishCounts

PROGRESS_ROWS = 1_000
"""Maximum number of rows between two progress reports."""


@dataclass(frozen=True, slots=True)
class ReplayPace:
    """Replays history: what happened at `base_us` is published at `start_us`, and from there `speed` times as fast.

    Attributes:
        speed: a positive integer, so that every run gives the same stimes.
    """

    base_us: int
    start_us: int
    speed: int

    def __post_init__(self) -> None:
        if self.speed < 1:
            raise ValueError(f"the speed of a replay must be a whole number of at least 1, got {self.speed}")

    def stime(self, at_us: int) -> int:
        """The stime for an event that happened at `at_us`."""
        return self.start_us + (at_us - self.base_us) // self.speed


@dataclass(frozen=True, slots=True)
class PumpProgress:
    """How far an input has been published, in rows. `read`: taken from the input; of these `sent`: handed to the log,
    `rejected`: made dead letters, `skipped`: already in the log. `reasons`: of the first few rejected rows, with their
    lines."""

    read: int
    sent: int
    rejected: int
    skipped: int
    reasons: tuple[str, ...] = ()


class Sink(Protocol):
    """Where a pump writes to: a `Publisher`, or in the simulator a `PublisherSession` with its clock."""

    @property
    def last_seq(self) -> int: ...

    @property
    def counts(self) -> PublishCounts: ...

    def send(self, row: Mapping[str, object], stime: int | None, seq: int | None) -> bool: ...

    def send_many(
        self,
        rows: Sequence[Mapping[str, object]],
        stimes: Sequence[int | None] | None = None,
        first_seq: int | None = None,
    ) -> int: ...

    def reject(self, raw: bytes, reason: str, seq: int | None) -> None: ...

    def hold(self, stime: int | None) -> None: ...

    def flush(self) -> None: ...


class Pump:
    """Moves rows, each as soon as it is due. Never waits itself.

    Args:
        pace: None: each row is sent as soon as it is read. With a pace, the sink's boundaries must be PACED, so that
            rows which were due while no publisher ran are not late.
        positions: use each row's position in the input as its sequence number, so that a second run on the same input
            resumes where the log ends (B6). Not for inputs that never repeat, such as a live pipe.
        timed: rows carry their own times, and one without is a dead letter; otherwise they get the time at which they
            are sent.
    """

    def __init__(
        self,
        sink: Sink,
        rows: Items | Iterable[InputRow | BadLine],
        pace: ReplayPace | None = None,
        positions: bool = True,
        timed: bool = False,
    ) -> None:
        self.done = False
        self.read = 0
        self._sink = sink
        self._rows = rows if isinstance(rows, Items) else Items(rows)
        self._pace = pace
        self._positions = positions
        self._timed = timed
        self._next: InputRow | BadLine | None = None
        self._refused_before = len(sink.counts.refused)
        self._reasons: list[str] = []

    def turn(self, now_us: int, rows_max: int = PROGRESS_ROWS) -> int | None:
        """Send the rows due by now, at most `rows_max`.

        Returns:
            When the next row is due (µs); None: at once or never (see `done`).
        """
        if self._pace is None:
            self._send_at_once(rows_max)
            return None
        for _ in range(rows_max):
            item = self._peek()
            if item is None:
                self._end()
                return None
            due = self._due(item)
            if due is not None:
                self._sink.hold(due)
                if due > now_us:
                    return due
            self._next = None
            self._send(item, due)
        return None

    def progress(self) -> PumpProgress:
        counts = self._sink.counts
        return PumpProgress(self.read, counts.sent, counts.rejected, counts.skipped, tuple(self._reasons))

    def _end(self) -> None:
        self._sink.hold(None)
        self._sink.flush()
        self.done = True

    def _send_at_once(self, rows_max: int) -> None:
        """Send rows that have no due time, in runs as large as available."""
        while rows_max > 0:
            item = self._rows.next_run(rows_max)
            if item is None:
                self._end()
                return
            count = len(item) if isinstance(item, RowRun) else 1
            self.read += count
            rows_max -= count
            if not isinstance(item, RowRun):
                self._send(item, None)
            elif item.at_us is not None and None in item.at_us:
                for n in range(count):
                    self._send(item.row(n), None)
            else:
                first = item.position if self._positions else self._sink.last_seq + 1
                self._sink.send_many(item.values, item.at_us, item.position if self._positions else None)
                self._explain(item.line, first)

    def _peek(self) -> InputRow | BadLine | None:
        if self._next is None:
            self._next = next(self._rows, None)
            self.read += self._next is not None
        return self._next

    def _due(self, item: InputRow | BadLine) -> int | None:
        if self._pace is None or isinstance(item, BadLine) or item.at_us is None:
            return None
        if self._positions and item.position <= self._sink.last_seq:
            return None  # already in the log: nothing to wait for
        return self._pace.stime(item.at_us)

    def _explain(self, line: int, first: int | None = None) -> None:
        """Note the reasons of what was just rejected, by line: a sink knows sequence numbers only.

        `line`: of the row with sequence number `first`; None: of the only row.
        """
        for seq, reason in self._sink.counts.refused[self._refused_before + len(self._reasons) :]:
            where = f"line {line if first is None else line + seq - first}: "
            self._reasons.append(where + reason.removeprefix(where))

    def _send(self, item: InputRow | BadLine, due: int | None) -> None:
        seq = item.position if self._positions else None
        if isinstance(item, BadLine):
            self._sink.reject(item.raw, f"line {item.line}: {item.reason}", seq)
        elif self._untimed(item, due) and (seq is None or seq > self._sink.last_seq):
            self._sink.reject(item.raw, f"line {item.line}: stime missing", seq)
        else:
            self._sink.send(item.values, item.at_us if self._pace is None else due, seq)
        self._explain(item.line)

    def _untimed(self, item: InputRow, due: int | None) -> bool:
        return due is None if self._pace is not None else self._timed and item.at_us is None


def publish_rows(
    publisher: Publisher,
    rows: Items | Iterable[InputRow | BadLine],
    pace: ReplayPace | None = None,
    positions: bool = True,
    on_progress: Callable[[PumpProgress], None] | None = None,
    stop: threading.Event | None = None,
    clock: Callable[[], int] = wall_us,
    timed: bool = False,
) -> PumpProgress:
    """Publish an input to its end, or until `stop` is set. The publisher stays open; the caller closes it.

    Args:
        pace: requires a publisher with `Boundaries.PACED`.
        positions, timed: as for `Pump`.
        on_progress: called about every second, and at the end.

    Raises:
        PublisherError: as `Publisher.send`.
        ValueError: a pace without `Boundaries.PACED`, or the other way round.
    """
    if (pace is not None) != publisher.paced:
        raise ValueError(
            "a pace needs Publisher(boundaries=Boundaries.PACED), and that needs a pace: they belong together"
        )
    pump = Pump(publisher, rows, pace, positions, timed)
    stop = stop or threading.Event()
    told = time.monotonic()
    while not pump.done and not stop.is_set():
        due = pump.turn(clock())
        if on_progress is not None and time.monotonic() - told >= 1.0:
            told = time.monotonic()
            on_progress(pump.progress())
        if due is not None:
            stop.wait(min(1.0, max(0.0, (due - clock()) / 1e6)))
    if on_progress is not None:
        on_progress(pump.progress())
    return pump.progress()
