"""How long a user's first tests take, without Java or a broker: new processes, each with nothing loaded before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from statistics import median

from borealis_py.bench.report.figures import BenchError, FirstTestFigures

RUNS = 3
COMMAND = (sys.executable, "-m", "borealis_py.bench.load.first_test")


def measure(command: Sequence[str] = COMMAND) -> FirstTestFigures:
    """Medians of some processes. Raises BenchError: one failed, or computed something else in its world."""
    found = [_once(command) for _ in range(RUNS)]
    seconds = (median(one[name] for one in found) for name in ("import_s", "run_s", "world_s"))
    return FirstTestFigures(RUNS, *seconds)


def _once(command: Sequence[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"a first test failed: {done.stderr.strip() or f'exit code {done.returncode}'}")
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds
