"""Where a start reads that may lose what the log no longer holds (R18.8)."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from borealis_py.log import topics
from borealis_py.log.base import Log, NewRecord
from borealis_py.log.records import BatchHeader, ClaimHeader, RangeHeader, pack
from borealis_py.node.checkpoint_files import LoadedCheckpoint
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.starting import Starting, read_from_what_is_kept
from borealis_py.protocol.incarnation import StartPoint
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.query.spec import Serves
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import FOREVER, Input
from sunion.source import SourceFold
from sunion.union import Mark
from sunion.units import Bucket
from tests.support.instant_log import InstantLog

W, LATE, AHEAD = 100_000, 250_000, 400_000
BUCKETS = Buckets(W)
SPEC = ReplicaSpec(
    app="app", app_uid="a1", node="q", replica=0, inputs=(Input.source("s"), Input.source("t")), bucket_us=W, origin=0,
    partition=0, query_hash="h", app_json="", delays={"q": Delays(3_000_000)}, log=cast(Log, None),
    data_dir=Path("/data"), timing=replace(Timing(), ahead_max_us=AHEAD), serves=(Serves(query="q"),), position=1,
    corrected=True, gap=True,
)  # fmt: skip
OWNER = SourceFold(3 * W, 1, "p", 2, LATE)
START = StartPoint(Bucket(3), "state", (Mark(4, OWNER), Mark(2, SourceFold(3 * W, 1, "t", 0))))


def batch(n: int, epoch: int = 1, uid: str = "p", boundary: int | None = None) -> bytes:
    """The record at offset n: a row, and the boundary of bucket n."""
    return pack(BatchHeader("a1", epoch, uid, n - 1, struct.pack("<q", n * W), boundary or n * W, "json", n), b"[{}]")


def log(*values: bytes, begins: int) -> InstantLog:
    """Source s holds these from offset `begins` on; t has lost nothing."""
    found = InstantLog()
    s, t = topics.source("app", "s"), topics.source("app", "t")
    found.create([s.topic, t.topic])
    found.put(*(NewRecord(s, value, timestamp_ms=0) for value in values))
    found.delete_before(s, begins)
    return found


CLAIM = pack(ClaimHeader("a1", 1, "p", LATE))
OLD = [CLAIM, *(batch(n) for n in range(1, 12))]


def starting(spec: ReplicaSpec, there: InstantLog, covered: bool = True) -> Starting:
    """Of a replica whose newest checkpoint is `START`; `covered`: the log has what that needs."""
    assert START.marks is not None
    own = LoadedCheckpoint(START.bucket, START.state, START.marks)
    store: Any = SimpleNamespace(newest=lambda: own, of_peers=lambda whole=True: iter(()))
    kernel: Any = SimpleNamespace(initial=lambda: "empty", unbounded=(), schema_id="h")

    def check(*of: object, **how: object) -> None:
        if not covered:
            raise RetentionLost("offset 4 is needed")

    return Starting(spec, store, kernel, there.lookup(), check)


def with_topics(there: InstantLog, *ends: int) -> InstantLog:
    """Each replica's topic has all buckets below one of these; 0: it has none."""
    for k, end in enumerate(ends):
        feed = topics.own_feeds("app", "q", k, 1)[0]
        there.create([feed.topic])
        if end:
            there.put(
                NewRecord(feed, pack(RangeHeader("a1", 1, 0, end, 0)), timestamp_ms=BUCKETS.timestamp_ms(end - 1))
            )
    return there


AMNESIA = replace(SPEC, recovery=RecoveryPlan(RecoveryWay.AMNESIA), replicas=2)


def test_by_amnesia_it_begins_with_nothing_behind_what_anybody_has_said() -> None:
    found = starting(AMNESIA, with_topics(log(*OLD, begins=0), 5, 9)).point()
    assert found == StartPoint(Bucket(3), "empty", START.marks, Bucket(9), empty=True, present=True)


def test_who_may_lose_nothing_goes_on_from_its_checkpoint() -> None:
    found = starting(replace(AMNESIA, gap=False), with_topics(log(*OLD, begins=0), 5, 9)).point()
    assert (found.state, found.present) == ("state", False)


def test_where_nobody_has_ever_run_nothing_is_lost() -> None:
    it = starting(AMNESIA, with_topics(log(*OLD, begins=0), 0, 0))
    it._store = cast(Any, SimpleNamespace(newest=lambda: None, of_peers=lambda whole=True: iter(())))
    assert it.point() == StartPoint(Bucket(0), "empty", empty=True)


@pytest.mark.parametrize("way", RecoveryWay)
def test_too_short_a_retention_ends_it_or_is_a_gap(way: RecoveryWay) -> None:
    spec, there = replace(SPEC, recovery=RecoveryPlan(way), replicas=2), with_topics(log(*OLD, begins=8), 5, 9)
    found = starting(spec, there, covered=False).point()
    said = 5 if way is RecoveryWay.ACTIVE else 9  # of a node of which all replicas run each fills its own topic
    assert (found.bucket, found.own, found.state, found.present) == (15, said, "empty", True)
    with pytest.raises(RetentionLost, match="offset 4 is needed"):
        starting(replace(spec, gap=False), there, covered=False).point()
    nothing_left = with_topics(log(*OLD, begins=12), 5, 9)
    with pytest.raises(RetentionLost, match="offset 4 is needed"):
        starting(spec, nothing_left, covered=False).point()


def test_it_reads_on_behind_the_first_record_that_is_surely_its_owner_s() -> None:
    found = read_from_what_is_kept(SPEC, log(*OLD, begins=8).lookup(), START)
    assert found is not None
    assert found.marks == (Mark(9, SourceFold(8 * W, 1, "p", 7, LATE)), START.marks[1] if START.marks else None)
    assert (found.bucket, found.own) == (15, 3), "a row may lie 650 ms before its time, so bucket 14 may lack one"


def test_what_was_said_stays_as_it_was() -> None:
    start = replace(START, own=Bucket(7))
    found = read_from_what_is_kept(SPEC, log(*OLD, begins=8).lookup(), start)
    assert found is not None
    assert found.own == 7


def test_a_later_owner_is_known_by_its_claim() -> None:
    values = [*OLD, pack(ClaimHeader("a1", 13, "new", 0)), batch(13, 13, "new"), batch(14, 13, "new")]
    found = read_from_what_is_kept(SPEC, log(*values, begins=12).lookup(), START)
    assert found is not None
    assert found.marks is not None
    assert found.marks[0] == Mark(14, SourceFold(13 * W, 13, "new", 12, 0))
    assert found.bucket == 20, "its former owner's rows, which are deleted, may lie 650 ms before their time"


@pytest.mark.parametrize("begins", [13, 15], ids=["its claim is deleted", "nothing is left"])
def test_whose_rows_may_come_how_late_nobody_knows_then(begins: int) -> None:
    values = [*OLD, pack(ClaimHeader("a1", 13, "new", 0)), batch(13, 13, "new"), batch(14, 13, "new")]
    assert read_from_what_is_kept(SPEC, log(*values, begins=begins).lookup(), START) is None


def test_after_its_end_nothing_can_come() -> None:
    values = [*OLD, batch(12, boundary=FOREVER)]
    found = read_from_what_is_kept(SPEC, log(*values, begins=12).lookup(), START)
    assert found is not None
    assert found.bucket == BUCKETS.last


def test_what_is_still_there_is_read_as_it_would_be() -> None:
    found = read_from_what_is_kept(SPEC, log(*OLD, begins=4).lookup(), START)
    assert found == replace(START, own=Bucket(3))
