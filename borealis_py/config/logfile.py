"""A log file with a bound: appended to by several processes, turned over by whichever of them finds it too large.

Whoever starts a process hands it the file as standard output and error; so what libraries and crashes print lies there
too, and is turned over with the next line that is logged. Standard library only, as the supervisor is.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

KEPT_BYTES = 10_000_000
"""A file that has grown to this is turned over: x.log becomes x.log.1, that one x.log.2, ..."""
KEPT_FILES = 3
"""So many older files are kept: at most 40 MB for each process, a line and what was printed meanwhile aside."""
_MODE = 0o644


def opened(path: str, limit: int = KEPT_BYTES) -> int:
    """A handle to append to the file, which is turned over first where it is too large. Raises OSError."""
    handle = _open(path)
    if os.fstat(handle).st_size < limit:
        return handle
    _turn_over(path, handle, limit)
    os.close(handle)
    return _open(path)


def follow(path: str, handles: tuple[int, ...], limit: int = KEPT_BYTES) -> None:
    """Have these handles append to the file of that name: where it is too large it is turned over, and where another
    process did that it is opened again. A directory that is gone (a reset) leaves them as they are.
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
    """Whether that name is this file's."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (file.st_dev, file.st_ino)


def _turn_over(path: str, handle: int, limit: int) -> None:
    """Rename it, and those before it, unless somebody has meanwhile. The lock is the old file's."""
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        if _is(path, os.fstat(handle)) and os.fstat(handle).st_size >= limit:
            for k in range(KEPT_FILES - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{path}.{k}", f"{path}.{k + 1}")
            os.replace(path, f"{path}.1")
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
