"""Temporary files of a Spark application: a directory of its own, named by process id.

A killed JVM removes nothing. What it leaves in the machine's temporary directory would stay there; here the next
application of the same replica removes it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def taken(base: Path) -> Path:
    """Create this process's empty directory below `base`, and remove those of processes that are gone.

    Raises:
        OSError: it cannot be created.
    """
    base.mkdir(parents=True, exist_ok=True)
    for left in base.iterdir():
        if left.name == str(os.getpid()) or (left.name.isdigit() and not _runs(int(left.name))):
            shutil.rmtree(left, ignore_errors=True)
    own = base / str(os.getpid())
    own.mkdir()
    return own


def given_back(own: Path) -> None:
    """Remove the directory, and `base` if no other process uses it. Failing to remove something is not an error."""
    shutil.rmtree(own, ignore_errors=True)
    try:
        own.parent.rmdir()
    except OSError:
        return  # another process of this replica, such as a new one starting before the old one has ended


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
