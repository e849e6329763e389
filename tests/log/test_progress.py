"""How far a node has been published, whatever lies in its progress topic."""

from __future__ import annotations

import re

import msgspec
import pytest

from borealis_py.log import topics
from borealis_py.log.acks import ack_record
from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.log.corrected import Progress, dead_letter, progress_record, transaction
from borealis_py.log.description import Life
from borealis_py.log.progress import ProgressLost, Published
from borealis_py.protocol.trimming import Need, ReplicaName
from sunion.bucket import Buckets
from sunion.model import Output, Reject
from tests.reconcile.list_world import ListKernel
from tests.support.simulated_app import SimulatedApp

BUCKETS = Buckets(1_000)
APP, NODE, ORIGIN = "shop", "sums", 10
PROGRESS, ROWS, LETTERS = Feed(topics.progress(APP, NODE)), topics.corrected(APP, NODE), Feed(topics.deadletter(APP))
ACKS = Feed(topics.acks(APP))


class PublishedNode(SimulatedApp):
    """What one node has published, and what else lies there."""

    def __init__(self) -> None:
        super().__init__(*(feed.topic for feed in (PROGRESS, ROWS, LETTERS, ACKS)))

    def publish(
        self, upto: int, rows: tuple[int, ...] = (), letters: tuple[int, ...] = (), app_uid: str = "a1"
    ) -> None:
        """One transaction: a row in each of `rows`, a dead letter in each of `letters`."""
        outputs = {b: Output([(b * 1_000, "x")] if b in rows else None, self._letters(b, letters)) for b in range(100)}
        self.append(*transaction(APP, NODE, outputs, Progress("a1", upto, 0, 1), BUCKETS, ListKernel()))

    @staticmethod
    def _letters(bucket: int, letters: tuple[int, ...]) -> tuple[Reject, ...]:
        return (Reject("s", 5, "late"),) if bucket in letters else ()

    def put(self, feed: Feed, value: bytes | None, key: bytes | None = b"0") -> None:
        self.append(NewRecord(feed, value, key))

    def acknowledge(self, published: int | None, replica: int = 0, node: str = NODE, app_uid: str = "a1") -> None:
        """A replica says how far the node is published, as it has read."""
        need = Need(inc=1, uid="u", number=1, bucket=ORIGIN, offsets={}, published=published)
        self.append(ack_record(APP, app_uid, ReplicaName(node, replica), need))

    def compacted(self) -> None:
        """Compaction has left only the last record of the progress topic."""
        feed = PROGRESS
        self.log.delete_before(feed, self.log.client("a").lookup().bounds(feed)[1] - 1)

    def upto(self, closed: int | None = None, corrected: bool = True) -> int | None:
        return Published(APP, NODE, corrected, Life("a1"), ORIGIN).upto(self.log.client("a").lookup(), closed)


GARBAGE = (
    b"garbage",
    b"",
    None,
    b"[]",
    b'{"app_uid":"a1","bucket":"many","replica":0,"inc":1}',
    msgspec.json.encode(Progress("b2", 99, 0, 1)),
    msgspec.json.encode(Progress("a1", ORIGIN - 1, 0, 1)),
)


def test_nothing_was_ever_published() -> None:
    assert PublishedNode().upto() is None


def test_the_last_progress_counts() -> None:
    world = PublishedNode()
    world.publish(ORIGIN)
    assert world.upto() == ORIGIN, "it has taken over, and published nothing yet"
    world.publish(14, rows=(12,))
    world.publish(17)
    assert world.upto() == 17


@pytest.mark.parametrize("value", GARBAGE)
@pytest.mark.parametrize("key", [b"0", b"1", None])
def test_what_says_nothing_is_passed_over(value: bytes | None, key: bytes | None) -> None:
    world = PublishedNode()
    world.publish(14, rows=(12,))
    for _ in range(100):
        world.put(PROGRESS, value, key)
    assert world.upto() == 14


