"""What is made or fetched once on a machine, and kept for its user: $XDG_CACHE_HOME/borealis, by default ~/.cache."""

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
    """Held across processes; the system lets go of it however this one ends. Raises OSError."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
