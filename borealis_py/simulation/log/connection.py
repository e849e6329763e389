"""Shared by the parts of one process's log: the connection to the log, and the broker behind it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.latency import Delay, Latencies
from borealis_py.simulation.log.broker import Broker, NotTaken
from borealis_py.simulation.log.network import Link
from borealis_py.simulation.log.outcomes import CommitOutcome, CommitOutcomes


@dataclass(frozen=True, slots=True)
class Refusal:
    """The outcome of an append reported as failed; it may have `landed` nevertheless (F11)."""

    reason: str
    landed: bool = False


class SharedLog:
    """The broker, time and chance, and the current faults, as all clients meet them.

    Args: see `MemoryLog`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        seed: int,
        delays: Latencies | None,
        outcomes: CommitOutcomes | None,
        append_timeout_us: int,
        transaction_timeout_us: int,
        poll_records_max: int | None,
    ) -> None:
        self.scheduler = scheduler
        self.rng = random.Random(seed)
        self.broker = Broker(lambda: scheduler.now_us)
        self.outcomes = outcomes or (lambda _rng, _name: CommitOutcome.COMMITTED)
        self.too_large: Callable[[Sequence[NewRecord]], bool] = lambda _records: False
        """Whether a transaction takes longer to commit than its timeout."""
        self.append_timeout_us = append_timeout_us
        self.transaction_timeout_us = transaction_timeout_us
        self.poll_records_max = poll_records_max
        self.on_transaction: Callable[[str], object] | None = None
        """Called with a client's name when its transaction has begun."""
        self.transactions: list[Sequence[NewRecord]] = []
        """What was written into each, whether it was committed or not."""
        self.mends: list[Sequence[NewRecord]] = []
        """What was written again into each that repairs older ones."""
        self._delays = delays or Latencies()
        self._links: dict[str, Link] = {}
        self._refusals: dict[tuple[str, str], Refusal] = {}
        self._leaderless: dict[str, int] = {}
        self.unled: set[Feed] = set()
        """Partitions that have no leader, although their topic has some."""
        self.coordinators_away: list[str] = []
        """Of transactional ids that begin like one of these, none begins or ends a transaction, and none is aborted for
        its age."""
        self.fences_unwritten: set[str] = set()
        """Prefixes of transactional ids whose coordinator moves in its next PREPARE_EPOCH_FENCE: older producers are
        fenced, the abort is never written."""
        self._altered: dict[Feed, Callable[[NewRecord], NewRecord]] = {}

    def link(self, name: str) -> Link:
        """The link of this client, and of later ones with its name."""
        if name not in self._links:
            self._links[name] = Link(self._delays)
        return self._links[name]

    def refusal(self, name: str, record: NewRecord) -> Refusal | None:
        return self._refusals.pop((name, record.feed.topic), None) if self._refusals else None

    def altered(self, record: NewRecord) -> NewRecord:
        change = self._altered.get(record.feed) if self._altered else None
        return record if change is None else change(record)

    def land_late(self, records: Sequence[NewRecord]) -> None:
        """Old requests arrive."""
        for record in records:
            with suppress(LogError):  # the topic has been deleted
                self.broker.append(record)

    def coordinated(self, transactional_id: str) -> bool:
        """Whether the coordinator of this id answers."""
        return not any(transactional_id.startswith(prefix) for prefix in self.coordinators_away)

    def fences_by_half(self, transactional_id: str) -> bool:
        """Whether the coordinator of this id moves before it aborts what an older producer left. Once for each move."""
        moves = [prefix for prefix in self.fences_unwritten if transactional_id.startswith(prefix)]
        self.fences_unwritten.difference_update(moves)
        return bool(moves)

    def leaderless(self, topic: str | None) -> bool:
        return bool(self._leaderless) and topic in self._leaderless


class Connection:
    """One process's connection to the log."""

    def __init__(self, log: SharedLog, name: str) -> None:
        self.log = log
        self.name = name
        self.alive = True
        self.link = log.link(name)
        self.wall_us: Callable[[], int] = lambda: log.scheduler.now_us
        """The process's wall clock: the time of records without one of their own."""

    def refusal(self, record: NewRecord) -> NotTaken | None:
        """Why the broker refuses this process's record; None: it takes it."""
        return self.log.broker.refusal(record, self.wall_us())

    def reaches(self, topic: str | None) -> bool:
        return self.alive and self.link.reaches(topic) and not self.log.leaderless(topic)

    def sends(self, topic: str | None) -> bool:
        """Whether requests about this topic arrive."""
        return self.link.sends(topic) and not self.log.leaderless(topic)

    def hears(self, topic: str | None) -> bool:
        """Whether the log's answers and records arrive."""
        return self.alive and self.link.hears(topic) and not self.log.leaderless(topic)

    def led(self, feed: Feed) -> bool:
        """Whether this partition of a topic has a leader."""
        return feed not in self.log.unled

    def after(self, delay: Delay, fn: Callable[[], None]) -> None:
        self.log.scheduler.after(delay(self.log.rng), fn)
