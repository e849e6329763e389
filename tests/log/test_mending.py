"""What a writer finds of a broker that lost ends of transactions, decided from the log alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import pytest

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.corrected import Progress, letter_id, progress_record, read_gap, row_id, transaction
from borealis_py.log.description import Life
from borealis_py.log.mending import Mender
from borealis_py.log.progress import Published
from borealis_py.simulation.log.broker import Partition
from borealis_py.simulation.log.reader import MemoryLookup
from sunion.bucket import Buckets
from sunion.model import Output, Reject
from tests.reconcile.list_world import ListKernel
from tests.support.simulated_app import SimulatedApp

APP, NODE, ORIGIN = "shop", "sums", 10
PROGRESS, ROWS, LETTERS = Feed(topics.progress(APP, NODE)), topics.corrected(APP, NODE), Feed(topics.deadletter(APP))
ALL = (PROGRESS, ROWS, LETTERS)


class HidingBroker(SimulatedApp):
    """One node's transactions, whose ends are written into all partitions but those that `loses` names."""

    def __init__(self) -> None:
        super().__init__(*(feed.topic for feed in ALL), topics.acks(APP))
        self.client = self.log.client("a")
        self.closed: int | None = None
        self.gap = True
        self.loses: Collection[Feed] = ()
        self.log.broker.losing.append(lambda parts: [p for p in parts if p.feed in self.loses])

    def publish(self, first: int, end: int, loses: Collection[Feed] = ()) -> None:
        self.write(records(first, end), loses)

    def write(self, some: Sequence[NewRecord], loses: Collection[Feed] = (), commit: bool = True) -> None:
        broker = self.log.broker
        epoch = broker.init_producer("w")
        broker.write("w", epoch, some)
        self.loses = loses
        (broker.commit if commit else broker.abort)("w", epoch)
        self.loses = ()

    def mended(self, known: int | None = None) -> list[bool]:
        """Take over and mend; whether each step was committed."""
        steps = []
        while (mend := self.next(known)) is not None:
            self.write(mend.records, commit=mend.commit)
            steps.append(mend.commit)
        return steps

    def next(self, known: int | None = None, corrected: bool = True):  # type: ignore[no-untyped-def]
        told = Published(APP, NODE, corrected, Life("a1"), ORIGIN, gap=self.gap)
        mender = Mender(told, lambda log: told.upto(log, self.closed), known, lambda b: Progress("a1", b, 0, 2))
        return mender.next(self.client.lookup(), MemoryLookup(self.client, committed=False))

    def upto(self) -> int | None:
        return Published(APP, NODE, True, Life("a1"), ORIGIN).upto(self.client.lookup())

    def gaps(self) -> list[tuple[int, int]]:
        told = (read_gap(record, Life("a1")) for record in self.log.committed(PROGRESS))
        return [(one.first, one.end) for one in told if one is not None]

    def seen(self) -> tuple[list[str], list[str]]:
        rows = [str(row_id(r)) for r in self.log.committed(ROWS)]
        return rows, [str(letter_id(r, NODE)) for r in self.log.committed(LETTERS)]


def records(first: int, end: int, letters: int = 2) -> list[NewRecord]:
    """Of each bucket two rows, and dead letters."""
    told = (Reject("s", -1, "unlucky"),) * letters
    outputs = {b: Output([(b * 1_000, "x"), (b * 1_000, "y")], told) for b in range(first, end)}
    return list(transaction(APP, NODE, outputs, Progress("a1", end, 0, 1), Buckets(1_000), ListKernel()))


def gap(first: int, end: int) -> list[NewRecord]:
    return list(transaction(APP, NODE, {}, Progress("a1", end, 0, 1), Buckets(1_000), ListKernel(), True, first))


def both(first: int, end: int) -> tuple[list[str], list[str]]:
    ids = [f"{b}:{i}" for b in range(first, end) for i in (0, 1)]
    return ids, ids


@pytest.fixture
def world() -> HidingBroker:
    world = HidingBroker()
    world.publish(10, 12)
    return world


def test_where_nothing_is_wrong_nothing_is_done(world: HidingBroker) -> None:
    world.write(records(12, 14), commit=False)
    assert HidingBroker().mended() == world.mended() == []
    assert world.upto() == 12


def test_what_has_no_end_at_all_is_ended(world: HidingBroker) -> None:
    world.publish(12, 14, loses=ALL)
    assert world.mended() == [False]
    assert (world.upto(), world.seen()) == (12, both(10, 12))


