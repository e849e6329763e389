"""Commands that compute nothing load no engine: they would take seconds instead of half a second."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from tests.cli.imports import KAFKA, MACHINERY, loaded
from tests.support.nowhere import NOWHERE

_NEEDS_NO_KAFKA = [
    (["--version"], 0),
    (["--help"], 0),
    (["nonsense"], 2),
    (["status", "--nonsense"], 2),
    (["check", "gone.py"], 2),
    (["explain", "gone.py"], 2),
    (["up", "gone.py"], 2),
    (["audit", "sums", "gone.py"], 2),
    (["publish", "left", "gone.csv"], 2),
    (["down"], 0),
]
_NO_BROKER = [
    ["status"],
    ["top"],
    ["subscribe", "sums"],
    ["publish", "left", "-"],
    ["inspect", "topic"],
    ["threshold", "sums", "1s"],
    ["policy", "sums", "--failure", "delay"],
    ["retain"],
    ["recovery"],
    ["resume", "sums"],
    ["source", "expect", "left", "1s"],
    ["fail", "source", "left", "--for", "1s"],
    ["audit", "sums"],
]


def test_a_wrong_word_loads_nothing(tmp_path: Path) -> None:
    found = loaded([command for command, _ in _NEEDS_NO_KAFKA], tmp_path, _here())
    assert found == {" ".join(command): (code, "") for command, code in _NEEDS_NO_KAFKA}


def test_an_error_message_waits_for_no_engine(tmp_path: Path) -> None:
    """Each command finds no broker, and reports it before it loads what it may need later."""
    found = loaded(_NO_BROKER, tmp_path, {**_here(), "BOREALIS_BOOTSTRAP": NOWHERE}, answer_s=0.1)
    assert found == {" ".join(command): (1, KAFKA) for command in _NO_BROKER}


def test_a_status_needs_no_machinery(tmp_path: Path) -> None:
    """Values are imported without what makes them; MACHINERY exists, or this would show nothing."""
    assert all(find_spec(name) for name in MACHINERY)
    found = loaded([["status"]], tmp_path, {**_here(), "BOREALIS_BOOTSTRAP": NOWHERE}, names=MACHINERY)
    assert found == {"status": (1, "")}


def _here() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BOREALIS_")}
