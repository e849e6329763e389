"""Checkpoints as bases and increments: whatever is torn, missing or another than it was, a start has a right state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from borealis_py.node.checkpoint_files import (
    MAGIC_1,
    CheckpointName,
    LoadedCheckpoint,
    Position,
    names_in,
)
from borealis_py.node.checkpoint_storage import CheckpointLocation, LocalLocation, location_at, sealed
from borealis_py.node.checkpoint_topic import TopicLocation
from borealis_py.node.checkpoints import KEEP, CheckpointStore
from tests.node.texts import Numbers, numbers
from tests.support.instant_log import InstantLog

MOST = 6
"""Increments behind a base, which is as large as about ten of them."""
Make = Callable[[str], CheckpointLocation]


@pytest.fixture(params=["local", "file", "kafka"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """The place of a replica's name, as each process finds it."""
    if request.param == "local":
        return lambda name: LocalLocation(tmp_path / name)
    if request.param == "file":
        return lambda name: location_at(f"file://{tmp_path}", name)
    log = InstantLog()
    return lambda name: TopicLocation(log, "app", name)  # type: ignore[arg-type]


def store(place: CheckpointLocation, query: str = "q1", increments: int = MOST) -> CheckpointStore:
    return CheckpointStore(place, query, Numbers(), threaded=False, increments=increments)  # type: ignore[arg-type]


def written(place: CheckpointLocation, buckets: range, **how: Any) -> CheckpointStore:
    """A store that has written a checkpoint at each of these buckets."""
    it = store(place, **how)
    for bucket in buckets:
        it.save(numbers(bucket))
    return it


def right(loaded: LoadedCheckpoint | None, bucket: int) -> bool:
    """Whether it is the checkpoint at this bucket, as it was saved."""
    saved = numbers(bucket)
    return loaded == LoadedCheckpoint(bucket, saved.state, saved.marks)


def warnings(lines: list[Any]) -> list[str]:
    return [f"{line['event']} | {line['file']}" for line in lines if line["log_level"] == "warning"]


def test_a_start_reads_a_base_and_what_came_since(at: Make) -> None:
    written(at("q.r0"), range(100, 120, 2))
    place = at("q.r0")
    assert [(n.bucket, n.base) for n in names_in(place)] == [
        *[(b, 100) for b in range(100, 114, 2)],
        *[(b, 114) for b in range(114, 120, 2)],
    ]
    with capture_logs() as lines:
        assert right(store(place).newest(), 118)
    assert not warnings(lines)
    sizes = [len(place.read(str(name))) for name in names_in(place)]
    assert max(sizes[1:MOST]) * 5 < sizes[0], "an increment has two numbers, and a base a hundred"


def test_a_peer_finds_the_checkpoint_at_any_bucket(at: Make) -> None:
    written(at("q.r0"), range(100, 120, 2))
    peer = store(at("q.r1"))
    for bucket in range(100, 120, 2):
        assert right(peer.of_peer(0, bucket), bucket)
    assert peer.of_peer(0, 101) is None
    assert [loaded.bucket for _, loaded in peer.of_peers()] == list(range(118, 98, -2))


