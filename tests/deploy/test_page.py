"""The page about the cluster is compared with the cluster only where Docker is; here, that the comparison notices."""

from __future__ import annotations

from tests.compose.page import PAGE, differences
from tests.docs.page import blocks

STEPS = [step for block in blocks(PAGE) if block.language == "console" for step in block.steps()]
GIVEN = [(step.command, step.shown.replace("...", "and so on")) for step in STEPS]


def test_what_the_page_shows_is_like_itself() -> None:
    assert differences(GIVEN) == []


def test_a_command_that_was_not_run_is_named() -> None:
    (missed,) = differences([given for given in GIVEN if "pause" not in given[0] or "unpause" in given[0]])
    assert "pause publisher-lga' was not run" in missed


def test_a_status_that_looks_otherwise_is_named() -> None:
    (missed,) = differences([(command, said.replace("gone, was", "")) for command, said in GIVEN])
    assert "none of this looks so" in missed
