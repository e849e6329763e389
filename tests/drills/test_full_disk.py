"""The full disk that a drill uses is full, in both ways that there are."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.support.full_disk import FullDisk, full_disk


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


def write(disk: FullDisk, name: str) -> None:
    with (disk.directory / name).open("wb") as file:
        file.write(b"checkpoint")
