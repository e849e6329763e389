"""What the benches that measure several things have in common: how much of it, and what is told of all of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from borealis_py.bench.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured. `work`: gets a directory of the run's data and logs; None: none stays."""

    events: int
    per_record: int = 5_000
    spark: bool = True
    work: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Where it was measured; `seconds`: how long that took."""

    machine: Machine
    seconds: float
