"""The outcomes of a commit."""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum


class CommitOutcome(Enum):
    """The outcome of a commit."""

    COMMITTED = "committed, and the writer is told so"
    UNTOLD = "committed, and the writer cannot know"
    LATER = "committed a little after the writer was told that it cannot know, unless fenced first"
    LOST = "never committed: open until somebody fences or it times out"


CommitOutcomes = Callable[[random.Random, str], CommitOutcome]
"""(random, client's name) -> the outcome of its next commit."""
