"""Transactions in a simulated world: which are too large to commit, and what an open one hides from readers only."""

from __future__ import annotations

from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.corrected import Progress, dead_letter, progress_record, row_headers
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.faults.broker import too_large
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.scenario import ROWS_MAX
from sunion.model import Reject

LETTERS = Feed("a.deadletter")


def row(bucket: int, index: int) -> NewRecord:
    return NewRecord(Feed("a.q"), b"{}", None, bucket * 100, row_headers(bucket, index, 0))


def letter(bucket: int) -> NewRecord:
    return dead_letter("a", "q", bucket, Reject("s", 0, "malformed", b""))


def transaction(*records: NewRecord) -> list[NewRecord]:
    return [*records, progress_record("a", "q", Progress("first", 9, 0, 1))]


def test_one_bucket_commits_whatever_its_size_and_its_dead_letters_are_of_it() -> None:
    """They bear no timestamp: a bucket of many could never be published, and no rule could have made it smaller."""
    many = ROWS_MAX + 10
    rows, letters = [row(5, i) for i in range(many)], [letter(5) for _ in range(many)]
    assert not too_large(transaction(*rows, *letters))
    assert not too_large(transaction(*rows, *letters, *(letter(6) for _ in range(ROWS_MAX))))
    assert too_large(transaction(*rows, *letters, *(letter(6) for _ in range(ROWS_MAX + 1))))


def test_what_is_committed_behind_an_open_transaction_is_decided_though_no_reader_sees_it() -> None:
    log = MemoryLog(Scheduler(0))
    log.broker.create(TopicSpec(LETTERS.topic))
    first, second = (log.broker.init_producer(name) for name in ("a.q", "a.n1"))
    log.broker.write("a.q", first, [NewRecord(LETTERS, b"open")])
    log.broker.write("a.n1", second, [NewRecord(LETTERS, b"committed")])
    log.broker.commit("a.n1", second)
    assert [r.value for r in log.committed(LETTERS)] == []
    assert [r.value for r in log.decided(LETTERS)] == [b"committed"]
    log.broker.commit("a.q", first)
    assert [r.value for r in log.decided(LETTERS)] == [b"open", b"committed"]
