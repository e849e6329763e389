"""Checkpoints on file systems other than this machine's: whole or not there, torn ones recognised, keys not shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileSystemHandler, FileType, PyFileSystem
from structlog.testing import capture_logs

from borealis_py.config.probe import check_writable
from borealis_py.log.base import LogError
from borealis_py.node.checkpoint_storage import (
    CheckpointLocation,
    LocalLocation,
    LocationError,
    UriLocation,
    as_os_error,
    forget,
    id_of,
    location_at,
)
from borealis_py.node.checkpoints import KEEP, CheckpointStore
from tests.harness.waiting import until
from tests.node.texts import Text, checkpoint
from tests.support.buckets import SECRET, empty_bucket


class Objects(FileSystemHandler):
    """An object store (`kind` "s3"), or one that renames without replacing as HDFS does ("hdfs"), in memory."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.files: dict[str, bytes] = {}
        self.written: list[str] = []

    def __eq__(self, other: object) -> bool:
        return self is other

    def get_type_name(self) -> str:
        return self.kind

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        return [FileInfo(p, FileType.File if p in self.files else FileType.NotFound) for p in paths]

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        below = [p.removeprefix(f"{selector.base_dir}/") for p in self.files if p.startswith(f"{selector.base_dir}/")]
        found = {}
        for path in below:
            first, _, rest = path.partition("/")
            found[first] = FileInfo(f"{selector.base_dir}/{first}", FileType.Directory if rest else FileType.File)
        return list(found.values())

    def open_input_stream(self, path: str) -> Any:
        if path not in self.files:
            raise FileNotFoundError(path)
        return pa.PythonFile(pa.BufferReader(self.files[path]), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self.written.append(path)
        store = self

        class Upload(pa.BufferOutputStream):  # type: ignore[misc]
            def close(self) -> None:
                store.files[path] = self.getvalue().to_pybytes()

        return pa.PythonFile(Upload(), mode="w")

    def move(self, src: str, dest: str) -> None:
        if dest in self.files:
            raise OSError(f"{dest} exists")
        self.files[dest] = self.files.pop(src)

    def delete_file(self, path: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(path)
        del self.files[path]

    def create_dir(self, path: str, recursive: bool) -> None:
        assert self.kind != "s3"

    def _not_used(self, *arguments: Any) -> Any:
        raise NotImplementedError

    delete_dir = delete_dir_contents = delete_root_dir_contents = copy_file = _not_used
    open_input_file = open_append_stream = _not_used


Make = Callable[[str], CheckpointLocation]
ASIDE_AT = ["local", "file", "hdfs"]
"""Where checkpoints are written aside and renamed."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URI of a bucket on an S3 server."""
    with empty_bucket("checkpoints") as uri:
        yield uri


@pytest.fixture(params=["local", "file", "s3", "hdfs", "server"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """The place of a replica's name on each kind of file system: two of this machine, two stand-ins, an S3 server."""
    if request.param == "server":
        uri = request.getfixturevalue("server")
        return lambda name: location_at(uri, tmp_path.name, name)
    if request.param == "local":
        return lambda name: LocalLocation(tmp_path / "c" / name)
    if request.param == "file":
        return lambda name: location_at(f"file://{tmp_path}", "c", name)
    fs = PyFileSystem(Objects(request.param))
    return lambda name: _Named(f"{request.param}://bucket/c/{name}", fs, f"bucket/c/{name}", request.param)


class _Named(UriLocation):
    """PyFileSystem says "py::s3" where the real one says "s3"."""

    def __init__(self, uri: str, filesystem: Any, path: str, kind: str) -> None:
        super().__init__(uri, filesystem, path)
        self._at_once = kind == "s3"


def store(place: CheckpointLocation, query: str = "q1") -> CheckpointStore:
    return CheckpointStore(place, query, Text(), threaded=False)  # type: ignore[arg-type]


def test_the_newest_comes_back_and_old_ones_go(at: Make) -> None:
    it = store(at("q.r0"))
    for bucket in range(10):
        it.save(checkpoint(bucket, f"state {bucket}"))
    loaded = store(at("q.r0")).newest()
    assert loaded is not None
    assert (loaded.bucket, loaded.state, loaded.marks) == (9, "state 9", checkpoint(9).marks)
    assert len(at("q.r0").names()) == KEEP
    assert it.failures == 0


def test_a_torn_one_is_skipped_by_name(at: Make) -> None:
    it = store(at("q.r0"))
    it.save(checkpoint(10, "old"))
    it.save(checkpoint(12, "new"))
    place = at("q.r0")
    newest = place.names()[-1]
    place.write(newest, place.read(newest)[:-1])
    with capture_logs() as lines:
        loaded = store(place).newest()
    assert loaded is not None
    assert loaded.bucket == 10
    assert [line["file"] for line in lines if line["log_level"] == "warning"] == [place.display_name(newest)]


def test_a_checkpoint_is_written_again_over_what_is_there(at: Make) -> None:
    it = store(at("q.r0"))
    it.save(checkpoint(10, "once"))
    it.save(checkpoint(10, "twice"))
    loaded = it.newest()
    assert loaded is not None
    assert loaded.state == "twice"
    assert it.failures == 0


def test_writers_whose_processes_have_one_number_do_not_touch_each_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In containers that share a volume every process may be number 1."""
    place, other, before = LocalLocation(tmp_path), LocalLocation(tmp_path), os.fsync

    def meanwhile(file: int) -> None:
        monkeypatch.setattr(os, "fsync", before)
        other.write("1.ckpt", b"theirs")

    monkeypatch.setattr(os, "fsync", meanwhile)
    place.write("1.ckpt", b"whole")
    assert place.read("1.ckpt") == b"whole"
    assert [path.name for path in tmp_path.iterdir()] == ["1.ckpt"]


def test_a_peers_are_found_beside_the_own(at: Make) -> None:
    stores = [store(at(f"q.r{k}")) for k in range(3)]
    for it, buckets in (
        (stores[0], (5,)),
        (stores[1], (7, 9)),
        (stores[2], (8,)),
        (store(at("p.r1")), (99,)),
        (store(at("q.r01")), (9,)),
    ):
        for bucket in buckets:
            it.save(checkpoint(bucket))
    assert [(k, c.bucket) for k, c in stores[0].of_peers()] == [(1, 9), (2, 8), (1, 7)]
    found = stores[0].of_peer(1, 7)
    assert found is not None
    assert found.bucket == 7
    assert stores[0].of_peer(1, 8) is None
    assert stores[0].of_peer(4, 8) is None
    assert at("q.r0").sibling("q.r1").display_name("7.ckpt") == at("q.r1").display_name("7.ckpt")


def test_a_place_that_is_not_there_yet_has_nothing(at: Make) -> None:
    assert at("q.r0").names() == []
    assert list(at("q.r0").siblings()) == []
    at("q.r0").remove("x.ckpt")


# What the killed leave ------------------------------------------------------------------------------------------------


def leave(place: CheckpointLocation, name: str, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process leaves that is killed between writing aside and renaming."""

    class Killed(BaseException):
        pass

    def killed(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        patch.setattr(UriLocation, "_rename", killed)
        with pytest.raises(Killed):
            place.write(name, content)


@pytest.mark.parametrize("at", ASIDE_AT, indirect=True)
def test_what_a_killed_process_left_half_written_is_cleared_by_the_next_start(
    at: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("q.r0", "q.r1"):
        store(at(name)).save(checkpoint(10))
        leave(at(name), "12.ckpt", b"half", monkeypatch)
    with capture_logs() as lines:
        again = store(at("q.r0"))
    assert [line["count"] for line in lines if "half-written" in line["event"]] == [1]
    assert at("q.r0").remove_temporaries() == []
    assert len(at("q.r1").remove_temporaries()) == 1, "a peer's is the peer's own to clear"
    loaded = again.newest()
    assert loaded is not None
    assert loaded.bucket == 10
    assert len(at("q.r0").names()) == 1


@pytest.mark.parametrize("at", ASIDE_AT, indirect=True)
def test_a_zombie_whose_file_a_successor_cleared_loses_a_checkpoint_and_harms_none(
    at: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paused before it renames. The successor says the same bucket meanwhile, and its checkpoint stays."""
    zombie = store(at("q.r0"))
    zombie.save(checkpoint(10, "before"))
    replace_, rename = os.replace, UriLocation._rename
    successors: list[CheckpointStore] = []

    def paused() -> None:
        if not successors:
            successors.append(store(at("q.r0")))
            successors[0].save(checkpoint(12, "the successor's"))

    def replaced(source: Path, target: Path) -> None:
        paused()
        replace_(source, target)

    def renamed(place: UriLocation, source: str, target: str) -> None:
        paused()
        rename(place, source, target)

    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(UriLocation, "_rename", renamed)
    with capture_logs() as lines:
        zombie.save(checkpoint(12, "the zombie's"))
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "checkpoint not written; the replica goes on and will replay more if it restarts"
    ]
    assert (zombie.failures, zombie.written_bucket) == (1, 10)
    loaded = store(at("q.r0")).newest()
    assert loaded is not None
    assert (loaded.bucket, loaded.state) == (12, "the successor's")
    zombie.save(checkpoint(14))
    assert (zombie.failures, zombie.written_bucket, len(at("q.r0").names())) == (1, 14, 3)


def test_a_place_that_cannot_be_cleared_keeps_nobody_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = Objects("hdfs")
    place = _Named("hdfs://h/q.r0", PyFileSystem(objects), "q.r0", "hdfs")
    leave(place, "1.ckpt", b"half", monkeypatch)

    def fails(path: str) -> None:
        raise OSError("busy")

    with capture_logs() as lines, monkeypatch.context() as patch:
        patch.setattr(objects, "delete_file", fails)
        it = store(place)
    assert [(line["log_level"], line["why"]) for line in lines] == [("warning", "busy")]
    it.save(checkpoint(10))
    assert it.written_bucket == 10


def test_an_object_store_is_not_asked_for_what_it_cannot_have(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = Objects("s3")
    objects.files["b/q.r0/mine.tmp"] = b"somebody's"
    monkeypatch.setattr(objects, "get_file_info_selector", Objects._not_used)
    assert _Named("s3://b/q.r0", PyFileSystem(objects), "b/q.r0", "s3").remove_temporaries() == []
    assert list(objects.files) == ["b/q.r0/mine.tmp"]


# Kinds of places ------------------------------------------------------------------------------------------------------


def test_an_object_store_has_no_names_but_the_checkpoints() -> None:
    objects = Objects("s3")
    place = _Named("s3://b/q.r0", PyFileSystem(objects), "b/q.r0", "s3")
    place.prepare()
    place.write("1.ckpt", b"whole")
    assert objects.written == ["b/q.r0/1.ckpt"]
    aside = Objects("hdfs")
    place = _Named("hdfs://h/q.r0", PyFileSystem(aside), "q.r0", "hdfs")
    place.write("1.ckpt", b"whole")
    assert [p.endswith(".tmp") for p in aside.written] == [True]
    assert list(aside.files) == ["q.r0/1.ckpt"]


def test_an_unknown_file_system_is_told_without_keys() -> None:
    with pytest.raises(LocationError, match=r"checkpoints cannot be kept at nowhere://bucket/x: .*Write s3://") as told:
        location_at("nowhere://id:hush@bucket/x?secret=hush")
    assert "hush" not in str(told.value)


def test_what_a_file_system_says_is_told_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unknown:
        @staticmethod
        def from_uri(uri: str) -> None:
            raise pa.lib.ArrowException("no libhdfs in " + "/usr/lib/jvm " * 1_000)

    monkeypatch.setattr("pyarrow.fs.FileSystem", Unknown)
    with pytest.raises(
        LocationError, match=r"checkpoints cannot be kept at hdfs://h/x: no libhdfs in .* \[\.\.\.\]\. Write s3://"
    ) as told:
        location_at("hdfs://h/x")
    assert len(str(told.value)) < 600


@pytest.mark.parametrize("kind", ["s3", "hdfs"])
@pytest.mark.parametrize("error", [OSError("busy"), pa.ArrowInvalid("no path"), pa.lib.ArrowException("Unknown error")])
def test_a_place_that_fails_while_a_replica_runs_costs_it_a_checkpoint_and_no_more(
    kind: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the file system raises: the thread that writes lives on, the older checkpoint stays, it is told."""
    objects = Objects(kind)
    place = _Named(f"{kind}://bucket/q.r0", PyFileSystem(objects), "bucket/q.r0", kind)
    it = CheckpointStore(place, "q1", Text())  # type: ignore[arg-type]
    it.save(checkpoint(10, "before"))
    until(lambda: it.written_bucket == 10, "the first checkpoint")

    def fails(path: str, metadata: Any) -> Any:
        raise error

    with capture_logs() as lines, monkeypatch.context() as patch:
        patch.setattr(objects, "open_output_stream", fails)
        it.save(checkpoint(12, "lost"))
        until(lambda: it.failures == 1, "the failure")
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert "checkpoint not written; the replica goes on" in line["event"]
    assert str(error) in line["why"]
    assert line["file"].startswith(f"{kind}://bucket/q.r0/")
    assert [name for name in place.names() if "12" in name] == []
    it.save(checkpoint(14, "after"))
    until(lambda: it.written_bucket == 14, "the next checkpoint")
    it.close()


@pytest.mark.parametrize("kind", ["file", "server"])
def test_an_app_that_begins_anew_leaves_none(kind: str, tmp_path: Path, server: str) -> None:
    uri = server if kind == "server" else f"file://{tmp_path}"
    for app in ("a", "b"):
        store(location_at(uri, app, "q.r0")).save(checkpoint(10))
    forget(uri, "a")
    forget(uri, "never")
    assert [len(location_at(uri, app, "q.r0").names()) for app in ("a", "b")] == [0, 1]


def test_what_was_tried_on_a_server_is_removed_and_its_keys_are_not_told(server: str) -> None:
    check_writable(server, "whether it can be written")
    filesystem, path = FileSystem.from_uri(server)
    found = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
    assert [info.base_name for info in found if info.is_file] == []
    assert SECRET not in location_at(server, "a", "q.r0").display_name("1.ckpt")


def test_parts_come_before_the_query_of_a_uri(tmp_path: Path) -> None:
    place = location_at(f"file://{tmp_path}/base/", "app", "q.r0")
    assert place.name == "q.r0"
    assert place.display_name("1.ckpt") == f"file://{tmp_path}/base/app/q.r0/1.ckpt"


class Machine:
    """Writes down what is synced and renamed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, str]] = []
        fsync, replace = os.fsync, os.replace

        def synced(fd: int) -> None:
            fsync(fd)
            self.done.append(("sync", os.readlink(f"/proc/self/fd/{fd}")))

        def renamed(old: Any, new: Any) -> None:
            replace(old, new)
            self.done.append(("rename", str(new)))

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", renamed)


def test_a_local_checkpoint_survives_a_power_cut_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content is synced before the name shows it, the directory after."""
    machine = Machine(monkeypatch)
    directory = tmp_path / "app" / "q.r0"
    place = LocalLocation(directory)
    place.prepare()
    assert [path for _, path in machine.done] == [str(tmp_path / "app"), str(tmp_path)], "the directories' own names"
    machine.done.clear()
    place.write("7.ckpt", b"all")
    aside, named, folder = machine.done
    assert (aside[0], Path(aside[1]).parent, named, folder) == (
        "sync", directory, ("rename", str(directory / "7.ckpt")), ("sync", str(directory)),
    )  # fmt: skip


def test_what_places_of_checkpoints_raise_is_an_error_of_theirs_and_what_is_a_bug_stays_one() -> None:
    with pytest.raises(OSError, match=r"^no broker$"), as_os_error(LogError):
        raise LogError("no broker")
    with pytest.raises(OSError, match=r"^ArrowInvalid: x$"), as_os_error():
        raise pa.ArrowInvalid("x")
    with pytest.raises(FileNotFoundError), as_os_error():
        raise FileNotFoundError("gone")
    with pytest.raises(KeyError), as_os_error(LogError):
        raise KeyError("a bug")


@pytest.mark.parametrize("there", [None, b"torn"])
def test_all_who_look_at_once_find_one_id_in_a_directory(tmp_path: Path, there: bytes | None) -> None:
    if there is not None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "place.id").write_bytes(there)
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(id_of, [tmp_path / "a"] * 40))
    assert len(found) == 1
    assert id_of(tmp_path / "b") not in found
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["place.id"]


@pytest.mark.parametrize("garbage", [b"", b"\xff" * 40, b"0" * 5, b"0" * 40])
def test_what_is_no_id_is_replaced_by_one(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "place.id").write_bytes(garbage)
    assert id_of(tmp_path) == id_of(tmp_path)
