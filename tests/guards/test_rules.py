"""Every rule that is cited is a heading of the protocol's pages, and what of these is generated is current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.guards.rules import CODE_PAGE, NUMBER, PROTOCOL, anchors, citing, code_page, linked, pages, rules
from tests.guards.tree import ROOT

REWRITES = "python -m tests.guards.rules"


def test_every_rule_that_is_cited_is_a_heading() -> None:
    lost = {(n, str(path.relative_to(ROOT))) for path, cited in citing().items() for n in cited - rules().keys()}
    assert lost == set()


def test_every_part_of_a_rule_has_its_rule() -> None:
    assert {number.partition(".")[0] for number in rules()} == {number for number in rules() if "." not in number}
    assert len(rules()) > 200


def test_parts_are_numbered_without_holes() -> None:
    parts = [tuple(map(int, re.findall(r"\d+", number))) for number in rules() if "." in number]
    letters = [number[0] for number in rules() if "." in number]
    found = {(letter, *part) for letter, part in zip(letters, parts, strict=True)}
    assert {one for one in found if one[2] > 1 and (one[0], one[1], one[2] - 1) not in found} == set()


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.stem)
def test_every_number_in_brackets_is_a_link(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == linked(page), REWRITES


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.stem)
def test_every_rule_that_a_page_cites_is_a_link(page: Path) -> None:
    other = r"(?ms)^```.*?^```|^#.*?$|`[^`\n]*`|^\[[^\]]+\]: .*?$|\[[^\]]+\]"
    assert re.findall(rf"\b{NUMBER}\b", re.sub(other, "", page.read_text(encoding="utf-8"))) == []


def test_the_list_of_citations_is_current() -> None:
    assert CODE_PAGE.read_text(encoding="utf-8") == code_page(), REWRITES


def test_every_page_that_code_cites_is_there() -> None:
    """`docs/protocol/running.md#feeds`, too."""
    pattern = re.compile(r"docs/protocol/([\w/-]+\.md)(?:#([\w-]+))?")
    found = {cite for path in citing() if path.suffix != ".md" for cite in pattern.findall(path.read_text())}
    assert found
    lost = {(page, anchor) for page, anchor in found if not (PROTOCOL / page).exists()}
    lost |= {(page, anchor) for page, anchor in found - lost if anchor and anchor not in anchors(PROTOCOL / page)}
    assert lost == set()
