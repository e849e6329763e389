"""Where a Spark application keeps files that are of no use after it: a directory of its own, by process id.

A JVM that is killed removes nothing. What it leaves in the machine's own temporary directory stays until somebody
looks; here the next application of the same replica removes it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def taken(base: Path) -> Path:
    """This process's directory below `base`, new and empty; those of processes that are gone are removed.

    Raises:
        OSError: it cannot be made.
    """
    base.mkdir(parents=True, exist_ok=True)
    for left in base.iterdir():
        if left.name == str(os.getpid()) or (left.name.isdigit() and not _runs(int(left.name))):
            shutil.rmtree(left, ignore_errors=True)
    own = base / str(os.getpid())
    own.mkdir()
    return own


def given_back(own: Path) -> None:
    """Remove it, and `base` when nobody else is there. What is gone already, or cannot go, is no error."""
    shutil.rmtree(own, ignore_errors=True)
    try:
        own.parent.rmdir()
    except OSError:
        return  # another process of this replica, as a start beside the old one


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
