"""Long lives drawn from a seed."""

from __future__ import annotations

import random

STEP_KINDS = 23


def drawn(seed: int, count: int = 300) -> list[tuple[int, int, int]]:
    """The steps of one life, for `model.run`."""
    rng = random.Random(seed)
    return [(rng.randrange(STEP_KINDS), rng.randrange(6), rng.randrange(10)) for _ in range(count)]
