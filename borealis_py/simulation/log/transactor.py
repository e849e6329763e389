"""Transactions of the simulated log as their writer sees them: they take time, are fenced, or end in an unknown way.

`log.broker` is the broker's side (who is fenced, what becomes visible).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from borealis_py.log.base import (
    MENDS_MAX,
    AtWork,
    Committed,
    Feed,
    Fenced,
    LogError,
    Mend,
    Mending,
    NewRecord,
    Resume,
    TookOver,
    TransactorEvent,
    Unended,
    Unknown,
    Wake,
)
from borealis_py.simulation.log.broker import NotTaken, ProducerFenced
from borealis_py.simulation.log.connection import Connection
from borealis_py.simulation.log.outcomes import CommitOutcome
from borealis_py.simulation.log.reader import MemoryLookup

_LOOK_US = 300_000
"""As in kafka/transactor: a writer that adds nothing to an open transaction for this long counts as dead."""
_ANSWER_US, _AGAIN_US = 10_000_000, 20_000
"""How long a writer waits for its coordinator, as in kafka/transactor, and how often that is looked at."""
_LATER_US = 300_000
"""Maximum delay after which a commit of unknown outcome may still happen."""


class MemoryTransactor:
    """Implements `log.base.Transactor`."""

    def __init__(
        self,
        client: Connection,
        transactional_id: str,
        progress: Feed,
        wake: Wake,
        resume: Resume,
        mending: Mending | None = None,
        unended: Unended | None = None,
    ) -> None:
        self._client = client
        self._broker = client.log.broker
        self._id = transactional_id
        self._progress = progress
        self._wake = wake
        self._resume = resume
        self._mending = mending
        self._unended = unended
        self._doubt = False
        """Whether markers of this writer were lost, by a broker so slow that the writer looks for it after this commit
        or the next.
        """
        self._attempt: int | None = None
        self._epoch = 0
        self._events: list[TransactorEvent] = []
        self._written: Sequence[NewRecord] = ()

    def take_over(self, attempt: int) -> None:
        self.drop()
        self._attempt = attempt
        self._epoch = 0
        self._client.after(self._client.link.delays.fence, lambda: self._look(attempt))

    def commit(self, attempt: int, make_records: Callable[[], Iterable[NewRecord]]) -> None:
        if attempt != self._attempt or not self._epoch:
            raise LogError(f"{self._id}: commit of attempt {attempt} without a take-over")
        begin = partial(self._once, self._may_begin, attempt, lambda: self._write(attempt, make_records))
        self._client.after(self._client.link.delays.append, begin)

    def drop(self) -> None:
        self._attempt = None
        self._events.clear()

    def events(self) -> list[TransactorEvent]:
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        self.drop()

    def _look(self, attempt: int) -> None:
        """Check whether another writer is still writing into a transaction, which then is not fenced."""
        before = self._open_to(attempt)
        if before is None:
            self._once(self._may_begin, attempt, lambda: self._fence(attempt))
        else:
            self._client.log.scheduler.after(_LOOK_US, lambda: self._look_again(attempt, before))

    def _look_again(self, attempt: int, before: int) -> None:
        now = self._open_to(attempt)
        if now is None or now == before:
            self._once(self._may_begin, attempt, lambda: self._fence(attempt))
        else:
            self._emit(attempt, AtWork(attempt))

    def _open_to(self, attempt: int) -> int | None:
        if self._unended is None or not self._current(attempt) or not self._client.reaches(self._progress.topic):
            return None
        try:
            return self._unended(MemoryLookup(self._client), MemoryLookup(self._client, committed=False))
        except LogError:
            return None

    def _fence(self, attempt: int) -> None:
        if not self._current(attempt):
            return
        if not self._client.sends(self._progress.topic):
            self._unreachable(attempt)
            return
        if self._client.log.fences_by_half(self._id):
            self._broker.fence_only(self._id)
            self._unreachable(attempt)
            return
        self._epoch = self._broker.init_producer(self._id)  # even if its answer does not arrive
        self._doubt = False
        read = partial(self._once, self._may_begin, attempt, lambda: self._read(attempt, 0))
        self._client.after(self._client.link.delays.fetch, read)

    def _read(self, attempt: int, mended: int) -> None:
        if not self._current(attempt):
            return
        if not self._client.reaches(self._progress.topic):
            self._unreachable(attempt)
            return
        try:
            mend = self._left()
            if mend is None:
                self._emit(attempt, TookOver(attempt, self._resume(MemoryLookup(self._client))))
            elif mended == MENDS_MAX:
                self._answer(attempt, Unknown(attempt, mend.why))
            else:
                self._mend(attempt, mend, mended + 1)
        except ProducerFenced:
            self._answer(attempt, Fenced(attempt))
        except LogError as exc:
            self._answer(attempt, Unknown(attempt, str(exc)))

    def _left(self) -> Mend | None:
        """What earlier writers left to be repaired."""
        if self._mending is None:
            return None
        return self._mending(MemoryLookup(self._client), MemoryLookup(self._client, committed=False))

    def _mend(self, attempt: int, mend: Mend, steps: int) -> None:
        if not all(self._client.sends(r.feed.topic) for r in mend.records):
            self._unreachable(attempt)
            return
        self._open(mend.records)
        self._client.log.mends.append(mend.records)
        epoch = self._epoch
        end = partial(self._once, self._may_end, attempt, lambda: self._mended(attempt, epoch, mend, steps))
        self._client.after(self._client.link.delays.commit, end)

    def _mended(self, attempt: int, epoch: int, mend: Mend, steps: int) -> None:
        if not self._current(attempt):
            return
        if not self._client.sends(self._progress.topic):
            self._unreachable(attempt)
            return
        try:
            (self._broker.commit if mend.commit else self._broker.abort)(self._id, epoch)
        except ProducerFenced:
            self._answer(attempt, Fenced(attempt))
            return
        read = partial(self._once, self._may_begin, attempt, lambda: self._read(attempt, steps))
        self._client.after(self._client.link.delays.fetch, read)

    def _open(self, records: Sequence[NewRecord]) -> None:
        """Write into a transaction, which times out if it is not ended. Raises ProducerFenced, LogError."""
        opened, log = self._broker.write(self._id, self._epoch, records), self._client.log
        log.scheduler.after(log.transaction_timeout_us, lambda: self._expire(opened))

    def _expire(self, opened: int) -> None:
        log = self._client.log
        if not log.coordinated(self._id):
            log.scheduler.after(_AGAIN_US, lambda: self._expire(opened))
        else:
            self._broker.expire(self._id, opened)

    def _write(self, attempt: int, make_records: Callable[[], Iterable[NewRecord]]) -> None:
        if not self._current(attempt):
            return
        try:
            records = list(make_records())
        except LogError as exc:
            self._answer(attempt, Unknown(attempt, str(exc)))
            return
        if not all(self._client.sends(r.feed.topic) for r in records):
            self._unreachable(attempt)
            return
        try:
            refused = next(filter(None, map(self._refusal, records)), None)
            if refused is not None:
                self._answer(attempt, Unknown(attempt, refused.reason, refused.too_large > 0))
                return
            self._open(records)
        except ProducerFenced:
            self._answer(attempt, Fenced(attempt))
            return
        except LogError as exc:
            self._answer(attempt, Unknown(attempt, str(exc)))
            return
        self._written = records
        log = self._client.log
        log.transactions.append(records)
        if log.on_transaction is not None:
            log.on_transaction(self._client.name)
        epoch = self._epoch
        self._client.after(self._client.link.delays.commit, lambda: self._end(attempt, epoch))

    def _end(self, attempt: int, epoch: int) -> None:
        if not self._client.alive and self._client.log.rng.random() < 0.5 and self._may_end():
            self._commit_late(epoch)  # it was in flight when the process died
        self._once(self._may_end, attempt, lambda: self._commit(attempt, epoch))

    def _commit(self, attempt: int, epoch: int) -> None:
        log = self._client.log
        if not self._client.sends(self._progress.topic):
            self._unreachable(attempt)
            return
        outcome = CommitOutcome.LOST if log.too_large(self._written) else log.outcomes(log.rng, self._client.name)
        if outcome is CommitOutcome.LOST:
            self._unreachable(attempt)
            return
        if outcome is CommitOutcome.LATER:
            self._answer(attempt, Unknown(attempt, "no answer to the commit"))
            log.scheduler.after(1 + log.rng.randrange(_LATER_US), lambda: self._commit_late(epoch))
            return
        try:
            ended = self._broker.commit(self._id, epoch)
        except ProducerFenced:
            self._answer(attempt, Fenced(attempt))
            return
        if (self._doubt or (not ended and log.rng.random() < 0.5)) and (why := self._hangs()):
            self._answer(attempt, Unknown(attempt, why))
            return
        self._doubt = not ended
        told = outcome is CommitOutcome.COMMITTED
        self._answer(attempt, Committed(attempt) if told else Unknown(attempt, "no answer to the commit"))

    def _refusal(self, record: NewRecord) -> NotTaken | None:
        """Of a record that ends the producer, and with it the transaction."""
        there = self._broker.exists(record.feed.topic)
        return self._client.refusal(record) if there else None

    def _hangs(self) -> str | None:
        """The result of a look after a slow commit."""
        try:
            left = self._left()
        except LogError as exc:
            return str(exc)
        return None if left is None else left.why

    def _commit_late(self, epoch: int) -> None:
        if not self._client.log.coordinated(self._id):
            return
        try:
            self._broker.commit(self._id, epoch)
        except ProducerFenced:
            return  # the successor fenced first, which aborted the transaction

    def _may_begin(self) -> bool:
        """Whether the coordinator is there, and has done with the transaction before."""
        return self._client.log.coordinated(self._id) and self._broker.settled(self._id)

    def _may_end(self) -> bool:
        return self._client.log.coordinated(self._id) and self._broker.replicated(self._id)

    def _once(
        self, ready: Callable[[], bool], attempt: int, then: Callable[[], None], patience_us: int = _ANSWER_US
    ) -> None:
        """Do this once the coordinator can, unless that takes too long."""
        if not self._current(attempt):
            return
        if ready():
            then()
        elif patience_us <= 0:
            self._unreachable(attempt)
        else:
            again = partial(self._once, ready, attempt, then, patience_us - _AGAIN_US)
            self._client.log.scheduler.after(_AGAIN_US, again)

    def _unreachable(self, attempt: int) -> None:
        reason = f"{self._progress.topic}: no broker answered {self._client.name}"
        self._client.after(self._client.link.delays.unreachable, lambda: self._emit(attempt, Unknown(attempt, reason)))

    def _answer(self, attempt: int, event: Committed | Fenced | Unknown) -> None:
        self._client.after(self._client.link.delays.ack, lambda: self._told(attempt, event))

    def _told(self, attempt: int, event: Committed | Fenced | Unknown) -> None:
        if self._client.hears(self._progress.topic):
            self._emit(attempt, event)
        else:
            self._unreachable(attempt)

    def _emit(self, attempt: int, event: TransactorEvent) -> None:
        if self._current(attempt):
            self._events.append(event)
            self._wake()

    def _current(self, attempt: int) -> bool:
        return self._client.alive and attempt == self._attempt
