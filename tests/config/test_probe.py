"""Whether checkpoints can be written at a place: what is told where they cannot, in time and without keys."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from borealis_py.config import probe
from borealis_py.config.probe import NAME, attempt, check_directory, check_writable
from borealis_py.node import checkpoint_storage
from borealis_py.node.checkpoint_storage import LocationError, location_at
from tests.harness.faults import full_disk
from tests.support.buckets import KEY, SECRET, no_such_bucket
from tests.support.read_only import read_only_directory

PAGE = "x" * 4_096


def refused(uri: str, content: str = "") -> str:
    with pytest.raises(LocationError) as told:
        check_writable(uri, content)
    assert "another location: `checkpoints:` in borealis.yaml" in str(told.value)
    return str(told.value)


def test_what_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    check_writable(f"file://{tmp_path}/new", PAGE)
    check_directory(tmp_path / "other", PAGE)
    assert list((tmp_path / "new").iterdir()) == list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("taken", [False, True])
def test_the_process_that_tries_answers_in_one_line(
    tmp_path: Path, taken: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    if taken:
        place.write_text("a file")
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([f"file://{place}", PAGE])))
    probe.main()
    said = json.loads(capsys.readouterr().out)
    assert ("File exists" in said) if taken else (said == "")


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refused(f"file://{tmp_path}/file").startswith(f"checkpoints cannot be written at file://{tmp_path}/file: ")
    with pytest.raises(
        LocationError, match=r"at .*/file/x: .*Not a directory.*another location: `data_dir:` in borealis.yaml"
    ):
        check_directory(tmp_path / "file" / "x")


def test_a_scheme_that_nobody_knows_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "ANSWER_S", 0.0)  # no process is asked
    with pytest.raises(LocationError, match="checkpoints cannot be kept at nowhere://bucket/x: "):
        check_writable("nowhere://bucket/x")


def test_a_directory_that_is_read_only_is_told() -> None:
    """By this process, since none can be started as nobody."""
    with read_only_directory() as directory:
        uri = f"file://{directory}/mine"
        assert "Permission denied" in attempt(location_at(uri), "", uri)
        with pytest.raises(LocationError, match=r"/read-only/mine: .*Permission denied"):
            check_directory(directory / "mine")


def test_a_bucket_that_is_not_there_is_told_without_keys() -> None:
    with no_such_bucket() as uri:
        said = refused(uri)
    assert "NO_SUCH_BUCKET" in said
    assert "a bucket must be created first" in said
    assert KEY not in said
    assert SECRET not in said


def test_a_store_that_does_not_answer_is_not_waited_for_and_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client goes on for minutes, and a process that has used it does not end before: so it is not this one."""
    monkeypatch.setattr(probe, "ANSWER_S", 3.0)
    with no_such_bucket(answers=False) as uri:
        assert "s3://nowhere/x: no answer within 3 s" in refused(uri)


def test_a_process_that_cannot_try_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "json.py").write_text("raise SystemExit('no such luck')")
    assert "the process that tried ended with code 1: no such luck" in refused(f"file://{tmp_path}/new")


def test_a_full_disk_is_told_to_a_person_and_keeps_no_replica_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that starts again while the disk is full writes its next checkpoint when there is space."""
    uri = f"file://{tmp_path}/disk"
    monkeypatch.setattr(checkpoint_storage, "_aside", lambda name: f"{name}.aside.tmp")
    with full_disk(tmp_path / "disk") as disk:
        assert attempt(location_at(uri), PAGE, uri) == ""
        disk.fill(iter([f"{NAME}.aside.tmp"]))
        assert "No space left" in attempt(location_at(uri), PAGE, uri)
        assert attempt(location_at(uri), "", uri) == ""
        disk.free()
        assert attempt(location_at(uri), PAGE, uri) == ""
