"""Publisher: rows of one source, in real time. A thread keeps the boundaries going while nobody sends."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from time import time_ns
from types import TracebackType

from borealis_py.client.session import PublisherSession
from borealis_py.client.stimes import Boundaries, PublishCounts
from borealis_py.client.target import AHEAD_MAX_US, PublisherError, PublishFailed, Target
from borealis_py.log.base import Log
from borealis_py.protocol.settings import ROW_MAX_BYTES


def wall_us() -> int:
    """The wall clock in microseconds since 1970."""
    return time_ns() // 1_000


_PORTION = 1_000
"""Rows that are sent in one go."""


class Publisher:
    """Writes one source of an app.

        with Publisher(log, "flights", app_uid, "ewr", schema, bucket_us=100_000, origin=origin) as publisher:
            publisher.send({"carrier": "UA", "dep_delay": 3.0})

    Rows that cannot be published (a field missing or mistyped, an stime that is late, missing or far ahead) travel in
    the source's log as dead letters, which the replicas put into `<app>.deadletter`, and are counted in `counts`. All
    methods may be called from any thread. What was sent lies in the log within a bucket's width.

    Args:
        log: where the app lives.
        app_uid: of its present life, as its description has it.
        schema: field -> "string" | "int64" | "double" | "bool"; any may be null.
        bucket_us: the app's bucket width.
        origin: the app's first bucket.
        take_over: replace a publisher of this source that is at work, instead of refusing to start.
        boundaries: CLOCK for live data, PACED for a replay at a `Pace`, DATA to go by the rows' own times: of history,
            as fast as possible, or where one's own upstream may fall silent (the boundary stands then, too).
        lateness_us: how long after its stime a row may come, of CLOCK and DATA. None: rows get the time at which they
            are sent (CLOCK), or come in the order of their stimes (DATA).
        clock: wall clock in µs.
        ahead_max_us: the furthest that an stime may lie ahead. row_max_bytes: the largest row that the app takes.
    """

    def __init__(
        self,
        log: Log,
        app: str,
        app_uid: str,
        source: str,
        schema: Mapping[str, str],
        bucket_us: int,
        origin: int,
        *,
        take_over: bool = False,
        boundaries: Boundaries = Boundaries.CLOCK,
        lateness_us: int | None = None,
        clock: Callable[[], int] = wall_us,
        ahead_max_us: int = AHEAD_MAX_US,
        row_max_bytes: int = ROW_MAX_BYTES,
    ) -> None:
        self._log = log
        self._target = Target(app, app_uid, source, bucket_us, origin, ahead_max_us, row_max_bytes)
        self._schema = schema
        self._take_over = take_over
        self._boundaries = boundaries
        self._lateness_us = lateness_us
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._wake = threading.Event()
        self._stop = False
        self._begun = 0
        self._error: Exception | None = None
        self._session: PublisherSession | None = None
        self._thread: threading.Thread | None = None

    def start(self, timeout_s: float = 30.0) -> Publisher:
        """Become the source's owner. Takes 1.5 s where somebody else was before, to see whether he still writes.

        Raises:
            StreamTaken: another publisher is at work.
            StreamEnded: END lies in the log.
            StreamForgotten: retention has deleted what tells where to go on.
            LogUnreachable: no broker.
            PublisherError: not done in time, or a lateness that cannot be.
        """
        uid = uuid.uuid4().hex
        self._session = PublisherSession(
            self._log,
            self._target,
            self._schema,
            uid,
            self._wake.set,
            self._take_over,
            self._boundaries,
            self._lateness_us,
        )
        self._thread = threading.Thread(target=self._run, name=f"publisher-{self._target.source}", daemon=True)
        self._thread.start()
        try:
            self._wait(lambda session: session.ready, timeout_s, "claim the source")
        except BaseException:
            self._shut_down()
            raise
        return self

    def send(self, row: Mapping[str, object], stime: int | None = None, seq: int | None = None) -> bool:
        """Publish a row; waits while the log is too far behind.

        Args:
            row: the schema's fields, others are left out.
            stime: µs; None: now.
            seq: the row's position in the input, counted from 0; rows that lie in the log already are then skipped, so
                that an input can be sent again from its beginning after a crash. None: one more than the last.

        Returns:
            False: skipped as already published, or a dead letter.

        Raises:
            StreamFenced: another publisher took the source.
            PublishFailed: the log refused a record.
            PublisherError: an stime, and nothing said about how late rows may come.
        """
        with self._lock:
            session = self._session
            if session is None or self._stop or self._error is not None or session.source.full:
                session = self._accepting()
            sent = session.send(row, stime, seq, self._clock())
            if session.begun != self._begun:
                self._started(session)
            return sent

    def send_many(
        self,
        rows: Iterable[Mapping[str, object]],
        stimes: Iterable[int | None] | None = None,
        first_seq: int | None = None,
    ) -> int:
        """Publish rows, in this order, as `send` would one by one, several times as fast.

        Args:
            stimes: one for each row, in microseconds; None: now.
            first_seq: the first row's position in the input, the others' follow; as `seq` of `send`.

        Returns:
            How many were sent; the others are dead letters, or were published already.

        Raises:
            As `send`; the rows before have been sent then. ValueError: not as many stimes as rows.
        """
        sent = 0
        for portion, times in _portions(rows, stimes):  # whoever makes the rows may take its time, without the lock
            sent += self._send_portion(portion, times, first_seq)
            first_seq = None if first_seq is None else first_seq + len(portion)
        return sent

    def _send_portion(
        self, rows: Sequence[Mapping[str, object]], stimes: Sequence[int | None] | None, first_seq: int | None
    ) -> int:
        at = sent = 0
        with self._lock:
            while at < len(rows):
                session = self._accepting()
                try:
                    done, good = session.send_many(
                        rows[at:],
                        None if stimes is None else stimes[at:],
                        None if first_seq is None else first_seq + at,
                        self._clock(),
                    )
                finally:
                    self._started(session)
                at, sent = at + done, sent + good
        return sent

    def reject(self, raw: bytes, reason: str, seq: int | None = None) -> None:
        """Put input that is no row into the app's dead letters."""
        with self._lock:
            session = self._working()
            session.reject(raw, reason, seq, self._clock())
            self._started(session)

    def _accepting(self) -> PublisherSession:
        """Waits while the log is too far behind."""
        session = self._working()
        while session.full:
            self._changed.wait()
            session = self._working()
        return session

    def _started(self, session: PublisherSession) -> None:
        """The thread lets a batch go in time: it must know that one has begun."""
        if session.begun != self._begun:
            self._begun = session.begun
            self._wake.set()

    def hold(self, stime: int | None) -> None:
        """Let no boundary pass this stime until the next `hold`: a row with it is to come. None: follow the clock.

        For rows that are known before they are due, as in a replay: without it the clock would promise that nothing
        older than now follows, while the next row is still on its way (after a pause, for one), and make it late.
        Only with `Boundaries.PACED`, which begins held.
        """
        with self._lock:
            session = self._working()
            before = session.next_wakeup()
            session.hold(stime)
            changed = session.next_wakeup() != before
        if changed:
            self._wake.set()

    def flush(self, timeout_s: float = 30.0) -> None:
        """Send what is collected and wait until it lies in the log: not for the boundaries that go on meanwhile."""
        with self._lock:
            mark = self._working().flush()
        self._wait(lambda session: session.delivered(mark), timeout_s, "deliver its rows")

    @property
    def paced(self) -> bool:
        """Boundaries wait for `hold`."""
        return self._boundaries is Boundaries.PACED

    @property
    def last_seq(self) -> int:
        """The last row that is published."""
        with self._lock:
            return self._working().last_seq

    @property
    def counts(self) -> PublishCounts:
        """Rows sent, rejected, skipped; how late they came."""
        return PublishCounts() if self._session is None else self._session.counts

    def close(self, end: bool = False, timeout_s: float = 30.0) -> None:
        """Send what is left and wait until it lies in the log.

        Args:
            end: also send END. The source is complete then; nothing can ever follow.

        Raises:
            PublisherError: not all could be delivered.
        """
        if self._session is None or self._thread is None:
            return
        try:
            with self._lock:
                if self._error is None:
                    self._session.close(end)
            self._wait(lambda session: session.settled, timeout_s, "deliver its last rows")
        finally:
            self._shut_down()

    def __enter__(self) -> Publisher:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._shut_down()

    def _run(self) -> None:
        session = self._session
        assert session is not None
        while True:
            self._wake.clear()
            with self._lock:
                if self._stop:
                    return
                try:
                    session.turn(self._clock())
                except Exception as exc:  # handed to whoever calls next: a thread has nobody to raise to
                    self._error = exc
                self._changed.notify_all()
                if self._error is not None:
                    return
                due, collecting = session.next_wakeup(), session.collecting
            wait_s = None if due is None else max(0.0, (due - self._clock()) / 1e6)
            # a clock that was set back must not keep rows waiting
            self._wake.wait(min(wait_s or 0.0, self._target.bucket_us / 1e6) if collecting else wait_s)

    def _working(self) -> PublisherSession:
        if self._error is not None:
            raise self._error
        if self._session is None or self._stop:
            raise PublisherError(f"source {self._target.source!r}: this publisher is not started or is closed")
        return self._session

    def _wait(self, condition: Callable[[PublisherSession], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while not condition(self._working()):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise PublishFailed(
                        f"source {self._target.source!r} of app {self._target.app!r}: could not {what} within "
                        f"{timeout_s:g} s. Is the broker reachable?"
                    )
                self._changed.wait(left)

    def _shut_down(self) -> None:
        with self._lock:
            self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            if self._session is not None:
                self._session.release()


def _portions(
    rows: Iterable[Mapping[str, object]], stimes: Iterable[int | None] | None
) -> Iterator[tuple[list[Mapping[str, object]], list[int | None] | None]]:
    """The rows a portion at a time, with their stimes."""
    left, right = iter(rows), None if stimes is None else iter(stimes)
    while True:
        portion, times = list(islice(left, _PORTION)), None if right is None else list(islice(right, _PORTION))
        if times is not None and len(times) != len(portion):
            fewer = "fewer" if len(times) < len(portion) else "more"
            raise ValueError(f"send_many: {fewer} stimes than rows")
        if not portion:
            return
        yield portion, times
