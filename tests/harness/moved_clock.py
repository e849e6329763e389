"""The wall clock of processes, moved while they run: their calls go through a small library (LD_PRELOAD)."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def compiled(to: Path) -> Path | None:
    """The library; None: there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(to), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return to if done.returncode == 0 else None


class MovedClock:
    """Of the processes that start with its `environment`. `path`: where it is written by how much it is moved.
    `library`: see `compiled`; None: it cannot be moved."""

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
