"""The content of an app's files of code: known by its SHA-256, so that any place it is read from will do. Pure."""

from __future__ import annotations

import hashlib
from typing import Protocol

from borealis_py.query.plan import CodeFile


class CodeStore(Protocol):
    """Reads files of code. Picklable: redo tasks and audits have one, too."""

    def read(self, file: CodeFile) -> bytes:
        """The content with this file's SHA-256. Raises FunctionDiffers if nothing here has it."""


def digest(content: bytes) -> str:
    """Its SHA-256, in hex."""
    return hashlib.sha256(content).hexdigest()


def is_content(file: CodeFile, content: bytes) -> bool:
    """Whether this is the content that the app was described with."""
    return digest(content) == file.sha256
