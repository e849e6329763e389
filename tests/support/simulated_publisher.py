"""The production publisher under the simulated clock: real time when idle, or an input through a pump."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from borealis_py.client.ingest import BadLine, InputRow
from borealis_py.client.pump import Pump, ReplayPace
from borealis_py.client.session import PublisherSession
from borealis_py.client.stimes import Boundaries, PublishCounts
from borealis_py.client.target import PublisherError, Target
from borealis_py.log.base import Log
from borealis_py.simulation.clock import Alarm, Scheduler


class SimPublisher:
    """A publisher process. Starts at once; once its client was killed, call `stop`.

    Args:
        log: of this publisher's client.
        rows: published as soon as the source is claimed; more may be sent with `send`.
        pace: of `rows`, which must be in time order.
        end: close the source with END after `rows`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        log: Log,
        target: Target,
        schema: Mapping[str, str],
        uid: str,
        *,
        rows: Iterable[InputRow | BadLine] | None = None,
        pace: ReplayPace | None = None,
        positions: bool = True,
        end: bool = False,
        take_over: bool = False,
        boundaries: Boundaries = Boundaries.CLOCK,
        lateness_us: int | None = None,
        timed: bool = False,
    ) -> None:
        self.error: PublisherError | None = None
        self.stopped = False
        self._scheduler = scheduler
        self._end = end
        self._queued = False
        self._paused = False
        self._alarm = Alarm(scheduler, self._wake)
        self.session = PublisherSession(log, target, schema, uid, self._wake, take_over, boundaries, lateness_us)
        self.pump = None if rows is None else Pump(self, rows, pace, positions, timed)
        self._wake()

    @property
    def ready(self) -> bool:
        return self.session.ready

    @property
    def last_seq(self) -> int:
        return self.session.last_seq

    @property
    def counts(self) -> PublishCounts:
        return self.session.counts

    def send(self, row: Mapping[str, object], stime: int | None = None, seq: int | None = None) -> bool:
        sent = self.session.send(row, stime, seq, self._scheduler.now_us)
        self._wake()
        return sent

    def send_many(
        self,
        rows: Sequence[Mapping[str, object]],
        stimes: Sequence[int | None] | None = None,
        first_seq: int | None = None,
    ) -> int:
        done, sent = self.session.send_many(rows, stimes, first_seq, self._scheduler.now_us)
        for n in range(done, len(rows)):  # nobody waits here for the log
            stime, seq = None if stimes is None else stimes[n], None if first_seq is None else first_seq + n
            sent += self.session.send(rows[n], stime, seq, self._scheduler.now_us)
        self._wake()
        return sent

    def reject(self, raw: bytes, reason: str, seq: int | None = None) -> None:
        self.session.reject(raw, reason, seq, self._scheduler.now_us)
        self._wake()

    def hold(self, stime: int | None) -> None:
        self.session.hold(stime)

    def flush(self) -> None:
        self.session.flush()

    def close(self, end: bool) -> None:
        self.session.close(end)

    def pause(self) -> None:
        """The process stands still (SIGSTOP): it sends nothing until `resume`."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._wake()

    def stop(self) -> None:
        """Stop it for good."""
        self.stopped = True

    def _wake(self) -> None:
        if not self._queued:
            self._queued = True
            self._scheduler.after(0, self._turn)

    def _turn(self) -> None:
        self._queued = False
        if self.stopped or self._paused:
            return
        try:
            self.session.turn(self._scheduler.now_us)
            due = self._pump()
        except PublisherError as exc:
            self.error = exc
            self.stopped = True
            return
        wakeups = [at for at in (self.session.next_wakeup(), due) if at is not None]
        if wakeups:
            self._alarm.set(min(wakeups))

    def _pump(self) -> int | None:
        if self.pump is None or not self.session.ready or self.session.closed:
            return None
        due = None
        while due is None and not self.pump.done:
            due = self.pump.turn(self._scheduler.now_us)
        if self.pump.done and self._end:
            self.session.close(end=True)
        return due
