"""A publisher's access to its source's log: it claims the source, appends, and tracks deliveries. Never waits."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial

from borealis_py.client.claim import Claim
from borealis_py.client.target import BegunAnew, PublishFailed, Target
from borealis_py.log.base import Log, LogError, NewRecord, OffsetGone, Record, Wake
from borealis_py.log.description import OtherLife, OtherVersion, check_life

OUTSTANDING_MAX = 1_000
"""Limit of records in flight; a sender should wait while there are more."""


class SourceLog:
    """The log of one source, as its publisher uses it.

    Args:
        uid, take_over, lateness_us: as for `Claim`.
        wake: called when there is something to do in a turn.

    Raises:
        LogUnreachable: no broker.
    """

    def __init__(self, log: Log, target: Target, uid: str, wake: Wake, take_over: bool, lateness_us: int) -> None:
        self._log = log
        self._target = target
        self._feed = target.feed
        self._new_claim = partial(Claim, target, uid, take_over=take_over, lateness_us=lateness_us)
        self.claim = self._new_claim(*self._bounds())
        self.appended = 0
        self._delivered = 0
        self.full = False
        """Too many records are in flight."""
        self._begin = self.claim.begin
        self._resting = False
        with ExitStack() as opened:  # one that fails to begin must leave nothing open
            self._appender = opened.enter_context(closing(log.appender(wake)))
            self._reader = opened.enter_context(closing(log.reader(wake)))
            self._reader.open(self._feed, self._begin)
            self._opened = opened.pop_all()

    def delivered(self, mark: int) -> bool:
        """Whether everything appended before this mark (an earlier value of `appended`) is in the log."""
        return self._delivered >= mark

    def turn(self, now_us: int) -> None:
        """Process deliveries, read the log, claim it.

        Raises:
            Same as `PublisherSession.turn`.
        """
        self._deliveries()
        self._read(now_us)
        for record in self.claim.claims(now_us):
            self.append(record)

    def append(self, record: NewRecord) -> None:
        self.appended += 1
        self.full = self.appended - self._delivered >= OUTSTANDING_MAX
        self._appender.append(record, record.feed.topic)

    def close(self) -> None:
        self._opened.close()

    def _bounds(self) -> tuple[int, int]:
        with closing(self._log.lookup()) as lookup:
            return lookup.bounds(self._feed)

    def _read(self, now_us: int) -> None:
        try:
            records = self._polled()
        except OffsetGone:  # replicas have deleted what nobody needs (R16.6)
            if self.claim.ready:
                raise  # it may have been a newer claim
            self.claim = self._new_claim(*self._bounds())
            self._begin = self.claim.begin
            self._reader.open(self._feed, self._begin)
            return
        self.claim.read(records, self._reader.position(self._feed), now_us)
        if self.claim.begin != self._begin:
            self._begin = self.claim.begin
            self._reader.open(self._feed, self._begin)
        if self.claim.ready and not self._resting:
            self._resting = True
            self._reader.rest()  # nothing but a newer claim is of interest any more

    def _polled(self) -> list[Record]:
        """New records of the source. Raises BegunAnew, LogError."""
        if self.claim.life.strangers:
            self._look()
        try:
            return self._reader.poll()
        except LogError:  # its topic was deleted or recreated
            self._look()
            raise

    def _look(self) -> None:
        """Check the description, if there is one: nothing written for an earlier life counts. Raises BegunAnew."""
        try:
            with closing(self._log.lookup()) as lookup:
                check_life(lookup, self._target.app, self._target.app_uid)
        except (OtherLife, OtherVersion) as exc:
            raise BegunAnew(f"{self._target.name}: {exc}") from exc
        except LogError:
            return  # there is none at the moment: check again later
        self.claim.life.strangers = False

    def _deliveries(self) -> None:
        for delivery in self._appender.deliveries():
            self._delivered += 1
            self.full = self.appended - self._delivered >= OUTSTANDING_MAX
            if delivery.error is not None:
                self._look()  # records in flight may have met topics of another life
                raise PublishFailed(
                    f"{delivery.token}: the log refused a record: {delivery.error}. "
                    f"Start the publisher again: it resumes where source {self._target.source!r} ends"
                )
