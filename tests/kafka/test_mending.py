"""Transactions without an end on a real broker: found, ended, and what they hid written again (R10.8)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import kafka
import pytest

from borealis_py.kafka import transactor as transactor_module
from borealis_py.kafka.log import KafkaLog
from borealis_py.kafka.lookup import KafkaLookup
from borealis_py.kafka.transactor import KafkaTransactor
from borealis_py.log import topics
from borealis_py.log.base import Committed, Feed, LogError, NewRecord, TookOver, TransactorEvent, Unknown
from borealis_py.log.corrected import Progress, transaction
from borealis_py.log.description import Life
from borealis_py.log.mending import Mender
from borealis_py.log.progress import Published
from sunion.bucket import Buckets
from sunion.model import Output, Reject
from tests.kafka.waiter import Waiter
from tests.reconcile.list_world import ListKernel
from tests.support.hanging import hang, unverified

NODE, ORIGIN = "sums", 10
BUCKETS = Buckets(1_000_000)
_apps = itertools.count(1)


class App:
    """One node of an app, its writers one after the other."""

    def __init__(self, log: KafkaLog, waiter: Waiter, *, corrected: bool = True) -> None:
        self.name, self.log, self.waiter, self.corrected = f"mended{next(_apps)}", log, waiter, corrected
        self.progress, self.rows = Feed(topics.progress(self.name, NODE)), topics.corrected(self.name, NODE)
        self.letters, self.id = Feed(topics.deadletter(self.name)), topics.transactional_id(self.name, NODE)
        log.admin().create(topics.of_app(self.name, ["s"], {NODE: 1}))
        waiter.until(self._led)
        self.writers: list[KafkaTransactor] = []
        self.attempt = 0

    def _led(self) -> bool:
        """The broker leads all of the new partitions: it says so to clients a moment before it does."""
        lookup, raw = self.log.lookup(), KafkaLookup(self.log.bootstrap, {}, committed=False)
        try:
            for feed in (self.progress, self.rows, self.letters):
                assert lookup.bounds(feed) == raw.bounds(feed)
        except LogError:
            return False
        finally:
            lookup.close()
            raw.close()
        return True

    def records(self, first: int, end: int, *, letters: bool = True) -> Sequence[NewRecord]:
        """Two rows and two dead letters, equal but for their place, of each bucket of [first, end)."""
        told = (Reject("s", -1, "unlucky"),) * 2 if letters else ()
        outputs = {b: Output([(b * 1_000_000, f"{b}a"), (b * 1_000_000 + 1, f"{b}b")], told) for b in range(first, end)}
        progress = Progress("a1", end, 0, 1)
        return list(transaction(self.name, NODE, outputs, progress, BUCKETS, ListKernel(), self.corrected))

    def writer(self, known: int | None = None) -> KafkaTransactor:
        told = Published(self.name, NODE, self.corrected, Life("a1"), ORIGIN)
        mender = Mender(told, told.upto, known, lambda bucket: Progress("a1", bucket, 0, 2))
        writer = self.log.transactor(self.id, self.progress, self.waiter.wake, told.upto, mender.next)
        self.writers.append(writer)
        return writer

    def take_over(self, writer: KafkaTransactor) -> TransactorEvent:
        self.attempt += 1
        writer.take_over(self.attempt)
        (event,) = self.waiter.until(writer.events)
        return event

    def commit(self, writer: KafkaTransactor, records: Sequence[NewRecord]) -> None:
        writer.commit(self.attempt, lambda: records)
        assert self.waiter.until(writer.events) == [Committed(self.attempt)]

    def published(self, upto: int, known: int | None = None) -> None:
        """The next writer finds that far published, and goes on to bucket 20; that is in the log once, in order."""
        writer = self.writer(known)
        assert self.take_over(writer) == TookOver(self.attempt, upto)
        self.whole(upto)
        self.commit(writer, self.records(upto, 20))
        self.whole(20)

    def whole(self, end: int) -> None:
        records = self.records(ORIGIN, end)
        for feed in (self.rows, self.letters):
            expected = [(r.value, r.headers) for r in records if r.feed == feed]
            assert self.read(feed) == expected
            assert self.read_by_another_client(feed, len(expected)) == [value for value, _ in expected]

    def read(self, feed: Feed) -> list[tuple[bytes | None, object]]:
        """To the very end of the log: nothing is open (a broker writes markers after it has answered a commit)."""
        lookup, raw = self.log.lookup(), KafkaLookup(self.log.bootstrap, {}, committed=False)
        self.waiter.until(lambda: lookup.bounds(feed) == raw.bounds(feed))
        found = [(r.value, r.headers) for r in lookup.read(feed, 0, lookup.bounds(feed)[1])]
        lookup.close()
        raw.close()
        return found

    def read_by_another_client(self, feed: Feed, count: int) -> list[bytes | None]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.log.bootstrap, isolation_level="read_committed", enable_auto_commit=False
        )
        partition = kafka.TopicPartition(*feed)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        (end,) = consumer.end_offsets([partition]).values()
        found: list[bytes | None] = []
        while consumer.position(partition) < end:
            found += [r.value for some in consumer.poll(1000).values() for r in some]
        consumer.close()
        return found

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


@pytest.fixture
def app(log: KafkaLog, waiter: Waiter, bootstrap: str) -> Iterator[App]:
    app = App(log, waiter)
    writer = app.writer()
    assert app.take_over(writer) == TookOver(1, None)
    app.commit(writer, app.records(ORIGIN, 13))
    with unverified(bootstrap):
        yield app
    app.close()


def of(app: App, *feeds: str) -> Callable[[NewRecord], bool]:
    return lambda record: record.feed in [getattr(app, name) for name in feeds]


def test_what_has_no_end_anywhere_is_ended_and_written_again(app: App) -> None:
    hang(app.log.bootstrap, app.id, app.records(13, 16))
    app.published(13)


def test_what_has_no_end_is_named(app: App, caplog: pytest.LogCaptureFixture) -> None:
    hang(app.log.bootstrap, app.id, app.records(13, 16))
    app.published(13)
    (line,) = [r.getMessage() for r in caplog.records if "no end" in r.getMessage()]
    assert f"{app.progress.topic}[0] at offset 2: a transaction has no end: the broker lost its markers" in line


@pytest.mark.parametrize("lost", [("rows",), ("letters",), ("rows", "letters"), ("progress",), ("progress", "rows")])
def test_what_lacks_its_end_in_some_partitions_was_committed(app: App, lost: tuple[str, ...]) -> None:
    """Its records come once, at their place, although a take-over in between has ended them wrongly."""
    records, open_ = app.records(13, 16), of(app, *lost)
    writer = app.writer()
    assert app.take_over(writer) == TookOver(app.attempt, 13)
    app.commit(writer, [record for record in records if not open_(record)])
    hang(app.log.bootstrap, app.id, [record for record in records if open_(record)])
    app.published(16)


def test_a_crash_in_the_middle_of_mending_is_mended_by_the_next(app: App) -> None:
    """What hung has been ended, and was not written again: the aborted records in the log tell."""
    records, rows = app.records(13, 16), of(app, "rows", "letters")
    writer = app.writer()
    app.take_over(writer)
    app.commit(writer, [record for record in records if not rows(record)])
    hang(app.log.bootstrap, app.id, [record for record in records if rows(record)])
    producer = app.log.transactor(app.id, app.progress, app.waiter.wake, lambda lookup: None, _only_ends(app))
    app.writers.append(producer)
    assert isinstance(app.take_over(producer), TookOver)
    app.published(16)


def _only_ends(app: App) -> Callable[..., object]:
    told = Published(app.name, NODE, True, Life("a1"), ORIGIN)
    mender = Mender(told, told.upto, None, lambda b: Progress("a1", b, 0, 2))

    def ends(committed: object, raw: object) -> object:
        mend = mender.next(committed, raw)  # type: ignore[arg-type]
        return None if mend is None or mend.commit else mend

    return ends


def test_what_its_writer_was_told_to_be_committed_is_rolled_forward(app: App) -> None:
    """By that process itself: it has forgotten the rows."""
    hang(app.log.bootstrap, app.id, app.records(13, 16))
    app.published(16, known=16)


def test_a_node_without_a_corrected_stream_has_its_dead_letters_and_progress_mended(
    log: KafkaLog, waiter: Waiter, bootstrap: str
) -> None:
    app = App(log, waiter, corrected=False)
    writer = app.writer()
    assert app.take_over(writer) == TookOver(1, None)
    app.commit(writer, [r for r in app.records(ORIGIN, 13) if r.feed == app.progress])
    with unverified(bootstrap):
        hang(bootstrap, app.id, [r for r in app.records(ORIGIN, 13) if r.feed == app.letters])
    assert app.take_over(app.writer()) == TookOver(2, 13)
    assert app.read(app.letters) == [(r.value, r.headers) for r in app.records(ORIGIN, 13) if r.feed == app.letters]
    app.close()


def test_a_slow_commit_without_an_end_is_not_believed(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer looks at once, or readers would wait for the next one's end."""
    monkeypatch.setattr(transactor_module, "_SLOW_S", 0.0)
    writer = app.writer()
    assert app.take_over(writer) == TookOver(app.attempt, 13)
    app.commit(writer, app.records(13, 14))
    hang(app.log.bootstrap, "somebody else", [NewRecord(app.rows, b"{}")])
    writer.commit(app.attempt, lambda: app.records(14, 15))
    (event,) = app.waiter.until(writer.events)
    assert isinstance(event, Unknown)
    assert "a transaction has no end" in event.reason


def test_what_another_id_leaves_open_is_waited_for_and_named(app: App) -> None:
    hang(app.log.bootstrap, "somebody else", [NewRecord(app.rows, b"{}")])
    event = app.take_over(app.writer())
    assert isinstance(event, Unknown)
    assert f"{app.rows.topic}[0] at offset 7: a transaction has no end" in event.reason
