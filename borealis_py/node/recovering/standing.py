"""What an incarnation has while it stands by: the standby, its heartbeats, and what its replica will write with."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import structlog

from borealis_py.log.base import Appender, Log, Wake
from borealis_py.log.clock import Clock
from borealis_py.node.pulse import repeating
from borealis_py.node.recovering.standby import Standby, pulse_us
from borealis_py.node.reporter import StatusListener
from borealis_py.node.spec import ReplicaSpec
from sunion.errors import IllegalTransition

log = structlog.get_logger(__package__)


class SpareAppender:
    """An appender that is opened long before it is used: a new one of Kafka's may write after half a second only."""

    def __init__(self, log_: Log) -> None:
        self._wake: Wake = lambda: None
        self._appender: Appender | None = log_.appender(lambda: self._wake())

    def take(self, wake: Wake) -> Appender:
        """Give it away; `wake` is called from now on."""
        found, self._appender = self._appender, None
        if found is None:
            raise IllegalTransition("the appender of a standby was taken twice")
        self._wake = wake
        return found

    def close(self) -> None:
        """Close it, unless it was given away."""
        if self._appender is not None:
            self._appender.close()


class Standing:
    """A standby that sends heartbeats in long turns, too. `spare`: for the replica that it may become.

    Args and what it raises: as `Standby`.
    """

    def __init__(self, spec: ReplicaSpec, clock: Clock, uid: str, wake: Wake, seen: StatusListener) -> None:
        with ExitStack() as opened:
            self.spare = SpareAppender(spec.log)
            opened.callback(self.spare.close)
            self.standby = Standby(spec, spec.log, clock, uid, wake, seen)
            opened.callback(self.standby.close)
            self._beats = ExitStack()
            self._beats.enter_context(repeating(self.standby.pulse, pulse_us(spec), "pulse"))
            opened.pop_all()
        self._heartbeat_us = spec.timing.heartbeat_us
        self._leaving: threading.Thread | None = None

    def begins(self, stop: threading.Event) -> None:
        """Its replica starts: until it is left, or is to stop, it says that it runs, as often as a replica does."""
        self._beats.close()
        self.standby.begins()

        def pulse() -> None:
            if not stop.is_set():
                self.standby.pulse()

        self._beats.enter_context(repeating(pulse, self._heartbeat_us, "pulse"))

    def leave(self) -> None:
        """Its replica runs: no heartbeat of the standby follows this. Its clients are closed in a thread of their own,
        which takes them up to 0.2 s, while readers wait for the replica."""
        self._beats.close()
        leaving = threading.Thread(target=self._left, name="standby-end", daemon=True)
        leaving.start()
        self._leaving = leaving

    def close(self, why: str = "") -> None:
        """Close all. `why`: as `Standby.close`."""
        if self._leaving is not None:
            self._leaving.join()
            return
        self._beats.close()
        self._close(why)

    def _left(self) -> None:
        try:
            self._close("")
        except Exception:  # the replica needs nothing of it
            log.exception("the clients of a standby that has taken over were not closed")

    def _close(self, why: str) -> None:
        self.standby.close(why)
        self.spare.close()
