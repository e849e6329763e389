"""The full disk that a drill uses is full, in both ways that there are."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.faults import FullDisk, full_disk
from tests.support.read_only import NOBODY


@pytest.mark.parametrize("mounts", [True, False])
def test_nothing_can_be_written_until_there_is_space_again(
    tmp_path: Path, mounts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not mounts:
        monkeypatch.setenv("PATH", str(tmp_path))  # no mount command
    with full_disk(tmp_path / "disk") as disk:
        assert not (disk.mounted and not mounts)
        write(disk, "before")
        disk.fill(iter(["while"]))
        with pytest.raises(OSError, match="No space left") as raised:
            write(disk, "while")
        assert raised.value.errno == errno.ENOSPC
        disk.free()
        write(disk, "while")
        assert (disk.directory / "while").read_bytes() == b"checkpoint"


@pytest.fixture
def without_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A directory of an ordinary user's, who this process is for a while."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o777)
        try:
            if root:
                os.seteuid(NOBODY)
            yield Path(above)
        finally:
            if root:
                os.seteuid(0)


@pytest.mark.usefixtures("without_mounts")
def test_without_a_mount_an_ordinary_user_can_write_no_file_of_whatever_name(as_nobody: Path) -> None:
    with full_disk(as_nobody / "disk") as disk:
        write(disk, "before")
        disk.fill()
        with pytest.raises(PermissionError):
            write(disk, "while")
        assert (disk.directory / "before").read_bytes() == b"checkpoint", "what is there can be read"
        disk.free()
        write(disk, "while")


@pytest.mark.usefixtures("without_mounts")
def test_where_no_disk_can_be_full_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: True)  # as root has it
    with full_disk(tmp_path / "disk") as disk, pytest.raises(AssertionError, match="Be another one, or leave"):
        disk.fill()


def write(disk: FullDisk, name: str) -> None:
    with (disk.directory / name).open("wb") as file:
        file.write(b"checkpoint")
