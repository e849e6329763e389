"""How many examples properties are tried on."""

from __future__ import annotations

import os

MUTANTS = bool(os.environ.get("BOREALIS_MUTANTS"))
"""`make mutants` runs each test thousands of times, and most mutants fall to the first examples."""


def examples(number: int) -> int:
    """So many, or beside `make mutants` a fifth."""
    return max(2, number // 5) if MUTANTS else number


FUZZ = int(os.environ.get("BOREALIS_FUZZ") or 1)
"""How many times as many examples `tests/log/test_fuzz.py` draws, by hand."""


def fuzzed(number: int) -> int:
    """So many, or so many times as many."""
    return number * FUZZ
