"""When a replica says what it may still read, and what it says (R16.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from borealis_py.log.acks import ack_record, read_ack
from borealis_py.log.base import Feed, Log, Lookup, NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.node.acknowledging import REPEAT_US, Acknowledging
from borealis_py.node.endings import NumberShared
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Identity, StartPoint
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.protocol.trimming import KeptCheckpoint, Need, ReplicaName
from borealis_py.query.recovery import ACTIVE, RecoveryPlan, RecoveryWay
from borealis_py.query.spec import Serves
from sunion.model import Input
from sunion.source import SourceFold
from sunion.union import Mark
from sunion.units import Bucket, Offset
from tests.support.instant_log import InstantLog

EVERY_US = 10_000_000
STANDBY = RecoveryPlan(RecoveryWay.UPSTREAM_BACKUP)
SPEC = ReplicaSpec(
    app="app",
    app_uid="a1",
    node="q",
    replica=1,
    inputs=(Input.source("s"), Input("up", 1, ("t",)), Input.source("z")),
    bucket_us=100_000,
    origin=50,
    partition=0,
    query_hash="h",
    app_json="",
    delays={"q": Delays(3_000_000)},
    log=cast(Log, None),
    data_dir=Path("/data"),
    timing=Timing(),
    serves=(Serves(query="q"),),
    position=1,
    corrected=True,
    host="m1",
)


def kept(*buckets: int) -> tuple[KeptCheckpoint, ...]:
    return tuple(KeptCheckpoint(b, (10 * b, b)) for b in buckets)


def said(record: NewRecord | None) -> Need | None:
    if record is None:
        return None
    read = read_ack(Record(record.feed, 0, 0, record.key, record.value), Life("a1"))
    assert read is not None
    name, need = read
    assert (record.feed, name) == (Feed("app.acks"), ReplicaName("q", 1))
    assert isinstance(need, Need)
    return need


class Driven:
    def __init__(self, **spec: Any) -> None:
        self.it = Acknowledging(replace(SPEC, **spec), Identity(1, 4, "u", "a1"), EVERY_US)

    def due(self, now: int, found: tuple[KeptCheckpoint, ...] | None, published: int | None = None) -> Need | None:
        return said(self.it.due(now, found, published))


def test_it_says_what_a_start_from_the_oldest_reads_of_each_source() -> None:
    assert Driven().due(0, kept(60, 62, 64)) == Need(
        inc=4, uid="u", number=1, bucket=60, offsets={"s": 600, "z": 60}, place="m1:/data"
    )


def test_with_too_few_checkpoints_it_may_start_from_the_origin() -> None:
    need = Driven().due(0, kept(60, 62))
    assert need is not None
    assert (need.bucket, need.offsets) == (50, {"s": 0, "z": 0})


def test_it_says_how_far_the_node_is_published() -> None:
    need = Driven().due(0, kept(60, 62, 64), published=61)
    assert need is not None
    assert need.published == 61


def test_a_shared_place_is_named_by_its_address() -> None:
    need = Driven(checkpoint_uri="s3://bucket/x").due(0, kept(60, 62, 64))
    assert need is not None
    assert need.place == "s3://bucket/x"


def test_a_directory_of_a_machine_is_named_by_the_id_that_lies_in_it_not_by_its_path(tmp_path: Path) -> None:
    """Two machines may both have file:///ckpt, or one host name and path, on disks of their own."""

    def at(disk: str, **spec: Any) -> str:
        place = replace(SPEC, data_dir=tmp_path / disk, **spec).keeps_at
        need = Driven(place=place, **spec).due(0, kept(60, 62, 64))
        assert need is not None
        return need.place

    for disks in ({"a": {}, "b": {}}, {d: {"checkpoint_uri": (tmp_path / "uri" / d).as_uri()} for d in "ab"}):
        a, b = (at(disk, **spec) for disk, spec in disks.items())
        assert a.partition(":")[0] != b.partition(":")[0]
        assert at("a", replica=0, **disks["a"]) == a
    assert replace(SPEC, checkpoint_uri="s3://bucket/x").keeps_at == "s3://bucket/x"
    assert replace(SPEC, checkpoint_uri="kafka").keeps_at == "kafka"


def test_a_place_whose_id_cannot_be_kept_is_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("no directory")
    spec = replace(SPEC, data_dir=tmp_path)
    with capture_logs() as lines:
        assert spec.keeps_at != spec.keeps_at
    assert [line["log_level"] for line in lines] == ["warning"] * 2


def test_it_says_nothing_before_it_knows_all_that_it_keeps() -> None:
    assert Driven().due(0, None) is None


