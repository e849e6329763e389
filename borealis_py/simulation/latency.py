"""How long things take in the simulated world: functions of the world's one random generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Delay = Callable[[random.Random], int]
"""How long something takes, in microseconds."""


def between(low_us: int, high_us: int) -> Delay:
    """A delay anywhere in [low_us, high_us)."""
    width = high_us - low_us
    return lambda rng: low_us + int(rng.random() * width)


_MESSAGE = between(200, 2_000)
_ENDS = between(400, 4_000)
_FENCE = between(50_000, 1_000_000)
_COMMIT = between(1_000, 6_000)
_GIVEN_UP = between(200_000, 201_000)


@dataclass(frozen=True, slots=True)
class Latencies:
    """How long a client's requests take; defaults are near what a local broker showed.

    Attributes:
        append: from `append` to the log.
        ack: from the log to the `Delivery`.
        fetch: from the log to a reader.
        ends: from `ask_ends` to its answer.
        fence: from `take_over` to the fence.
        commit: from the transaction's records to its commit.
        unreachable: until a request to a log that is cut off is given up.
    """

    append: Delay = _MESSAGE
    ack: Delay = _MESSAGE
    fetch: Delay = _MESSAGE
    ends: Delay = _ENDS
    fence: Delay = _FENCE
    commit: Delay = _COMMIT
    unreachable: Delay = _GIVEN_UP
