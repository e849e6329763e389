"""The README, the tutorials and a how-to, run as a reader runs them: each command, in order, with what it prints.

The code is what a wheel installs, so that none of it can lean on the checkout.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.output import alike, pids
from tests.docs.page import Block, Step, blocks
from tests.docs.terminal import ROOT, Running, Terminal

ON_SPARK = pytest.mark.broker, pytest.mark.spark
PAGES = (
    pytest.param("README.md", marks=pytest.mark.broker),
    pytest.param("docs/tutorials/first-query.md", marks=ON_SPARK),
    pytest.param("docs/tutorials/lose-an-input.md", marks=ON_SPARK),
    pytest.param("docs/tutorials/chains-and-partitions.md", marks=ON_SPARK),
    "docs/how-to/testing.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_each_command_prints_what_the_page_shows(page: str, tmp_path: Path, wheel: Path) -> None:
    meanwhile: list[tuple[Running, str]] = []
    with Terminal(tmp_path, wheel) as terminal:
        for block in blocks(ROOT / page):
            meanwhile += [(running, f"{page}:{block.line}") for running in _run(block, terminal, page)]
        for running, where in meanwhile:
            _compare(running.shown, terminal.interrupt(running), where)


def _run(block: Block, terminal: Terminal, page: str) -> list[Running]:
    """Do what a block says; the commands of it that go on."""
    if block.elsewhere is not None:
        return []
    if block.file is not None:
        terminal.save(block.file, block.text)
        return []
    if block.language == "sh":
        code, printed = terminal.run(block.text)
        assert code == 0, f"{page}:{block.line}: exit code {code}\n{printed}"
        return []
    assert block.language == "console", f"{page}:{block.line}: a block of {block.language!r}, which nothing runs"
    if block.rule == "meanwhile":
        return [terminal.begin(step.command, step.shown) for step in block.steps()]
    for step in block.steps():
        _step(step, block.rule, terminal, f"{page}:{step.line}")
    return []


def _step(step: Step, rule: str, terminal: Terminal, where: str) -> None:
    if rule == "until Ctrl-C":
        _compare(step.shown, terminal.interrupt(terminal.begin(step.command, step.shown)), where)
    elif rule == "until shown":
        _compare(step.shown, terminal.run_until_shown(step.command, step.shown), where)
    else:
        code, printed = terminal.run(step.command)
        _compare(step.shown, printed, where)
        assert code == 0, f"{where}: exit code {code}"
        terminal.own |= pids(step.shown, printed)


def _compare(shown: str, printed: str, where: str) -> None:
    assert alike(shown, printed), f"{where}: the page shows\n{shown}\n\nand this came:\n{printed}"
