"""What all drills share."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def chain() -> bool:
    """Two nodes; or everything in one, to see whether it is the chain that fails (BOREALIS_DRILLS=single)."""
    return os.environ.get("BOREALIS_DRILLS") != "single"
