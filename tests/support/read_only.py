"""A directory that this process cannot write to, even if tests run as root: it runs as nobody for a while."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def read_only_directory() -> Iterator[Path]:
    """Everyone may read it and no one may write. Anything else that this process needs must already be open."""
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o755)
        directory = Path(above) / "read-only"
        directory.mkdir()
        directory.chmod(0o555)
        root = os.geteuid() == 0
        try:
            if root:
                os.seteuid(NOBODY)
            yield directory
        finally:
            if root:
                os.seteuid(0)
