"""A directory that this process may not write to, also where tests run as root: it is nobody for a while."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def read_only_directory() -> Iterator[Path]:
    """Everybody may read it and nobody may write. What else this process needs, it should have opened before."""
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
