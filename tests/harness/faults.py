"""Faults that tests and chaos cause on the machine: full disks, and clocks that are moved."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

SIZE_KB = 256
BALLAST = "ballast"
BLOCKS = (1 << 20, 512)
"""What it is filled with, in this order."""


class FullDisk:
    """A directory whose disk can be full: a tiny tmpfs if this user may mount one.

    Otherwise files with known names are links to /dev/full; against unknown names the directory is made read-only,
    which root ignores.

    Args:
        directory: an ordinary one until `fill`, and again after `free`. size_kb: what it has room for.
    """

    def __init__(self, directory: Path, size_kb: int = SIZE_KB) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        options = ["-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(directory)]
        try:
            self.mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
        except OSError:
            self.mounted = False
        self._links: list[Path] = []

    def fill(self, names: Iterable[str] = ()) -> None:
        """Make the disk full.

        Args:
            names: of files that will be written, if known: without a mount only they meet a full disk.

        Raises:
            AssertionError: that cannot be done here.
        """
        if self.mounted:
            with suppress(OSError), (self.directory / BALLAST).open("wb", buffering=0) as file:
                for size in BLOCKS:
                    with suppress(OSError):
                        while file.write(b"x" * size):
                            pass
            return
        for name in names:
            link = self.directory / name
            link.symlink_to("/dev/full")
            self._links.append(link)
        if not self._links:
            self.directory.chmod(0o555)
            assert not os.access(self.directory, os.W_OK, effective_ids=True), (
                f"no disk can be full at {self.directory}: nothing can be mounted there, and this user ignores "
                "permissions. Be another one, or leave this fault out"
            )

    def free(self) -> None:
        """There is space again."""
        (self.directory / BALLAST).unlink(missing_ok=True)
        self.directory.chmod(0o755)
        for link in self._links:
            link.unlink(missing_ok=True)
        self._links.clear()

    def close(self) -> None:
        """Unmount."""
        self.free()
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.directory)], capture_output=True, check=False)


@contextmanager
def full_disk(directory: Path) -> Iterator[FullDisk]:
    """A disk that can be filled, gone in the end."""
    disk = FullDisk(directory)
    try:
        yield disk
    finally:
        disk.close()


CLOCK_SOURCE = Path(__file__).with_name("moved_clock.c")


def compiled_clock(to: Path) -> Path | None:
    """The library through which calls for the wall clock go (LD_PRELOAD); None: there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(to), str(CLOCK_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return to if done.returncode == 0 else None


class MovedClock:
    """The wall clock of the processes that start with its `environment`, moved while they run.

    Args:
        path: the file that holds by how much it is moved.
        library: see `compiled_clock`; None: it cannot be moved.
    """

    def __init__(self, path: Path, library: Path | None) -> None:
        self._path = path
        self.move(0)
        self.environment: Mapping[str, str] = (
            {} if library is None else {"LD_PRELOAD": str(library), "BOREALIS_MOVED_CLOCK": str(path)}
        )

    def move(self, us: int) -> None:
        """It says from now on what is so much later (or earlier) than it is; 0: as it is."""
        with self._path.open("r+b" if self._path.exists() else "wb") as file:  # it is mapped
            file.write(struct.pack("=q", us))
