"""What each test file took when it was last measured: the source of order, thirds and budgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

PATH = Path(__file__).with_name("durations.json")
Durations = dict[str, dict[str, "Taken"]]
"""File -> tier ("pure", "broker", "spark") -> what its tests of that tier took."""


@dataclass(frozen=True)
class Taken:
    """What the tests of one file took.

    Attributes:
        cpu_s: CPU seconds of those in `make test`, of the worker and the children that it waited for, with fixtures.
        wall_s: seconds that they took, one after the other.
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
    return parsed(json.loads(path.read_text(encoding="utf-8")))


def parsed(raw: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Durations:
    """A record from its JSON."""
    return {file: {tier: Taken(**taken) for tier, taken in tiers.items()} for file, tiers in raw.items()}


def save(record: Durations, path: Path = PATH) -> None:
    """Write the record, a line for each file."""
    lines = [
        f"  {json.dumps(file)}: {json.dumps({tier: _rounded(t) for tier, t in sorted(tiers.items())})}"
        for file, tiers in sorted(record.items())
        if tiers
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def merged(record: Durations, found: Durations, tier: str, slow: bool) -> Durations:
    """The record with what a run of a tier's fast tests, or of its slow ones, found in the place of what it had."""
    result = {file: dict(tiers) for file, tiers in record.items()}
    for file in {file for file in record if tier in record[file]} | found.keys():
        old, new = (of.get(file, {}).get(tier, Taken()) for of in (record, found))
        fast, slower = (old, new) if slow else (new, old)
        taken = replace(fast, slow_cpu_s=slower.slow_cpu_s, slow_wall_s=slower.slow_wall_s)
        result.setdefault(file, {})[tier] = taken
    return result


def _rounded(taken: Taken) -> dict[str, float]:
    """Tenths of seconds; what is zero is left out."""
    return {name: value for name, value in ((n, round(v, 1)) for n, v in asdict(taken).items()) if value}
