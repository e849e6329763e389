"""A size-bounded log file: several processes append to it, and whichever finds it too large rotates it.

A process gets the file as standard output and error, so it also contains what libraries and crashes print, and is
rotated with the next line that is logged. Standard library only, like the supervisor.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

KEPT_BYTES = 10_000_000
"""Size at which a file is rotated: x.log becomes x.log.1, that one x.log.2, ..."""
KEPT_FILES = 3
"""Number of older files kept: at most 40 MB per process, apart from a line and what was printed before it."""
_MODE = 0o644


def opened(path: str, limit: int = KEPT_BYTES) -> int:
    """A handle that appends to the file, which is first rotated if it is too large. Raises OSError."""
    handle = _open(path)
    if os.fstat(handle).st_size < limit:
        return handle
    _turn_over(path, handle, limit)
    os.close(handle)
    return _open(path)


def follow(path: str, handles: tuple[int, ...], limit: int = KEPT_BYTES) -> None:
    """Keep these handles appending to the file of that name: rotate it if it is too large, reopen it if another process
    did. If the directory is gone (a reset), the handles stay as they are.
    """
    with suppress(OSError):
        now = os.fstat(handles[0])
        if _is(path, now) and now.st_size < limit:
            return
        if _is(path, now):
            _turn_over(path, handles[0], limit)
        new = _open(path)
        for handle in handles:
            os.dup2(new, handle)
        os.close(new)


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)


def _is(path: str, file: os.stat_result) -> bool:
    """Whether that name belongs to this file."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (file.st_dev, file.st_ino)


def _turn_over(path: str, handle: int, limit: int) -> None:
    """Rotate the file and its predecessors, unless another process has done so. The lock is on the old file."""
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        if _is(path, os.fstat(handle)) and os.fstat(handle).st_size >= limit:
            for k in range(KEPT_FILES - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{path}.{k}", f"{path}.{k + 1}")
            os.replace(path, f"{path}.1")
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