def test_the_first_word_is_repeated_while_no_other_is_known() -> None:
    """For hours perhaps, while an input is away: in silence it would count as gone."""
    driven = Driven()
    start = StartPoint(Bucket(81), None, (Mark(810, SourceFold(0)), Mark(81, SourceFold(0))))
    first = said(driven.it.first(0, cast(Lookup, Acks()), start))
    assert first is not None
    assert driven.due(REPEAT_US - 1, None) is None
    assert driven.due(REPEAT_US, None) == replace(first, number=2)
    assert driven.due(REPEAT_US + 1, None) is None
    again = driven.due(REPEAT_US + EVERY_US, kept(82, 83, 84))
    assert again is not None
    assert (again.bucket, again.number) == (82, 3)


def test_it_speaks_when_that_changes_but_seldom_and_repeats_itself_now_and_then() -> None:
    driven, first, next_ = Driven(), kept(60, 62, 64), kept(62, 64, 66)
    times = [
        (5, first),
        (6, first),
        (EVERY_US + 4, next_),
        (EVERY_US + 5, next_),
        (EVERY_US + 5 + REPEAT_US - 1, next_),
        (EVERY_US + 5 + REPEAT_US, next_),
    ]
    numbers = [None if need is None else need.number for need in (driven.due(now, found) for now, found in times)]
    assert numbers == [1, None, None, 2, None, 3]


class Acks:
    """As much of a Lookup as reads acknowledgements: of replica -> its word, with the place of its checkpoints."""

    def __init__(self, **words: Need) -> None:
        said = [ack_record("app", "a1", ReplicaName("q", int(name[1:])), need) for name, need in words.items()]
        self._said = [Record(record.feed, n, 0, record.key, record.value) for n, record in enumerate(said)]

    def bounds(self, feed: Feed) -> tuple[int, int]:
        return 0, len(self._said)

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        return iter(self._said[first:end])


def word(bucket: int, place: str, published: int | None = None) -> Need:
    offsets = {"s": Offset(10 * bucket), "z": Offset(bucket)}
    return Need(inc=1, uid="w", number=1, bucket=bucket, offsets=offsets, published=published, place=place)


@pytest.mark.parametrize(
    ("recovery", "acks", "first"),
    [
        (ACTIVE, Acks(r0=word(52, "m1:/data", 70)), (81, 810, None)),
        (STANDBY, Acks(), (81, 810, None)),
        (STANDBY, Acks(r0=word(52, "m1:/data", 70)), (52, 520, 70)),
        (STANDBY, Acks(r0=word(52, "m1:/data", 70), r1=word(60, "m1:/data", 71)), (52, 520, 71)),
        (STANDBY, Acks(r0=word(52, "m2:/data", 70), r1=word(60, "m1:/data")), (60, 600, None)),
    ],
)
def test_one_that_begins_may_read_what_those_might_from_whose_checkpoints_it_may_start(
    recovery: RecoveryPlan, acks: Acks, first: tuple[int, int, int | None]
) -> None:
    """Simulator, seed 99763431: what a take-over had begun from was all that it said it needed, and the checkpoints
    before it, of the replica that had run, were worth nothing."""
    marks = (Mark(810, SourceFold(0)), Mark(81, SourceFold(0)))
    start = StartPoint(Bucket(81), None, marks, Bucket(83), empty=True)
    need = said(Driven(recovery=recovery).it.first(0, cast(Lookup, acks), start))
    assert need is not None
    assert (need.bucket, need.offsets["s"], need.published) == first


def test_a_standby_says_what_the_one_that_runs_says_when_that_changes_and_now_and_then() -> None:
    driven, log = Driven(recovery=STANDBY), InstantLog()
    log.create(["app.acks"])
    numbers = []
    for n, (now, published) in enumerate([(0, 70), (1, 70), (2, 71), (2 + REPEAT_US // EVERY_US, 71)]):
        runners = replace(word(52, "m1:/data", published), number=n)
        log.put(ack_record("app", "a1", ReplicaName("q", 0), runners))
        need = said(driven.it.repeated(now * EVERY_US, log.lookup(), 0))
        numbers.append(None if need is None else (need.number, need.published))
    assert numbers == [(1, 70), None, (2, 71), (3, 71)]


def test_a_standby_whose_word_counts_for_nobody_starts_again() -> None:
    driven = Driven(recovery=STANDBY)
    twin = replace(word(52, "m1:/data"), inc=4, uid="twin")
    with pytest.raises(NumberShared, match="replica 1: twin has incarnation 4, too"):
        driven.it.repeated(5, cast(Lookup, Acks(r0=word(52, "m1:/data"), r1=twin)), 0)
