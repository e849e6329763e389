"""The rotation: a number, of which each submission takes the next (`make rotate`): three of them run every test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILE = Path(".ci/rotation")
STALE_S = 4 * 3600
"""A rotation that was taken longer than this before the last commit is an earlier submission's."""


def current(root: Path) -> int:
    """The rotation that is written down; of an earlier submission, each commit since counts as one."""
    written = int((root / FILE).read_text())
    commits = _times(root)
    if commits and commits[0] - commits[-1] > STALE_S:
        print(f"{FILE} is an earlier submission's: take the next rotation (make rotate)", file=sys.stderr)
        return written + len(commits) - 1
    return written


def take(root: Path) -> int:
    """Write down the next rotation."""
    rotation = int((root / FILE).read_text()) + 1
    (root / FILE).write_text(f"{rotation}\n")
    return rotation


def _times(root: Path) -> list[int]:
    """When the commits from the last one down to the one that took the rotation were made; empty without a history."""
    found: list[int] = []
    git = ["git", "-C", str(root)]
    taken = subprocess.run([*git, "log", "-1", "--format=%H", "--", str(FILE)], capture_output=True, text=True)
    since = subprocess.run([*git, "log", "--format=%H %ct"], capture_output=True, text=True)
    for line in since.stdout.splitlines() if taken.stdout.strip() else ():
        commit, _, time = line.partition(" ")
        found.append(int(time))
        if commit == taken.stdout.strip():
            return found
    return []
