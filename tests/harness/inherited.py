"""Processes found by what they inherited."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

from borealis_py.kafka.process_end import is_over


def inheriting(variable: str, value: str) -> list[psutil.Process]:
    """The other running processes with this environment variable, whoever their parent is now."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # gone meanwhile, or somebody else's
            if process.pid != os.getpid() and not is_over(process) and process.environ().get(variable) == value:
                found.append(process)
    return found
