"""Goals of the experiments, and what others or an earlier version found, as `benchmarks/goals.toml` has them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "goals.toml"


@cache
def _all() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def published(experiment: str) -> str:
    """What others report of the same thing, and the goals in words. Raises KeyError: no such experiment."""
    return str(_all()[experiment]["published"])


def goals(experiment: str) -> dict[str, Any]:
    """Its goals by name; units are in the names or in the file's comments. Raises KeyError: it has none."""
    found: dict[str, Any] = _all()[experiment]["goals"]
    return found
