"""The catalogue of planted bugs: names, worlds, and the page that tells of it."""

from __future__ import annotations

from pathlib import Path

from tests.planted import BUGS
from tests.planted.bug import EFFECTS
from tests.planted.page import page, rules

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "rules.md"


def test_the_page_in_docs_is_that_of_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.planted.page > docs/evidence/rules.md"


def test_every_bug_names_rules_that_there_are() -> None:
    known = set(rules())
    assert len(rules()) > 75
    assert [bug.rule for bug in BUGS if not bug.numbers or not known.issuperset(bug.numbers)] == []


def test_there_are_enough_of_them_and_no_two_of_one_name() -> None:
    assert len(BUGS) > 180
    assert len({bug.rule for bug in BUGS}) == len(BUGS)
    assert {bug.effect for bug in BUGS} == set(EFFECTS)


def test_every_bug_has_somebody_who_must_notice() -> None:
    assert [bug.rule for bug in BUGS if not (bug.worlds or bug.script or bug.scene)] == []
    hold = [bug for bug in BUGS if bug.worlds and not bug.worlds.oracles]
    assert {bug.effect for bug in hold} <= {"quality"}


def test_every_world_that_shows_a_bug_is_one_of_those_it_may_take() -> None:
    """0: of a bug whose worlds hold."""
    worlds = {bug.rule: bug.worlds for bug in BUGS if bug.worlds}
    assert [rule for rule, w in worlds.items() if not bool(w.oracles) <= w.found <= w.seeds * bool(w.oracles)] == []