@pytest.mark.parametrize(
    "lost", [(ROWS,), (LETTERS,), (PROGRESS,), (ROWS, LETTERS), (PROGRESS, ROWS), (PROGRESS, LETTERS)]
)
@pytest.mark.parametrize("hidden", [False, True], ids=["hangs", "another's abort hid it"])
def test_what_has_an_end_anywhere_was_committed(world: HidingBroker, lost: tuple[Feed, ...], hidden: bool) -> None:
    world.publish(12, 14, loses=lost)
    if hidden:
        world.write(records(14, 16), commit=False)
    assert world.mended() == ([True] if hidden else [False, True])
    assert (world.upto(), world.seen()) == (14, both(10, 14))
    assert world.mended() == []


def test_what_is_written_again_keeps_its_time_and_is_told(world: HidingBroker) -> None:
    """Of rows that is their buckets', of dead letters that of the log."""
    world.publish(12, 14, loses=(ROWS,))
    world.write(records(14, 16), commit=False)
    mend = world.next()
    assert [(str(row_id(r)), r.timestamp_ms) for r in mend.records if r.feed == ROWS] == [
        (f"{b}:{i}", b) for b in (12, 13) for i in (0, 1)
    ]
    assert mend.why.endswith(
        f"{PROGRESS.topic}: below bucket 14 the broker lost markers of what was committed: "
        "4 records that nobody could see are written again"
    )
    world.publish(14, 16, loses=(LETTERS,))
    world.write(records(16, 17), commit=False)
    letters = [r for r in world.next().records if r.feed == LETTERS]
    assert [r.timestamp_ms for r in letters] == [None] * 4


@pytest.mark.parametrize("hidden", [(), (PROGRESS,), (LETTERS,)], ids=["nothing", "its progress", "its dead letter"])
def test_what_was_not_committed_of_buckets_that_are_lost_by_now_stays_away(
    world: HidingBroker, hidden: tuple[Feed, ...]
) -> None:
    """Simulator, seed 86007531: who takes over again found rows that nobody could see below what was published."""
    world.write(records(12, 14), commit=False)
    world.write(gap(12, 15), loses=hidden)
    world.write(records(15, 16), commit=False)
    assert world.mended() == ([True] if hidden else [])
    rows, letters = world.seen()
    assert (world.upto(), rows) == (15, both(10, 12)[0])
    assert letters == [*both(10, 12)[1], "14:0"]


@pytest.mark.parametrize("lost", [(PROGRESS,), (LETTERS,)], ids=["its progress", "its dead letter"])
def test_a_gap_is_named_again_where_it_was_hidden(world: HidingBroker, lost: tuple[Feed, ...]) -> None:
    world.write(gap(12, 15), loses=lost)
    world.write(records(15, 16), commit=False)
    assert world.mended() == [True]
    assert world.gaps() == [(12, 15)]
    named = [r for r in world.log.committed(LETTERS) if dict(r.headers).get("gap") == b"12:15"]
    assert len(named) == 1
    assert (world.upto(), world.mended()) == (15, [])


def test_progress_that_cannot_be_hides_no_gap(world: HidingBroker) -> None:
    world.write(gap(12, 15), loses=(PROGRESS, LETTERS))
    world.write(records(15, 16, letters=0), loses=(PROGRESS,))
    world.write(records(16, 17), commit=False)
    world.write([progress_record(APP, NODE, Progress("a1", 1_000, 0, 1))])
    world.closed = 20
    assert world.mended() == [True]
    assert world.gaps() == [(12, 15)]


@pytest.mark.parametrize("known", [None, 16], ids=["others", "who published them"])
@pytest.mark.parametrize("steps", [(16,), (14, 16)], ids=["at once", "in two steps"])
@pytest.mark.parametrize(
    "hidden", [(), (LETTERS,), (PROGRESS,), (ROWS,), (PROGRESS, ROWS), (PROGRESS, LETTERS), (ROWS, LETTERS)]
)
def test_a_gap_that_was_not_committed_is_not_named_over_what_is_published(
    world: HidingBroker, hidden: tuple[Feed, ...], steps: tuple[int, ...], known: int | None
) -> None:
    """Another replica had lost nothing, and published the buckets."""
    world.write(gap(12, 15), commit=False)
    for first, end in pairwise((12, *steps)):
        world.publish(first, end, loses=hidden if end == 16 else ())
    world.write(records(16, 17), commit=False)
    assert world.mended(known) == ([True] if hidden else [])
    assert (world.upto(), world.seen()) == (16, both(10, 16))
    assert world.gaps() == []


