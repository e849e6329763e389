"""Publisher: writes rows of one source in real time. A thread advances the boundaries while nothing is sent."""

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
from borealis_py.client.target import PublisherError, PublishFailed, Target
from borealis_py.log.base import Log
from borealis_py.protocol.settings import ROW_MAX_BYTES

LOOK_S = 1.0
"""How long a publisher waits by a clock at most before it looks at it again: it may have been set right meanwhile."""


def wall_us() -> int:
    """The wall clock in microseconds since 1970."""
    return time_ns() // 1_000


_PORTION = 1_000
"""Number of rows sent together."""


class Publisher:
    """Writes one source of an app. `borealis_py.publisher` makes one for a running app.

        with publisher("ewr") as ewr:
            ewr.send({"carrier": "UA", "dep_delay": 3.0})

    Rows that cannot be published (a field missing or mistyped; an stime that is late, missing or far ahead) are sent in
    the source's log as dead letters, which the replicas write to `<app>.deadletter`, and are counted in `counts`. All
    methods are thread-safe. A row is in the log within a bucket's width.

    Args:
        log: the log that hosts the app.
        app_uid: of the app's current life, from its description.
        schema: field -> column type, as in `App.source`; any may be null.
        bucket_us: the app's bucket width.
        origin: the app's first bucket.
        take_over: replace an active publisher of this source instead of refusing to start.
        boundaries: CLOCK for live data; PACED for a replay at a `Pace`; DATA to follow the rows' own times: for
            history, as fast as possible, or if the upstream of this publisher may fall silent (the boundary stops then,
            too).
        lateness_us: for CLOCK and DATA, how long after its stime a row may arrive. None: rows get the time at which
            they are sent (CLOCK), or arrive in stime order (DATA).
        clock: wall clock in µs.
        ahead_max_us: how far an stime may lie ahead.
        row_max_bytes: maximum size of a row in this app.
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
        ahead_max_us: int,
        take_over: bool = False,
        boundaries: Boundaries = Boundaries.CLOCK,
        lateness_us: int | None = None,
        clock: Callable[[], int] = wall_us,
        row_max_bytes: int = ROW_MAX_BYTES,
    ) -> None:
        self._log = log
        self._target = Target(
            app, app_uid, source, bucket_us, origin, ahead_max_us=ahead_max_us, row_max_bytes=row_max_bytes
        )
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
        """Become the source's owner. Takes 1.5 s if there was another one, to see whether that still writes.

        Raises:
            StreamTaken: another publisher is active.
            StreamEnded: the source has ended: END is in its log.
            StreamForgotten: retention has deleted the records that show where to resume.
            LogUnreachable: no broker.
            PublisherError: not done in time, or an invalid lateness.
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
        """Publish a row; blocks while the log is too far behind.

        Args:
            row: the schema's fields; other fields are ignored. A timestamp is a datetime with a time zone, a decimal a
                Decimal, int or text, a binary value bytes, a json value anything that JSON can say.
            stime: µs; None: now.
            seq: the row's position in the input, counted from 0. Rows that are already in the log are skipped, so that
                an input can be sent again from its beginning after a crash. None: one more than the last.

        Returns:
            False: the row was skipped as already published, or is a dead letter.

        Raises:
            StreamFenced: another publisher took the source.
            PublishFailed: the log refused a record.
            PublisherError: `stime` is given, but the publisher has no lateness.
        """
        with self._lock:
            session = self._session
            if session is None or self._stop or self._error is not None or session.source.full:
                session = self._accepting()
            sent = session.send(row, stime, seq, self._clock())
            if session.lingering.begun != self._begun:
                self._started(session)
            return sent

    def send_many(
        self,
        rows: Iterable[Mapping[str, object]],
        stimes: Iterable[int | None] | None = None,
        first_seq: int | None = None,
    ) -> int:
        """Publish rows in this order. Same result as `send` for each, but several times faster.

        Args:
            stimes: one per row, in microseconds; None: now.
            first_seq: the first row's position in the input; the others follow. See `seq` of `send`.

        Returns:
            Number of rows sent; the others are dead letters, or were already published.

        Raises:
            Same as `send`; the rows before have been sent then. ValueError: fewer or more stimes than rows.
        """
        sent = 0
        for portion, times in _portions(rows, stimes):  # outside the lock: the caller's iterators may be slow
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
        """Send input that is not a row to the app's dead letters."""
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
        """Wake the thread when a batch has begun: it must send it in time."""
        if session.lingering.begun != self._begun:
            self._begun = session.lingering.begun
            self._wake.set()

    def hold(self, stime: int | None) -> None:
        """Hold the boundary at this stime until the next `hold`: a row with it will follow. None: follow the clock.

        For rows that are known before they are due, as in a replay. Without it, the clock would promise that nothing
        older than now follows while the next row is still on its way (for example after a pause), and make that row
        late. Only with `Boundaries.PACED`, which starts held.
        """
        with self._lock:
            session = self._working()
            before = session.next_wakeup()
            session.hold(stime)
            changed = session.next_wakeup() != before
        if changed:
            self._wake.set()

    def flush(self, timeout_s: float = 30.0) -> None:
        """Send the current batch and wait until it is in the log. Does not wait for boundaries sent meanwhile."""
        with self._lock:
            mark = self._working().flush()
        self._wait(lambda session: session.delivered(mark), timeout_s, "deliver its rows")

    @property
    def paced(self) -> bool:
        """Whether boundaries wait for `hold`."""
        return self._boundaries is Boundaries.PACED

    @property
    def last_seq(self) -> int:
        """Sequence number of the last published row."""
        with self._lock:
            return self._working().last_seq

    @property
    def counts(self) -> PublishCounts:
        """Rows sent, rejected and skipped, and their lateness."""
        return PublishCounts() if self._session is None else self._session.counts

    def close(self, end: bool = False, timeout_s: float = 30.0) -> None:
        """Send the remaining rows and wait until they are in the log.

        Args:
            end: also send END: the source is complete, and nothing can ever follow.

        Raises:
            PublisherError: not everything could be delivered.
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
                except Exception as exc:  # passed to the next caller: a thread has no one to raise to
                    self._error = exc
                self._changed.notify_all()
                if self._error is not None:
                    return
                due, collecting = session.next_wakeup(), session.collecting
            wait_s = None if due is None else min(LOOK_S, max(0.0, (due - self._clock()) / 1e6))
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
    """The rows in portions, with their stimes."""
    left, right = iter(rows), None if stimes is None else iter(stimes)
    while True:
        portion, times = list(islice(left, _PORTION)), None if right is None else list(islice(right, _PORTION))
        if times is not None and len(times) != len(portion):
            fewer = "fewer" if len(times) < len(portion) else "more"
            raise ValueError(f"send_many: {fewer} stimes than rows")
        if not portion:
            return
        yield portion, times
