"""The ledger of simulator runs: an append-only Markdown table, one line per run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HEAD = """# Simulator ledger

Runs of `borealis sim`, oldest first. A line is added by `--ledger`; none is ever taken away. A violation that was found
is fixed before the next line, and told in [the track record](track-record.md).

| date (UTC) | commit | seeds | from seed | simulated hours | cells hit | violations |
|---|---|---:|---:|---:|---:|---:|
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One run. `cells`: number of (transition, fault class) pairs that were hit, of `cells_all` possible ones; None:
    worlds of ingresses, which have none."""

    seeds: int
    first: int
    simulated_s: float
    cells: int | None
    cells_all: int
    violations: int

    def text(self, at: datetime, commit: str) -> str:
        hours = f"{self.simulated_s / 3600:.1f}"
        cells = "ingresses" if self.cells is None else f"{self.cells} of {self.cells_all}"
        parts = (f"{at:%Y-%m-%d %H:%M}", commit, self.seeds, self.first, hours, cells, self.violations)
        return f"| {' | '.join(map(str, parts))} |\n"


def append(path: Path, line: Line, at: datetime | None = None, commit: str | None = None) -> None:
    """Append a line; creates the file with its head if it does not exist."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD)
    with path.open("a") as file:
        file.write(line.text(at or datetime.now(UTC), commit or commit_of(Path(__file__).parent, path)))


def commit_of(directory: Path, ledger: Path) -> str:
    """The checked-out commit, with "+" if the tree has changed since; "-" if there is none.

    Args:
        directory: of the code. If its files are not in the repository around it (an environment in somebody's project),
            that repository's commit is not the code's.
        ledger: ignored as a change: the previous run may have written it.
    """
    if not _git(directory, "ls-files"):
        return "-"
    said, top = _git(directory, "rev-parse", "--short", "HEAD"), Path(_git(directory, "rev-parse", "--show-toplevel"))
    changed = {top / name for name in _git(directory, "diff", "--name-only", "HEAD").splitlines()} - {ledger.resolve()}
    return "-" if not said else said + ("+" if changed else "")


def _git(directory: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