def test_progress_in_the_middle_shows_that_a_gap_was_not_committed(world: HidingBroker) -> None:
    """Without it: buckets 12 to 14 had no output."""
    world.write(gap(12, 15), commit=False)
    for end, loses in ((14, (PROGRESS,)), (15, (PROGRESS,))):
        world.write([progress_record(APP, NODE, Progress("a1", end, 0, 1))], loses=loses)
    world.write(records(15, 16, letters=0), loses=(PROGRESS,))
    world.write(records(16, 17), commit=False)
    assert world.mended() == [True]
    assert (world.upto(), world.gaps()) == (16, [])


def test_whatever_the_guarantee_is_now_no_aborted_gap_is_told_of(world: HidingBroker) -> None:
    world.write(gap(12, 15), commit=False)
    world.write(records(12, 16, letters=0))
    world.gap = False
    assert world.mended() == []
    assert world.seen() == (both(10, 16)[0], both(10, 12)[1])


@pytest.mark.parametrize("rows", [(12, 16), (15, 16)], ids=["of its buckets", "behind it"])
def test_rows_alone_or_progress_show_that_a_gap_was_not_committed(world: HidingBroker, rows: tuple[int, int]) -> None:
    world.write(gap(12, 15), commit=False)
    if rows[0] == 15:
        world.write([progress_record(APP, NODE, Progress("a1", 14, 0, 1))])
    world.write(records(*rows, letters=0), loses=(PROGRESS,))
    world.write(records(16, 17), commit=False)
    assert world.mended() == [True]
    assert (world.upto(), world.gaps()) == (16, [])
    assert world.seen() == ([*both(10, 12)[0], *both(*rows)[0]], both(10, 12)[1])


@pytest.mark.parametrize(("aborted", "committed"), [(17, 15), (15, 17)])
def test_of_two_gaps_that_begin_alike_the_later_one_was_committed(
    world: HidingBroker, aborted: int, committed: int
) -> None:
    world.write(gap(12, aborted), commit=False)
    world.write(gap(12, committed), loses=(PROGRESS, LETTERS))
    world.write(records(17, 18, letters=0), loses=(PROGRESS,))
    world.write(records(18, 19), commit=False)
    assert world.mended() == [True]
    assert (world.upto(), world.gaps()) == (18, [(12, committed)])
    assert world.seen() == ([*both(10, 12)[0], *both(17, 18)[0]], [*both(10, 12)[1], f"{committed - 1}:0"])


def test_dead_letters_that_were_aborted_before_it_do_not_speak_against_a_gap(world: HidingBroker) -> None:
    world.write(records(12, 14), commit=False)
    world.write(gap(12, 15), loses=(PROGRESS, LETTERS))
    world.write(records(15, 16, letters=0), loses=(PROGRESS,))
    world.write(records(16, 17), commit=False)
    assert world.mended() == [True]
    assert (world.upto(), world.gaps()) == (16, [(12, 15)])
    assert world.seen() == ([*both(10, 12)[0], *both(15, 16)[0]], [*both(10, 12)[1], "14:0"])


def test_a_gap_whose_dead_letter_can_be_seen_was_committed(world: HidingBroker) -> None:
    """While the query asked for another guarantee, nobody looked for gaps."""
    world.write(gap(12, 15), loses=(PROGRESS,))
    world.write(records(15, 16), commit=False)
    world.write([progress_record(APP, NODE, Progress("a1", 15, 0, 2))])
    assert world.mended() == [True]
    assert (world.upto(), world.gaps(), world.mended()) == (15, [(12, 15)], [])


def test_a_gap_that_this_process_committed_is_named_even_if_others_published_some_of_it(world: HidingBroker) -> None:
    """Or nothing would tell of bucket 14."""
    world.write(gap(12, 15), loses=ALL)
    world.write(records(15, 16), commit=False)
    world.publish(12, 14)
    assert world.mended(known=15) == [True]
    assert (world.upto(), world.gaps()) == (15, [(12, 15)])


