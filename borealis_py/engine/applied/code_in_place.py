"""Files of code where the app was described from: for checks and tests, on that machine."""

from __future__ import annotations

from pathlib import Path

from borealis_py.query.errors import FunctionDiffers
from borealis_py.query.functions import digest, is_content
from borealis_py.query.plan import CodeFile


class CodeInPlace:
    """Reads each file from its own path; implements `query.functions.CodeStore`."""

    def read(self, file: CodeFile) -> bytes:
        """Raises FunctionDiffers: it is gone, or has changed since the app was described."""
        try:
            content = Path(file.path).read_bytes()
        except OSError as exc:
            raise FunctionDiffers(f"{file.path}: {exc.strerror}; it has functions of the app") from exc
        if not is_content(file, content):
            raise FunctionDiffers(
                f"{file.path} has changed since the app was described: its SHA-256 is {digest(content)}, not "
                f"{file.sha256 or 'known yet'}"
            )
        return content
