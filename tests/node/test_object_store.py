"""Checkpoints in a bucket, through an S3 server: what test_places.py shows of stand-ins, over the real protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyarrow.fs import FileSelector, FileSystem
from structlog.testing import capture_logs

from borealis_py.node.checkpoints import KEEP
from borealis_py.node.places import UriPlace, forget, place_at
from borealis_py.node.probe import check_writable
from tests.node.test_checkpoints import checkpoint
from tests.node.test_places import store
from tests.support.buckets import SECRET, bucket


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with bucket("checkpoints") as it:
        yield it


def at(uri: str, app: str, name: str = "q.r0") -> UriPlace:
    return place_at(uri, app, name)


def test_the_newest_comes_back_and_old_ones_go(uri: str) -> None:
    it = store(at(uri, "newest"))
    for number in range(KEEP + 2):
        it.save(checkpoint(number, f"state {number}"))
    it.save(checkpoint(KEEP + 1, "written twice"))
    assert it.failures == 0
    loaded = store(at(uri, "newest")).newest()
    assert loaded is not None
    assert (loaded.bucket, loaded.state, loaded.marks) == (KEEP + 1, "written twice", checkpoint(KEEP + 1).marks)
    assert len(at(uri, "newest").names()) == KEEP


def test_a_torn_one_is_skipped_by_a_name_without_keys(uri: str) -> None:
    place = at(uri, "torn")
    it = store(place)
    it.save(checkpoint(10, "old"))
    it.save(checkpoint(12, "new"))
    newest = place.names()[-1]
    place.write(newest, place.read(newest)[:-1])
    with capture_logs() as lines:
        loaded = store(place).newest()
    assert loaded is not None
    assert loaded.bucket == 10
    (told,) = [line["file"] for line in lines if line["log_level"] == "warning"]
    assert told == place.where(newest)
    assert SECRET not in told


def test_a_peers_are_found_beside_the_own(uri: str) -> None:
    for replica, number in ((0, 5), (1, 7), (2, 6)):
        store(at(uri, "peers", f"q.r{replica}")).save(checkpoint(number))
    assert [(k, c.bucket) for k, c in store(at(uri, "peers")).of_peers()] == [(1, 7), (2, 6)]


def test_a_place_that_is_not_there_yet_has_nothing(uri: str) -> None:
    place = at(uri, "never")
    assert place.names() == []
    assert list(place.neighbours()) == []
    place.remove("x.ckpt")


def test_an_app_that_begins_anew_leaves_none(uri: str) -> None:
    for app in ("gone", "stays"):
        store(at(uri, app)).save(checkpoint(10))
    forget(uri, "gone")
    forget(uri, "gone")
    assert at(uri, "gone").names() == []
    assert len(at(uri, "stays").names()) == 1


def test_what_was_tried_there_is_removed(uri: str) -> None:
    check_writable(uri, "whether it can be written")
    filesystem, path = FileSystem.from_uri(uri)
    found = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
    assert [info.base_name for info in found if info.is_file] == []