def test_nor_does_a_dead_letter_name_it(world: HidingBroker) -> None:
    world.write(gap(12, 15), commit=False)
    world.write(records(12, 16, letters=0))
    world.write(records(16, 17), commit=False)
    assert world.mended() == []
    assert (world.upto(), world.seen()) == (16, (both(10, 16)[0], both(10, 12)[1]))


def test_an_abort_without_an_end_is_mended_too(world: HidingBroker) -> None:
    world.write(records(12, 14), loses=(ROWS,), commit=False)
    assert world.mended() == [False]
    assert (world.upto(), world.seen()) == (12, both(10, 12))


def test_what_this_process_was_told_to_be_committed_is_written_again(world: HidingBroker) -> None:
    world.publish(12, 14, loses=ALL)
    assert world.mended(known=14) == [False, True]
    assert (world.upto(), world.seen()) == (14, both(10, 14))


@pytest.mark.parametrize("before", [(), (12, 13)], ids=["the same bucket", "one later"])
def test_what_another_mended_first_does_not_hide_what_only_this_process_knows_of(
    world: HidingBroker, before: tuple[int, ...]
) -> None:
    """The other went by the bucket that one partition shows, and wrote its rows behind all others."""
    if before:
        world.publish(*before)
    kept = [r for r in records(13, 16) if r.feed != LETTERS or letter_id(r, NODE).bucket == 13]
    world.write(kept, loses=(ROWS, PROGRESS))
    assert world.mended() == [False, True]
    assert world.upto() == 14
    assert world.mended(known=16) == [True]
    rows = [f"{b}:{i}" for b in (10, 11, *([12] if before else []), 13, 14, 15) for i in (0, 1)]
    assert (world.upto(), world.seen()[0]) == (16, rows)
    assert world.mended(known=16) == []


def test_letters_too_that_another_did_not_know_of_are_written_again(world: HidingBroker) -> None:
    world.write([r for r in records(12, 15) if r.feed != ROWS or row_id(r).bucket == 12], loses=(LETTERS, PROGRESS))
    assert world.mended() == [False, True]
    assert world.upto() == 13
    assert world.mended(known=15) == [True]
    assert (world.upto(), world.seen()[1]) == (15, both(10, 15)[1])


def test_of_the_attempts_that_were_aborted_each_row_and_letter_comes_once(world: HidingBroker) -> None:
    world.write(records(12, 14)[:3], commit=False)
    world.publish(12, 14, loses=(ROWS, LETTERS))
    world.write(records(14, 15), commit=False)
    assert world.mended() == [True]
    assert world.seen() == both(10, 14)


@pytest.mark.parametrize("lost", [(feed,) for feed in ALL])
def test_what_ends_others_may_lose_its_own_end(world: HidingBroker, lost: tuple[Feed, ...]) -> None:
    """It is found again, and never comes to be seen itself."""
    world.publish(12, 14, loses=ALL)
    world.write(world.next().records, loses=lost, commit=False)
    assert world.next().commit is False
    assert world.mended() == [False]
    world.publish(12, 14)
    assert world.seen() == both(10, 14)


def test_a_node_that_publishes_no_rows_has_no_topic_of_them_to_mend(world: HidingBroker) -> None:
    world.write([r for r in records(12, 14) if r.feed != ROWS], loses=ALL)
    assert [record.feed for record in world.next(corrected=False).records] == [PROGRESS, LETTERS]


def test_the_topic_and_the_offset_are_named(world: HidingBroker) -> None:
    end = len(world.log.broker.partition(ROWS).records)
    world.publish(12, 14, loses=(ROWS,))
    assert f"{ROWS.topic}[0] at offset {end}: a transaction has no end: the broker lost" in world.next().why


def test_dead_letters_behind_another_nodes_open_transaction_are_waited_for(world: HidingBroker) -> None:
    broker = world.log.broker
    broker.write("other", broker.init_producer("other"), [NewRecord(LETTERS, b"", None, None, (("node", b"other"),))])
    assert world.mended() == []
    world.publish(12, 14)
    assert world.next().commit is False
    broker.init_producer("other")
    assert world.mended() == []
    assert world.seen()[0] == both(10, 14)[0]


def test_rows_of_others_are_left_alone(world: HidingBroker) -> None:
    partition: Partition = world.log.broker.partition(ROWS)
    world.write([NewRecord(ROWS, b"{}", None, 5, (("id", b"nonsense"),))], commit=False)
    assert world.mended() == []
    assert [r.value for r in partition.read_raw(0, len(partition.records))][-1] == b"{}"