@pytest.mark.parametrize("value", GARBAGE)
@pytest.mark.parametrize(
    ("rows", "letters", "upto"),
    [((11, 15), (), 16), ((11,), (12,), 13), ((11, 15), (12,), 16), ((), (12, 13), 14), ((), (), None)],
)
def test_where_it_was_displaced_the_last_row_and_the_last_dead_letter_tell(
    value: bytes | None, rows: tuple[int, ...], letters: tuple[int, ...], upto: int | None
) -> None:
    """Not from the origin: what lies there would be published twice."""
    world = PublishedNode()
    world.publish(18, rows, letters)
    world.put(PROGRESS, value)
    world.compacted()
    assert world.upto() == upto


def test_where_it_was_displaced_what_replicas_have_acknowledged_tells_of_empty_buckets() -> None:
    """Behind the last row nothing had output, and replicas' topics may be deleted up to there."""
    world = PublishedNode()
    world.publish(18, rows=(12,))
    world.acknowledge(16)
    world.acknowledge(18, replica=1)
    world.acknowledge(17)
    world.acknowledge(None)
    world.acknowledge(40, node="other")
    world.acknowledge(40, app_uid="b2")
    world.put(ACKS, b"garbage", b"sums/1")
    assert world.upto() == 18, "the progress"
    world.put(PROGRESS, b"garbage")
    world.compacted()
    assert world.upto() == world.upto(closed=18) == 18
    assert world.upto(closed=17) == 13, "not believed"
    world.log.delete_before(ROWS, 1)
    assert world.upto() == 18, "it tells although the rows are gone"


def test_a_row_behind_what_was_acknowledged_tells_more() -> None:
    world = PublishedNode()
    world.publish(18, rows=(15,))
    world.acknowledge(14)
    world.put(PROGRESS, b"garbage")
    world.compacted()
    assert world.upto() == 16


def test_a_node_without_a_corrected_stream_goes_by_its_dead_letters_and_nobody_elses() -> None:
    world = PublishedNode()
    world.publish(18, rows=(15,), letters=(12,))
    world.log.broker.append(dead_letter(APP, "other", 16, Reject("s", 5, "late")))
    world.put(LETTERS, b"a publisher's", None)
    world.put(PROGRESS, b"garbage")
    world.compacted()
    assert world.upto(corrected=False) == 13


def test_progress_that_the_inputs_have_not_closed_is_not_believed() -> None:
    world = PublishedNode()
    world.publish(14, rows=(12,))
    world.log.broker.append(progress_record(APP, NODE, Progress("a1", 40, 0, 1)))
    assert world.upto(closed=40) == 40
    assert world.upto(closed=39) == 13


def test_foreign_records_in_the_corrected_stream_do_not_hide_its_end() -> None:
    world = PublishedNode()
    world.publish(18, rows=(15,))
    for _ in range(50):
        world.put(ROWS, b"somebody else's", None)
    world.put(PROGRESS, b"garbage")
    world.compacted()
    assert world.upto() == 16


@pytest.mark.parametrize(
    ("feed", "corrected", "rows"),
    [(ROWS, True, (15,)), (LETTERS, True, ()), (LETTERS, False, ()), (LETTERS, False, (15,))],
)
def test_where_nothing_tells_any_more_it_ends_by_name(feed: Feed, corrected: bool, rows: tuple[int, ...]) -> None:
    world = PublishedNode()
    world.publish(18, rows=rows, letters=(12,))
    world.put(PROGRESS, b"garbage")
    world.compacted()
    world.log.delete_before(feed, 1)
    with pytest.raises(
        ProgressLost, match=rf"sums: nothing tells how far it wrote to {re.escape(feed.topic)}: .*--reset"
    ):
        world.upto(corrected=corrected)


def test_where_rows_tell_deleted_dead_letters_do_not_end_it() -> None:
    world = PublishedNode()
    world.publish(18, rows=(15,), letters=(12,))
    world.put(PROGRESS, b"garbage")
    world.compacted()
    world.log.delete_before(LETTERS, 1)
    assert world.upto() == 16


def test_an_unreadable_log_is_an_error_and_not_an_origin() -> None:
    world = PublishedNode()
    world.log.client("a").admin().delete([PROGRESS.topic])
    with pytest.raises(LogError, match=PROGRESS.topic):
        world.upto()
