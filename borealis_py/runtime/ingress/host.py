"""Drives all foreign topics of an ingress process in one loop, and sends what it says about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import structlog

from borealis_py.app.supervisor import exit_codes
from borealis_py.app.supervisor.exit_codes import ExitCode
from borealis_py.log import topics
from borealis_py.log.base import Appender, Feed, NewRecord
from borealis_py.log.clock import Clock, ClockWatch, SystemClock
from borealis_py.log.ingress_status import IngressStatus, status_key
from borealis_py.log.messages import encode
from borealis_py.runtime.ingress.after_end import REMARK
from borealis_py.runtime.ingress.member import TopicMember

log = structlog.get_logger(__package__)

STOP_LOOK_S = 0.1
"""Maximum time until a signal takes effect."""
FLUSH_S = 2.0
"""How long the last statuses may take."""


class StatusSender:
    """Writes statuses into an app's status topic, and shows them to this process; logs how this machine's clock differs
    from the log's. `seen`: called with each."""

    def __init__(self, app: str, appender: Appender, seen: Callable[[IngressStatus], None]) -> None:
        self._feed = Feed(topics.status(app))
        self._appender = appender
        self._seen = seen
        self._clock_watch = ClockWatch()

    def send(self, status: IngressStatus) -> None:
        """Write a status. Never waits."""
        ahead_us = self._appender.clock_ahead_us
        if (said := self._clock_watch.changed(ahead_us)) is not None:
            log.warning(said, ahead_us=ahead_us)
        status = msgspec.structs.replace(status, clock_ahead_us=ahead_us)
        key = status_key(status.source, status.ingress)
        self._appender.append(NewRecord(self._feed, encode(status), key, conflatable=True))
        self._seen(status)

    def close(self) -> None:
        """Wait a moment for what was written last."""
        self._appender.flush(FLUSH_S)
        self._appender.close()


class _Members(Protocol):
    def __call__(self, wake: Callable[[], None]) -> Sequence[TopicMember]: ...


class IngressHost:
    """Runs until stopped, or until every topic has ended for good.

    Args:
        make: the members, given what wakes the loop.
        close: called at the end, after the members have said that they stop.
        stay: called with `stop` once END is in the logs of all sources; returns when the process is to end, and how.
            None: it ends at once.
        log_us: the log's clock; None: not known.
    """

    def __init__(
        self,
        make: _Members,
        close: Callable[[], None],
        stay: Callable[[threading.Event], ExitCode] | None = None,
        clock: Clock | None = None,
        log_us: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.stop = threading.Event()
        self._make = make
        self._close = close
        self._stay = stay
        self._clock = clock or SystemClock()
        self._log_us = log_us

    def run(self) -> int:
        """Returns the exit code: of an end that people must know of, else of what ended last."""
        woken = threading.Event()
        members, why = self._make(woken.set), exit_codes.STOPPED.means
        try:
            while not self.stop.is_set() and any(member.code is None for member in members):
                woken.clear()
                for member in members:
                    if member.due(now_us := self._clock.wall_us()):
                        member.turn(now_us, self._log_us())
                due = [at for member in members if (at := member.next_wakeup()) is not None]
                if due:
                    woken.wait(min(STOP_LOOK_S, max(0.0, (min(due) - self._clock.wall_us()) / 1e6)))
            if self._stay is not None and all(member.code is exit_codes.ENDED for member in members):
                for member in members:
                    member.stays(self._clock.wall_us(), REMARK)
                return self._stay(self.stop).code
        except BaseException as exc:
            why = f"its process failed: {type(exc).__name__}: {exc}"
            raise
        finally:
            for member in members:
                member.close(self._clock.wall_us(), why)
            self._close()
        bad = [code.code for member in members if (code := member.code) not in (None, exit_codes.ENDED)]
        if bad:
            return max(bad)
        return (exit_codes.ENDED if all(member.code for member in members) else exit_codes.STOPPED).code
