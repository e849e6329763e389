"""An ingress's own side: the logs of its inputs, which it follows, claims as a group, and appends to; and what users
have set of its source. Never waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from borealis_py.client.target import BegunAnew, PublishFailed
from borealis_py.ingress.ownership import Ownership
from borealis_py.ingress.plan import IngressPlan
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log import topics
from borealis_py.log.base import EndsQuery, Feed, Log, LogError, NewRecord, Record, Wake
from borealis_py.log.description import Life, OtherLife, OtherVersion, check_life
from borealis_py.query.names import base_name

OUTSTANDING_MAX = 1_000
OUTSTANDING_BYTES_MAX = 16 << 20
"""Limits of records in flight, and of their bytes; nothing is written while there are more."""
GATHER_US = 100_000
"""How long an owner may not learn of what has come into its inputs' logs."""
ATTEMPTS_MAX = 5
"""How often an input is claimed again, by the owner of the first one."""


class InFlight(NamedTuple):
    """A record that has been appended, and not been acknowledged: where, and its size."""

    feed: Feed
    size: int


class InputLogs:
    """The logs of all inputs of one ingress.

    The first input decides who copies: it is claimed before the others, so that of two that claim at the same time one
    gets them all. That is for order alone; each input's log by itself makes its rows exactly once.

    Args:
        uid: of this ingress, unique forever.
        wake: called when there is something to do in a turn.

    Raises:
        LogUnreachable: no broker.
    """

    def __init__(self, log: Log, plan: IngressPlan, uid: str, wake: Wake) -> None:
        self._log = log
        self._plan = plan
        self._wake = wake
        self._gathers = False
        self.life = Life(plan.targets[0].app_uid)
        self.settings = SourceSettings(plan.spec.expect_us)
        """What users have set, as far as it has been read."""
        self._settings = Feed(topics.settings(plan.targets[0].app))
        lateness_us = plan.spec.lateness_us
        with ExitStack() as opened:  # a begin that fails must leave nothing open, since it is repeated
            with closing(log.lookup()) as lookup:  # whose client has nothing to do afterwards
                self.owners = [Ownership(t, self.life, uid, lateness_us, *lookup.bounds(t.feed)) for t in plan.targets]
                first, self._settings_end = lookup.bounds(self._settings)
            self._lookup = opened.enter_context(closing(log.lookup()))
            self._appender = opened.enter_context(closing(log.appender(self._delivered)))
            self._reader = opened.enter_context(closing(log.reader(wake)))
            for owner in self.owners:
                self._reader.open(owner.target.feed, owner.begin)
            self._reader.open(self._settings, first)
            self._opened = opened.pop_all()
        self._begin = [owner.begin for owner in self.owners]
        self._of = {owner.target.feed: i for i, owner in enumerate(self.owners)}
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._attempts = [0] * len(self.owners)

    @property
    def full(self) -> bool:
        """Too much is in flight: wait for the log."""
        return self._in_flight >= OUTSTANDING_MAX or self._in_flight_bytes >= OUTSTANDING_BYTES_MAX

    @property
    def read(self) -> bool:
        """Whether it is known where every log stands, and what was set before this began."""
        set_before = self._reader.position(self._settings) >= self._settings_end
        return set_before and all(owner.end is not None for owner in self.owners)

    @property
    def nobody(self) -> bool:
        """Whether nobody has ever owned the first input."""
        end = self.owners[0].end
        return end is not None and not end.fold.owner

    @property
    def ended(self) -> bool:
        """Whether END is in all inputs' logs."""
        return all(owner.end is not None and owner.end.fold.ended for owner in self.owners)

    @property
    def abandoned(self) -> bool:
        """Whether users have given up all partitions that were ever copied."""
        begun = {p for owner in self.owners if owner.end is not None for p in owner.end.at or ()}
        return bool(begun) and begun <= self.settings.skipped

    @property
    def owned(self) -> bool:
        """Whether all inputs are owned."""
        return all(owner.owning for owner in self.owners)

    @property
    def lost(self) -> bool:
        """Whether another took an input."""
        return any(owner.lost for owner in self.owners)

    def heard(self) -> bool:
        """Whether an owner has written since the last call."""
        found = any(owner.heard for owner in self.owners)
        for owner in self.owners:
            owner.heard = False
        return found

    def turn(self) -> None:
        """Process deliveries, and read.

        Raises:
            BegunAnew: the app was begun anew. PublishFailed: the log refused a record.
            StreamForgotten: retention has deleted what shows how far a topic was copied. LogError: as `Reader.poll`.
        """
        self._deliveries()
        if self.life.strangers:
            self._look()
        if self._gathers and not self._reader.ripe:
            return
        try:
            records = self._reader.poll()
        except LogError:  # its topic was deleted or recreated
            self._look()
            raise
        found: dict[Feed, list[Record]] = {}
        for record in records:
            found.setdefault(record.feed, []).append(record)
        self._take_settings(found.get(self._settings, ()))
        for i, owner in enumerate(self.owners):
            feed = owner.target.feed
            owner.read(found.get(feed, ()), self._reader.position(feed))
            if owner.begin != self._begin[i]:
                self._begin[i] = owner.begin
                self._reader.open(feed, owner.begin)

    def gather(self, gathers: bool) -> None:
        """While this process copies, nothing that comes back from its inputs' logs need be read at once."""
        if gathers is not self._gathers:
            self._gathers = gathers
            feeds = frozenset(self._of) if gathers else frozenset[Feed]()
            self._reader.hush(frozenset(), feeds, within_us=GATHER_US)

    def _delivered(self) -> None:
        """Called in another thread. Deliveries matter at once only to who waits for one."""
        if self.full or not self._gathers:
            self._wake()

    def ask_ends(self) -> EndsQuery:
        """Ask for the ends of all these logs, and of the settings."""
        return self._lookup.ask_ends([*(owner.target.feed for owner in self.owners), self._settings])

    def read_up_to(self, ends: Callable[[Feed], int | None]) -> bool:
        """Whether every log has been read to its end; False if an end is not known. Nothing waits for settings whose
        end is not known: what was set last holds on."""
        known = [(owner, ends(owner.target.feed)) for owner in self.owners]
        logs = all(end is not None and owner.position >= end for owner, end in known)
        return logs and self._reader.position(self._settings) >= (ends(self._settings) or 0)

    def claim(self) -> None:
        """Claim the first input, and once it is owned, the others. Call it in each turn while claiming."""
        first = self.owners[0]
        if not first.owning:
            if not first.claiming and not first.lost:
                self._attempts = [0] * len(self.owners)
                self.append(first.claim())
            return
        for i, owner in enumerate(self.owners[1:], 1):
            again = owner.lost and self._attempts[i] < ATTEMPTS_MAX
            if not owner.owning and not owner.claiming and (again or not owner.lost):
                self._attempts[i] += 1
                self.append(owner.claim())

    def failed(self) -> bool:
        """While claiming: whether another was faster."""
        others = zip(self.owners[1:], self._attempts[1:], strict=True)
        return self.owners[0].lost or any(owner.lost and count >= ATTEMPTS_MAX for owner, count in others)

    def step_down(self) -> None:
        """Own nothing."""
        for owner in self.owners:
            owner.step_down()

    def append(self, record: NewRecord) -> None:
        size = len(record.value or b"")
        self._in_flight += 1
        self._in_flight_bytes += size
        self._appender.append(record, InFlight(record.feed, size))

    def close(self) -> None:
        self._opened.close()

    def _take_settings(self, records: Sequence[Record]) -> None:
        source, app_uid = base_name(self._plan.targets[0].source), self.life.app_uid
        for record in records:
            self.settings = self.settings.after(source, app_uid, record)

    def _look(self) -> None:
        """Check the description, if there is one: nothing written for an earlier life counts. Raises BegunAnew."""
        app = self._plan.targets[0].app
        try:
            with closing(self._log.lookup()) as lookup:
                check_life(lookup, app, self.life.app_uid)
        except (OtherLife, OtherVersion) as exc:
            raise BegunAnew(f"{self._plan.name}, copied for app {app!r}: {exc}") from exc
        except LogError:
            return  # there is none at the moment: check again later
        self.life.strangers = False

    def _deliveries(self) -> None:
        for delivery in self._appender.deliveries():
            assert isinstance(delivery.token, InFlight)
            self._in_flight -= 1
            self._in_flight_bytes -= delivery.token.size
            if delivery.error is not None:
                self._look()  # records in flight may have met topics of another life
                raise PublishFailed(
                    f"{delivery.token.feed}: the log refused a record: {delivery.error}. Start the ingress of "
                    f"{self._plan.name} again: it goes on where the log ends"
                )
