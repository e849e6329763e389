"""The user's cache of files made or fetched once per machine: $XDG_CACHE_HOME/borealis, by default ~/.cache."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def root() -> Path:
    """The directory. It may not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "borealis"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock across processes; the system releases it however this process ends. Raises OSError."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
