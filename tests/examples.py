"""How many examples properties are tried on."""

from __future__ import annotations

import os

MUTANTS = bool(os.environ.get("BOREALIS_MUTANTS"))
"""`make mutants` runs each test thousands of times, and most mutants fall to the first examples."""


def examples(number: int) -> int:
    """So many, or beside `make mutants` a fifth."""
    return max(2, number // 5) if MUTANTS else number
