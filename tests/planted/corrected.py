"""Planted in the corrected stream: fencing, progress, transactions (R10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

import borealis_py.node.replica
from borealis_py.log.base import NewRecord
from borealis_py.log.corrected import transaction
from borealis_py.log.mending import Mender
from borealis_py.protocol import publishing
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.publishing import Publishing
from borealis_py.protocol.turn import WriterLost, WriterReady
from borealis_py.simulation.log.broker import Broker
from sunion.model import Output
from tests.planted.bug import Bug, Script
from tests.planted.patches import together
from tests.planted.worlds import SOURCES, Worlds
from tests.protocol.toy import Corrected


def _no_fence_after_unknown() -> Any:
    before = Publishing._answered

    def answered(self: Publishing, event: Any, now: int) -> Any:
        if isinstance(event, WriterLost) and not event.fenced:
            self.phase = publishing.Phase.READY
            return []
        return before(self, event, now)

    return mock.patch.object(Publishing, "_answered", answered)


def _unknown_is_done() -> Any:
    before = Publishing._answered

    def answered(self: Publishing, event: Any, now: int) -> Any:
        if isinstance(event, WriterLost) and not event.fenced and self.phase is publishing.Phase.COMMITTING:
            self._advance(self._committing, now)
        return before(self, event, now)

    return mock.patch.object(Publishing, "_answered", answered)


def _progress_not_read_again() -> Any:
    before = Publishing._answered

    def answered(self: Publishing, event: Any, now: int) -> Any:
        if isinstance(event, WriterReady) and self.progress is not None:
            event = replace(event, progress=None)
        return before(self, event, now)

    def blind(self: Publishing, value: int, now: int) -> None:
        if self.progress is None or (value > self.progress and value == self._committing):
            self.progress = value
            self._stood_since = now

    return mock.patch.multiple(Publishing, _answered=answered, _advance=blind)


def _zombies_are_not_fenced() -> Any:
    """By what stands for Kafka: in the simulator, and in the toy world."""
    commit = Corrected.commit

    def current(self: Broker, transactional_id: str, epoch: int) -> Any:
        return self._producers[transactional_id]

    def commit_all(self: Corrected, owner: object, outputs: dict[int, Output], end: int) -> bool:
        return commit(self, self.owner, outputs, end)

    return together(
        mock.patch.object(Broker, "_current", current),
        mock.patch.object(Corrected, "commit", commit_all),
    )


def _transaction(change: Any) -> Any:
    def changed(*arguments: Any) -> Any:
        return change(list(transaction(*arguments)))

    return mock.patch.object(borealis_py.node.replica, "transaction", changed)


def _progress_one_too_far() -> Any:
    before = Publishing._advance
    return mock.patch.object(Publishing, "_advance", lambda self, value, now: before(self, value + 1, now))


def _rows_in_any_order() -> Any:
    return _transaction(lambda records: [*reversed(records[:-1]), records[-1]])


def _last_row_left_out() -> Any:
    return _transaction(lambda records: [*records[:-2], records[-1]])


def _stime_one_off() -> Any:
    def later(record: NewRecord) -> NewRecord:
        headers = tuple((k, str(int(v) + 1).encode() if k == "stime" else v) for k, v in record.headers)
        return msgspec.structs.replace(record, headers=headers)

    return _transaction(lambda records: [later(record) for record in records])


def _stamped_a_bucket_late() -> Any:
    def later(record: NewRecord) -> NewRecord:
        return (
            record
            if record.timestamp_ms is None
            else msgspec.structs.replace(record, timestamp_ms=record.timestamp_ms + 50)
        )

    return _transaction(lambda records: [later(record) for record in records])


def _nobody_takes_over() -> Any:
    before = Publishing._maybe_take_over

    def take_over(self: Publishing, standing: Any) -> Any:
        return before(self, standing) if self._attempt == 0 and self._first(standing) else []

    return mock.patch.object(Publishing, "_maybe_take_over", take_over)


def nothing_is_mended() -> Any:
    return mock.patch.object(Mender, "next", return_value=None)


def _what_hid_is_not_written_again() -> Any:
    before = Mender.next

    def ended(self: Mender, committed: Any, raw: Any) -> Any:
        mend = before(self, committed, raw)
        return None if mend is None or mend.commit else mend

    return mock.patch.object(Mender, "next", ended)


def _told_commits_do_not_count() -> Any:
    before = Mender.next

    def forgetful(self: Mender, committed: Any, raw: Any) -> Any:
        return before(replace(self, known=None), committed, raw)

    return mock.patch.object(Mender, "next", forgetful)


def _unacknowledged_rows_read_back() -> Any:
    kept = Publishing._maybe_publish

    def publish(self: Publishing, standing: Any, output: Any) -> Any:
        acked, output.ack_s = output.ack_s, output.stable
        effects = kept(self, standing, output)
        output.ack_s = acked
        return effects

    return mock.patch.object(Publishing, "_maybe_publish", publish)


def _no_patience() -> Any:
    return mock.patch.object(Publishing, "patience_us", property(lambda self: 0))


def _waiting_is_a_reason_to_turn() -> Any:
    kept = Manager.next_wakeup

    def next_wakeup(self: Manager) -> int:
        return min(kept(self), max(self._now, self.publishing.wakeup(self.f_s) or 2**62))

    return mock.patch.object(Manager, "next_wakeup", next_wakeup)


WRITER = ("crash", "pause", "cut_corrected", "commits")
BUGS = (
    Bug(
        "B7 fence after an unknown outcome",
        "safety",
        _no_fence_after_unknown,
        Worlds(("commits",), ("corrected", "exception", "dead letters"), found=1),
    ),
    Bug(
        "B7 an unknown outcome is not a commit",
        "safety",
        _unknown_is_done,
        Worlds(("commits", "cut_corrected", "resets"), ("corrected", "dead letters"), found=1, seeds=30),
    ),
    Bug(
        "B7 progress is read after the fence",
        "safety",
        _progress_not_read_again,
        Worlds(WRITER, ("corrected", "dead letters", "convergence"), found=1, seeds=40),
        script=Script(
            "tests/protocol/test_scenarios.py::test_who_takes_over_without_having_read_the_progress_reads_it",
            "the corrected stream is not the failure-free output",
        ),
    ),
    Bug(
        "R10 zombies are fenced",
        "safety",
        _zombies_are_not_fenced,
        Worlds(WRITER, ("corrected", "exception", "dead letters", "input"), found=2, seeds=80),
        scene="publisher_takeover",
    ),
    Bug(
        "R10 progress is where the rows end",
        "safety",
        _progress_one_too_far,
        Worlds((), ("corrected", "dead letters", "convergence", "end"), found=1),
    ),
    Bug(
        "R10 rows go in their order",
        "safety",
        _rows_in_any_order,
        Worlds(SOURCES, ("corrected",), found=1),
    ),
    Bug(
        "A4 a row's header has its stime",
        "safety",
        _stime_one_off,
        Worlds((), ("corrected",), found=1),
    ),
    Bug(
        "A4 a row has its bucket's timestamp",
        "safety",
        _stamped_a_bucket_late,
        Worlds((), ("corrected",), found=1),
    ),
    Bug(
        "R10 no row is left out",
        "safety",
        _last_row_left_out,
        Worlds((), ("corrected", "dead letters"), found=1),
    ),
    Bug(
        "R10 what has no end is ended",
        "safety",
        nothing_is_mended,
        Worlds(("markers_lost",), ("corrected", "dead letters", "convergence"), found=3, seeds=20),
    ),
    Bug(
        "R10 what another's end has hidden is written again",
        "safety",
        _what_hid_is_not_written_again,
        Worlds(("markers_lost",), ("corrected", "dead letters", "convergence"), found=1, seeds=40),
    ),
    Bug(
        "R10 what was told to be committed was",
        "safety",
        _told_commits_do_not_count,
        Worlds(
            ("markers_lost", "commits", "cut_corrected"),
            ("corrected", "dead letters", "convergence"),
            found=1,
            seeds=150,
        ),
    ),
    Bug(
        "B32 who is behind progress that stands still takes over",
        "liveness",
        _nobody_takes_over,
        Worlds(WRITER, ("convergence",), found=1, seeds=30),
    ),
    Bug(
        "R10 rows are read back once the own topic has acknowledged them",
        "safety",
        _unacknowledged_rows_read_back,
        script=Script(
            "tests/protocol/test_scenarios.py::test_rows_beyond_memory_are_published_from_the_own_topic",
            "the corrected stream is not the failure-free output",
        ),
    ),
    Bug(
        "R10 whoever takes over has been patient",
        "quality",
        _no_patience,
        scene="publisher_takeover",
    ),
    Bug(
        "R10 who waits for an answer has no turn for that",
        "liveness",
        _waiting_is_a_reason_to_turn,
        script=Script(
            "tests/protocol/test_scenarios.py::test_who_waits_for_the_ends_to_take_over_does_not_spin",
            "spins: a turn is due at once",
        ),
    ),
)