@pytest.mark.parametrize("gone", [110, 114])
@pytest.mark.parametrize("how", ["torn", "missing"])
def test_one_that_is_lost_costs_those_that_add_to_it(at: Make, gone: int, how: str) -> None:
    """110: an increment, behind which the base's others go on. 114: a base."""
    written(at("q.r0"), range(100, 120, 2))
    place = at("q.r0")
    (lost,) = [name for name in names_in(place) if name.bucket == gone]
    if how == "torn":
        content = place.read(str(lost))
        place.write(str(lost), content[: len(content) // 2])
    else:
        place.remove(str(lost))
    for name in names_in(place):
        if name.base == 114 and gone == 110:
            place.remove(str(name))  # else a start would not come to read what is broken
    with capture_logs() as lines:
        assert right(store(at("q.r0")).newest(), 108 if gone == 110 else 112)
    told = warnings(lines)
    broken = "checkpoint skipped: a file that it adds to is missing, torn or another; what lies before is used"
    newest = CheckpointName(112, 100) if gone == 110 else CheckpointName(118, 114)
    assert f"{broken} | {place.display_name(str(newest))}" in told
    assert len(told) == (2 if how == "torn" else 1), "the torn one by name, and once what adds to it"


def test_an_increment_of_another_base_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Two lives of one app write the same buckets, and one file of the other lies here by mistake."""
    for name, window in (("a", 100), ("b", 90)):
        it = store(LocalLocation(tmp_path / name))
        for bucket in (100, 102, 104):
            it.save(numbers(bucket, window))
    stranger = str(CheckpointName(104, 100))
    (tmp_path / "a" / stranger).write_bytes((tmp_path / "b" / stranger).read_bytes())
    with capture_logs() as lines:
        assert right(store(LocalLocation(tmp_path / "a")).newest(), 102)
    assert [line.rpartition("/")[2] for line in warnings(lines)] == [stranger]


def test_files_of_another_app_are_skipped_by_name(at: Make) -> None:
    written(at("q.r0"), range(200, 208, 2), query="q1@before")
    written(at("q.r0"), range(100, 104, 2), query="q1@after")
    with capture_logs() as lines:
        assert right(store(at("q.r0"), "q1@after").newest(), 102)
    assert {line.partition(" | ")[0] for line in warnings(lines)} == {"checkpoint skipped: it belongs to another query"}


def test_those_of_an_earlier_version_are_bases(tmp_path: Path) -> None:
    saved = numbers(100)
    old = msgspec.msgpack.encode(
        ("q1", 100, [Position.of(mark) for mark in saved.marks], Numbers().encode_state(saved.state))  # type: ignore[arg-type]
    )
    place = LocalLocation(tmp_path)
    place.write(str(CheckpointName(100, 100)), sealed(MAGIC_1, old))
    assert right(store(place).newest(), 100)
    written(place, range(102, 104))
    assert right(store(place).newest(), 103)


def test_a_base_comes_once_increments_are_as_large(at: Make) -> None:
    it = store(at("q.r0"), increments=1000)
    for bucket in range(100, 400, 2):
        it.save(numbers(bucket))
    place = at("q.r0")
    for base in (name for name in names_in(place)[:-1] if name.is_base):
        sizes = [len(place.read(str(n))) for n in names_in(place) if n.base == base.bucket and not n.is_base]
        assert sum(sizes[:-1]) < len(place.read(str(base)))
        assert max(n.bucket for n in names_in(place) if n.base == base.bucket) == 398 or sum(sizes) >= len(
            place.read(str(base))
        )


def test_what_shares_nothing_with_the_one_before_is_a_base(at: Make) -> None:
    it = written(at("q.r0"), range(100, 104, 2))
    it.save(numbers(500))
    assert names_in(at("q.r0"))[-1] == CheckpointName(500, 500)


def test_where_increments_are_not_wanted_all_are_bases(at: Make) -> None:
    written(at("q.r0"), range(100, 110), increments=0)
    assert names_in(at("q.r0")) == [CheckpointName(b, b) for b in range(107, 110)]


def test_one_that_could_not_be_written_is_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = written(LocalLocation(tmp_path), range(100, 104, 2))
    with monkeypatch.context() as patch:

        def full(name: str, content: bytes) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(it.place, "write", full)
        it.save(numbers(104))
    assert it.failures == 1
    it.save(numbers(106))
    assert names_in(it.place)[-1] == CheckpointName(106, 100)
    assert right(store(LocalLocation(tmp_path)).newest(), 106)


def test_what_is_kept_goes_back_to_the_newest_of_the_oldest_base(at: Make) -> None:
    """And what is not needed for that is removed."""
    it = store(at("q.r0"))
    ends = range(100 + 2 * MOST, 300, 2 * (MOST + 1))
    for bucket in range(100, 200, 2):
        it.save(numbers(bucket))
        bases = [name.bucket for name in names_in(it.place) if name.is_base]
        if bucket < 100 + 4 * (MOST + 1):
            assert it.kept is None
        else:
            assert it.kept is not None
            assert [kept.bucket for kept in it.kept] == [*[e for e in ends if e < bucket][-2:], bucket]
            assert [kept.offsets for kept in it.kept] == [(10 * kept.bucket,) for kept in it.kept]
            assert len(bases) == KEEP
            assert all(name.base in bases for name in names_in(it.place))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), count=st.integers(3 * MOST, 60))
def test_whatever_two_files_are_lost_a_start_reads_no_more_than_was_said(
    data: st.DataObject, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = LocalLocation(tmp_path_factory.mktemp("c"))
    it = written(place, range(100, 100 + 2 * count, 2))
    assert it.kept is not None
    for name in data.draw(st.lists(st.sampled_from(names_in(place)), max_size=KEEP - 1, unique=True)):
        content = place.read(str(name))
        place.write(str(name), content[: data.draw(st.integers(0, len(content) - 1))])
    loaded = store(place).newest()
    assert loaded is not None
    assert right(loaded, loaded.bucket)
    least = min(kept.bucket for kept in it.kept)
    assert loaded.bucket >= least
    assert loaded.marks[0].offset >= min(kept.offsets[0] for kept in it.kept)


def test_a_zombie_leaves_what_its_successor_still_adds_to(at: Make) -> None:
    """It goes on with bases of its own, and so does the successor, with increments to an old one."""
    zombie = store(at("q.r0"), increments=0)
    zombie.save(numbers(100))
    successor = store(at("q.r0"))
    successor.save(numbers(101))
    for n in range(1, MOST):
        zombie = store(at("q.r0"), increments=0)  # in a topic, whoever comes later knows what is there
        zombie.save(numbers(100 + 5 * n))
        successor.save(numbers(102 + 5 * n))
    assert right(store(at("q.r0")).newest(), 102 + 5 * (MOST - 1))
