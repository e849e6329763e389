"""What each test file took when it was last measured: the source of order, thirds and budgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

PATH = Path(__file__).with_name("durations.json")
Durations = dict[str, dict[str, "Taken"]]
"""File -> tier ("pure", "broker", "spark") -> what its tests of that tier took."""


@dataclass(frozen=True)
class Taken:
    """What the tests of one file took, all of them.

    Attributes:
        cpu_s: CPU seconds of the worker and the children that it waited for, with fixtures.
        wall_s: seconds from the first one's beginning to the last one's end.
        longest_s: CPU seconds of the longest one.
        slow_cpu_s, slow_wall_s: of those that `make test` leaves out.
    """

    cpu_s: float = 0.0
    wall_s: float = 0.0
    longest_s: float = 0.0
    slow_cpu_s: float = 0.0
    slow_wall_s: float = 0.0


def load(path: Path = PATH) -> Durations:
    """The record; empty if there is none."""
    if not path.exists():
        return {}
    raw: Mapping[str, Mapping[str, Mapping[str, float]]] = json.loads(path.read_text(encoding="utf-8"))
    return {file: {tier: Taken(**taken) for tier, taken in tiers.items()} for file, tiers in raw.items()}


def save(record: Durations, path: Path = PATH) -> None:
    """Write the record, a line for each file."""
    lines = [
        f"  {json.dumps(file)}: {json.dumps({tier: _rounded(t) for tier, t in sorted(tiers.items())})}"
        for file, tiers in sorted(record.items())
        if tiers
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _rounded(taken: Taken) -> dict[str, float]:
    """Tenths of seconds; what is zero is left out."""
    return {name: value for name, value in ((n, round(v, 1)) for n, v in asdict(taken).items()) if value}
