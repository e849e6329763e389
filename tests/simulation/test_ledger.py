"""The ledger only grows, and its lines are a table."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from borealis_py.simulation.faults.coverage import IMPOSSIBLE, cells
from borealis_py.simulation.runner.ledger import HEAD, Line, append, commit_of


def test_lines_are_added_below_the_head(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "evidence" / "ledger.md"
    at = datetime(2026, 11, 21, 16, 5, tzinfo=UTC)
    append(path, Line(20_000, 1, 36_000.0, 100, 112, 0), at, "abc1234")
    append(path, Line(200, 7, 360.0, 60, 112, 1), at, "abc1235")
    append(path, Line(40, 1, 360.0, None, 112, 0), at, "abc1236")
    assert path.read_text() == (
        HEAD
        + "| 2026-11-21 16:05 | abc1234 | 20000 | 1 | 10.0 | 100 of 112 | 0 |\n"
        + "| 2026-11-21 16:05 | abc1235 | 200 | 7 | 0.1 | 60 of 112 | 1 |\n"
        + "| 2026-11-21 16:05 | abc1236 | 40 | 1 | 0.1 | ingresses | 0 |\n"
    )


def test_without_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path, tmp_path / "ledger.md") == "-"


def git(directory: Path, *arguments: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(["git", *who, *arguments], cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(directory: Path, *files: Path) -> str:
    """A new repository of these files; its commit."""
    git(directory, "init", "-q")
    for path in files:
        path.write_text("before\n")
    git(directory, "add", ".")
    git(directory, "commit", "-qm", "x")
    return git(directory, "rev-parse", "--short", "HEAD")


def test_code_installed_within_a_project_is_not_of_that_project_s_commit(tmp_path: Path) -> None:
    committed(tmp_path, tmp_path / "theirs.py")
    installed = tmp_path / ".venv"
    installed.mkdir()
    (installed / "ours.py").write_text("")
    assert commit_of(installed, tmp_path / "ledger.md") == "-"


def test_a_change_is_told_unless_it_is_the_ledgers_own(tmp_path: Path) -> None:
    ledger, rule = tmp_path / "ledger.md", tmp_path / "rule.py"
    commit = committed(tmp_path, ledger, rule)
    assert commit_of(tmp_path, ledger) == commit
    ledger.write_text("a line more\n")
    assert commit_of(tmp_path, ledger) == commit
    rule.write_text("another rule\n")
    assert commit_of(tmp_path, ledger) == f"{commit}+"


def test_some_run_in_the_ledger_went_everywhere() -> None:
    """Coverage of (state transition, fault class) cells takes more worlds than a test run has; the ledger has them."""
    lines = Path("docs/evidence/ledger.md").read_text().splitlines()
    runs = [[part.strip() for part in line.split("|")[1:-1]] for line in lines if line.startswith("| 20")]
    possible = len(cells()) - len(IMPOSSIBLE)
    assert f"{possible} of {possible}" in [went for *_, went, _ in runs]
