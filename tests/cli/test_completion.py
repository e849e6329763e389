"""Completion of commands by the shell: it installs, and knows commands, options and values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Borealis

FILES = {
    "bash": ".bash_completions/borealis.sh",
    "zsh": ".zfunc/_borealis",
    "fish": ".config/fish/completions/borealis.fish",
}


@pytest.mark.parametrize("shell", FILES)
def test_it_installs(tmp_path: Path, shell: str) -> None:
    """Which shell it is for is said here: the library would look at the parents of this process."""
    here = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "borealis_py.cli.main", "--install-completion", shell]
    said = subprocess.run(command, env=here, capture_output=True, text=True, timeout=60, check=True)
    assert f"{shell} completion installed" in said.stdout
    script = (tmp_path / FILES[shell]).read_text()
    assert f"_BOREALIS_COMPLETE=complete_{shell}" in script


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["borealis", "sta"], {"status"}),
        (["borealis", "broker", ""], {"up", "down", "status"}),
        (["borealis", "subscribe", "q", "--view", ""], {"corrected", "live", "raw"}),
        (["borealis", "subscribe", "--unt"], {"--until-end"}),
    ],
)
def test_it_offers(borealis: Borealis, monkeypatch: pytest.MonkeyPatch, words: list[str], offered: set[str]) -> None:
    monkeypatch.setenv("_BOREALIS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    said = borealis()
    assert (said.code, set(said.out.split())) == (0, offered)
