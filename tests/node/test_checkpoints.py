"""Durable checkpoints: what a crash, a full disk or a flipped bit leaves behind never becomes somebody's state."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from borealis_py.node import checkpoints
from borealis_py.node.checkpoint_storage import ASIDE, LocalLocation
from borealis_py.node.checkpoints import KEEP, CheckpointStore
from tests.harness.waiting import PATIENCE_S, until
from tests.node.texts import Text, checkpoint


def store(directory: Path, query: str = "q1") -> CheckpointStore:
    return CheckpointStore(LocalLocation(directory), query, Text(), threaded=False)  # type: ignore[arg-type]


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.ckpt"))


def test_the_newest_comes_back_whole(tmp_path: Path) -> None:
    it = store(tmp_path)
    it.save(checkpoint(10, "old"))
    it.save(checkpoint(12, "new"))
    again = store(tmp_path)
    loaded = again.newest()
    assert loaded is not None
    assert (loaded.bucket, loaded.state, loaded.marks) == (12, "new", checkpoint(12).marks)
    assert it.written_bucket == again.written_bucket == 12


def test_a_start_announces_no_checkpoint_without_a_state(tmp_path: Path) -> None:
    """Its node was by upstream backup: a peer that asks to adopt it would be refused."""
    store(tmp_path).save(replace(checkpoint(10), said=14))
    again = store(tmp_path)
    loaded = again.newest()
    assert loaded is not None
    assert (loaded.bucket, loaded.frontier) == (10, 14)
    assert again.written_bucket is None


@pytest.mark.parametrize("keep", [0, 1, 20, 60])
def test_one_cut_short_is_skipped_by_name_and_the_one_before_is_used(tmp_path: Path, keep: int) -> None:
    it = store(tmp_path)
    it.save(checkpoint(10, "old"))
    it.save(checkpoint(12, "new"))
    newest = files(tmp_path)[-1]
    newest.write_bytes(newest.read_bytes()[:keep])
    with capture_logs() as lines:
        loaded = store(tmp_path).newest()
    assert loaded is not None
    assert loaded.bucket == 10
    assert [line["file"] for line in lines if line["log_level"] == "warning"] == [str(newest)]


def test_one_cut_in_half_without_another_leaves_the_log_to_start_from(tmp_path: Path) -> None:
    store(tmp_path).save(checkpoint(10))
    (only,) = files(tmp_path)
    only.write_bytes(only.read_bytes()[: only.stat().st_size // 2])
    assert store(tmp_path).newest() is None


def test_what_a_former_incarnation_still_writes_is_left_to_it(tmp_path: Path) -> None:
    """While one moves, both have the place."""
    temporary = tmp_path / f"half{ASIDE}"
    temporary.write_bytes(b"half")
    CheckpointStore(LocalLocation(tmp_path), "q1", Text(), threaded=False, shared=True)  # type: ignore[arg-type]
    assert temporary.exists()
    store(tmp_path)
    assert not temporary.exists()


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    store(tmp_path).save(checkpoint(10))
    (only,) = files(tmp_path)
    raw = bytearray(only.read_bytes())
    raw[-1] ^= 1
    only.write_bytes(bytes(raw))
    assert store(tmp_path).newest() is None


def test_another_querys_checkpoint_is_not_ours(tmp_path: Path) -> None:
    store(tmp_path, "q1").save(checkpoint(10))
    assert store(tmp_path, "q2").newest() is None


def test_a_write_that_fails_is_told_and_the_older_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = store(tmp_path)
    it.save(checkpoint(10))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with capture_logs() as lines:
        it.save(checkpoint(12))
    monkeypatch.undo()
    assert it.failures == 1
    assert any("No space left" in line.get("why", "") for line in lines)
    loaded = it.newest()
    assert loaded is not None
    assert loaded.bucket == 10
    assert list(tmp_path.glob("*.tmp")) == []


def test_those_of_a_life_that_had_come_further_do_not_push_out_new_ones(tmp_path: Path) -> None:
    """An app begun anew at a fixed origin runs the same buckets again; elsewhere its old checkpoints may still lie."""
    for bucket in (100, 101, 102):
        store(tmp_path, "q1@before").save(checkpoint(bucket))
    it = store(tmp_path, "q1@after")
    for bucket in range(10):
        it.save(checkpoint(bucket))
    loaded = store(tmp_path, "q1@after").newest()
    assert loaded is not None
    assert loaded.bucket == 9
    assert len(files(tmp_path)) == 2 * KEEP
    for bucket in range(103, 103 + KEEP):
        it.save(checkpoint(bucket))
    assert len(files(tmp_path)) == KEEP


def test_a_place_that_takes_nothing_keeps_nobody_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client goes on for minutes: one is being written, the next waits, and the replica is to end."""
    monkeypatch.setattr(checkpoints, "CLOSE_S", 0.05)
    began, go, written = threading.Event(), threading.Event(), list[str]()

    class Slow(LocalLocation):
        def write(self, name: str, content: bytes) -> None:
            began.set()
            assert go.wait(PATIENCE_S)
            written.append(name)

    others = set(threading.enumerate())
    it = CheckpointStore(Slow(tmp_path), "q1", Text())  # type: ignore[arg-type]
    it.save(checkpoint(10))
    assert began.wait(PATIENCE_S)
    it.save(checkpoint(12))
    with capture_logs() as lines:
        it.close()
    assert [line["event"] for line in lines] == ["checkpoint given up: its location accepts no writes"]
    assert written == []
    go.set()
    until(lambda: set(threading.enumerate()) <= others, "its thread ends")
    assert len(written) == 1


def test_the_writing_thread_finishes_before_close_returns(tmp_path: Path) -> None:
    it = CheckpointStore(LocalLocation(tmp_path), "q1", Text())  # type: ignore[arg-type]
    it.save(checkpoint(10))
    it.close()
    assert it.written_bucket == 10


def test_it_knows_all_that_a_start_may_use_once_it_has_written_as_many_as_are_kept(tmp_path: Path) -> None:
    first = store(tmp_path)
    for bucket in range(10, 10 + KEEP):
        assert first.kept is None
        first.save(checkpoint(bucket))
    assert first.kept is not None
    assert [(kept.bucket, kept.offsets) for kept in first.kept] == [(b, (7, 0)) for b in range(10, 10 + KEEP)]
    again = store(tmp_path)
    for bucket in range(20, 20 + KEEP):
        assert again.kept is None, "older ones, of which it knows nothing, may still be started from"
        again.save(checkpoint(bucket))
    assert again.kept is not None
    assert [kept.bucket for kept in again.kept] == list(range(20, 20 + KEEP))


def test_one_that_could_not_be_removed_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = store(tmp_path)
    for bucket in range(10, 10 + KEEP):
        it.save(checkpoint(bucket))
    before = it.kept

    def refuse(*names: str) -> None:
        raise OSError("no permission")

    monkeypatch.setattr(it.place, "remove", refuse)
    it.save(checkpoint(30))
    assert it.kept == before
