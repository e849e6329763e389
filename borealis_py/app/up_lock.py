"""Allows one `borealis up` per app and machine: two would start the same replicas twice, or reset what is starting."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from borealis_py.app.errors import LaunchError


@contextmanager
def alone(data_dir: Path, app: str, tell: Callable[[str], object]) -> Iterator[None]:
    """Exclude other processes for this app and directory. Waits for the current holder, and reports that.

    The system releases the lock however its holder ends. The file stays: removing it would let two in.

    Raises:
        LaunchError: nothing can be written there.
    """
    path = data_dir / f"{app}.up.lock"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        raise LaunchError(
            f"app {app!r}: {path} cannot be written: {exc.strerror}. Name a directory with space left "
            "that you may write, with `data_dir:` in borealis.yaml"
        ) from exc
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            by = os.pread(handle, 32, 0).decode(errors="replace").strip()
            tell(f"another `borealis up` of app {app} is at work here{f' (pid {by})' if by else ''}: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        with suppress(OSError):  # a full disk: others then do not learn this pid
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
