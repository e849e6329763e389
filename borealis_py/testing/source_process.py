"""The publisher of a source in a user's world: the production session, with an input that outlives it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from borealis_py.client.rows import raw_json
from borealis_py.client.session import PublisherSession
from borealis_py.client.stimes import Boundaries
from borealis_py.client.target import PublisherError, StreamEnded, Target
from borealis_py.log.base import Log, LogError
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.processes import Process
from borealis_py.testing.rows import GivenRow
from borealis_py.testing.timed_queue import TimedQueue


class SourceInput:
    """What a source is to publish. Its position in `due` is a row's sequence number, so that a publisher that starts
    again goes on where the log ends.
    """

    def __init__(self) -> None:
        self.due: list[GivenRow] = []
        """Rows whose time has come, in the order in which they are sent."""
        self.ended = False
        """No row follows."""
        self._later = TimedQueue[GivenRow]()

    def add(self, rows: Sequence[GivenRow], now_us: int) -> None:
        """Rows to be sent when their time comes; at once if it has passed, or cannot be read."""
        for row in rows:
            self._later.add(row, now_us if row.stime is None else max(now_us, row.stime))

    def release(self, now_us: int) -> None:
        """Move what is due by now into `due`."""
        self.due += [row for _, row in self._later.take(now_us)]

    @property
    def next_us(self) -> int | None:
        """When the next row is due; None: none is left."""
        return self._later.next_us

    @property
    def last_us(self) -> int:
        """When the last row is due; 0: none is left."""
        return self._later.last_us

    def oldest_from(self, seq: int) -> int | None:
        """The smallest time of the rows from `seq` on, due or not; None: there are none."""
        stimes = [row.stime for row in self.due[seq:] if row.stime is not None]
        stimes += [] if self.next_us is None else [self.next_us]
        return min(stimes, default=None)


class SourceProcess(Process):
    """Sends each row when its time has come. Boundaries follow the clock, so that silence means that nothing happened.

    Args:
        lateness_us: 0: a boundary never passes a row that waits, so a publisher that was away makes no row late that
            was in time. More: boundaries follow the clock by this much, as for any publisher with a lateness.
        ended: called when it cannot go on. over: called when it has published END.

    Raises:
        LogError: the log cannot be reached.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        log: Log,
        target: Target,
        schema: dict[str, str],
        input_: SourceInput,
        lateness_us: int,
        ended: Callable[[Process], None],
        over: Callable[[], None],
        rng: random.Random,
    ) -> None:
        super().__init__(scheduler, name, rng, (200, 500))
        self._input = input_
        self._ended = ended
        self._over = over
        self._paced = lateness_us == 0
        how = (Boundaries.PACED, None) if self._paced else (Boundaries.CLOCK, lateness_us)
        self.session = PublisherSession(log, target, schema, name, self.wake, False, *how)

    def turn(self) -> int | None:
        now_us, session = self.scheduler.now_us, self.session
        was_ready = session.ready
        try:
            if was_ready and not session.closed:
                self._send(now_us)
            session.turn(now_us)
        except StreamEnded:
            self._over()
            return None
        except (PublisherError, LogError):
            self._ended(self)
            return None
        if session.ready and not was_ready:
            return now_us
        dues = (session.next_wakeup(), self._input.next_us if session.ready else None)
        return min((at for at in dues if at is not None), default=None)

    def _send(self, now_us: int) -> None:
        session, input_ = self.session, self._input
        input_.release(now_us)
        seq = session.last_seq + 1
        self._hold(seq)
        while seq < len(input_.due) and not session.full:
            row = input_.due[seq]
            if row.stime is None:
                session.reject(raw_json(row.values), row.reason, seq, now_us)
            else:
                session.send(row.values, row.stime, seq, now_us)
            seq += 1
        self._hold(seq)
        if input_.ended and input_.next_us is None and seq == len(input_.due):
            session.close(end=True)

    def _hold(self, seq: int) -> None:
        if self._paced:
            self.session.hold(self._input.oldest_from(seq))

    def close(self) -> None:
        """Nothing to say: its input goes on without it."""
