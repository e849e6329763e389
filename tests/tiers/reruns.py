"""Red files that were green when run once more, alone: they are counted, since a test that needs it often is a bug.

The ledger lies in the user's cache: a line for each run of the process tests on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from borealis_py.kafka import cache
from tests.tiers import plan
from tests.tiers.stages import Ended

RUNS = 20
TOLERATED = 2
"""In so many of the last runs a file may have needed a second run."""
FILES_MAX = 4
"""With more red files than this it is no accident: none is run again."""
TESTS_FAILED = 1
"""pytest's exit code where nothing worse has happened."""


def files(ended: Ended) -> list[str]:
    """The red files that are run again: none if one of them may not be, there are many, or pytest itself failed."""
    tier, red = ended.stage.tier, ended.red
    forgivable = all(plan.may_run_again(file, tier) and not wrong for file, wrong in red.items())
    return sorted(red) if ended.code == TESTS_FAILED and forgivable and len(red) <= FILES_MAX else []


def pressure() -> str:
    """How busy the machine was in the last five minutes, for people."""
    path = Path("/proc/pressure/cpu")
    some = path.read_text().split("avg300=")[1].split()[0] if path.exists() else "unknown"
    return f"somebody waited for a CPU in {some} % of the last 5 minutes"


def ledger() -> Path:
    """Where runs are noted."""
    return cache.root() / "test-reruns.jsonl"


def note(files: Collection[str], path: Path) -> list[str]:
    """Enter a run in which these files were green only when run again.

    Returns:
        Those of them that have needed it too often.
    """
    runs = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    runs = [*runs, sorted(files)][-RUNS:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    return sorted(file for file in files if sum(file in run for run in runs) > TOLERATED)
