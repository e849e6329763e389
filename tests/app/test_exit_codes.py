"""One table says how a replica process ends, and every end by name is in it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from borealis_py.app.supervisor import exit_codes
from borealis_py.app.supervisor.exit_codes import EXITS, described, exit_of
from borealis_py.log.base import LogError
from borealis_py.node.run import LostWhileRunning
from borealis_py.runtime.ends import ALONE, ENDS, end_of
from tests.harness.processes import ROOT


def test_codes_are_different_and_none_is_a_shells_or_a_signals() -> None:
    codes = [one.code for one in EXITS]
    assert len(set(codes)) == len(codes)
    assert all(0 <= code < 64 for code in codes)
    assert len({one.name for one in EXITS}) == len(EXITS)


def test_only_a_failure_is_worth_another_attempt() -> None:
    assert [one.name for one in EXITS if not one.final] == ["failed"]


def test_whoever_has_to_act_is_told_what_to_do() -> None:
    assert all(one.todo for one in EXITS if one.final and one is not exit_codes.STOPPED)


def test_every_end_by_name_is_final_and_has_a_code_of_its_own() -> None:
    assert all(end.exit.final and end.exit in EXITS for end in ENDS)
    assert len({end.exit.code for end in ENDS}) == len(ENDS)
    assert len({end.kind for end in ENDS}) == len(ENDS)
    assert {exit_codes.LOST.code} == ALONE
    assert all(end_of(end.type("why")) is end for end in ENDS)


@pytest.mark.parametrize(
    "failure", [LogError("no broker"), LostWhileRunning("gone"), ValueError("a bug"), MemoryError()]
)
def test_a_failure_is_no_end(failure: Exception) -> None:
    assert end_of(failure) is None


@pytest.mark.parametrize(
    ("code", "final", "said"),
    [
        (-9, False, "killed by SIGKILL"),
        (-62, False, "killed by signal 62"),
        (3, True, "exit code 3, superseded: its replica index runs elsewhere"),
        (77, False, "exit code 77"),
    ],
)
def test_an_exit_is_told_by_name(code: int, final: bool, said: str) -> None:
    assert (exit_of(code).final, described(code)) == (final, said)


def test_the_table_needs_nothing_but_the_standard_library() -> None:
    """A supervisor imports it in a process that is to weigh little."""
    table = "borealis_py.app.supervisor.exit_codes"
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {table}; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert {name for name in said.split() if name.startswith(("borealis_py.", "dataclasses", "subprocess"))} == {
        "borealis_py.app",
        "borealis_py.app.supervisor",
        table,
    }


def test_the_page_of_exit_codes_has_the_same_table() -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (ROOT / "docs" / "reference" / "exit-codes.md").read_text().splitlines()
    ]
    told = {int(row[0]): row[1:] for row in rows if len(row) == 4 and row[0].isdigit()}
    assert set(told) == {one.code for one in EXITS}
    for one in EXITS:
        name, again, means = told[one.code]
        assert (name, again.startswith("no")) == (one.name, one.final)
        assert one.means.removeprefix("it ").split(",")[0] in means
