"""What all drills share."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def chain() -> bool:
    """Two nodes (BOREALIS_DRILLS=chain), or everything in one."""
    return os.environ.get("BOREALIS_DRILLS") == "chain"
