"""Documents are written as a technical editor writes: phrases that earlier ones were full of do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.guards.tree import DOCUMENTS, ROOT

NOT_EDITED = ("docs/evidence/", "docs/figures.md")
"""Appended to by runs, or made of measurements."""
GENERATED = {
    f"docs/reference/{name}.md" for name in ("commands", "configuration", "forms", "metrics", "python", "status")
}
"""Texts of the code."""
EDITED = [
    path
    for path in DOCUMENTS
    if (name := str(path.relative_to(ROOT))) not in GENERATED and not name.startswith(NOT_EDITED)
]
BETTER = {
    r"\bno more(?=[.,;:)|]| (?:from|for|by|in|to|on|that|without)\b)": "no longer",
    r"\bany more\b(?! than)": "no longer",
    r"\bfor people\b": "name the reader, or leave it out",
    r"\bof ours\b": "name the program",
    r"\bfor good\b": "finally, permanently",
    r"\b(?:is|are|was|were|been) told\b": "reported, recognised, learns",
    r"\b(?:is|was|has|have|are) heard\b": "received",
    r"(?:^|[.:;!?] |\*\* )Of (?:a|an|the|those|each|two|its|all|several)\b(?![^.:]*:)": "begin with the subject",
    r"(?:^|[.:;!?] |\*\* )Who (?!\w+[^.]*\?)": "name who it is; only a question begins so",
}
"""What is refused -> what an editor writes instead. A label ("Of a source: ...") is no fronted genitive."""


def paragraphs(text: str) -> list[str]:
    """Paragraphs and items of lists, without blocks of code, each on one line."""
    prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    parts = re.split(r"\n\s*\n|(?m:^) *(?:[-*#]+|\d+\.) ", prose)
    return [" ".join(part.split()) for part in parts]


def refused(text: str) -> list[tuple[str, str]]:
    """The phrases of a text, each with what to write."""
    return [
        (part[max(0, found.start() - 30) : found.end() + 30], better)
        for part in paragraphs(text)
        for phrase, better in BETTER.items()
        for found in re.finditer(phrase, part)
    ]


@pytest.mark.parametrize("document", EDITED, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_has_a_phrase_that_an_editor_changes(document: Path) -> None:
    assert refused(document.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "It is no more.",
        "It waits no\nmore for it.",
        "It cannot be audited any more.",
        "a text for people",
        "a client of ours",
        "It is told by name.",
        "The runner is heard.",
        "- Of a source two rows are kept.",
        "It ends. Of each bucket three rows are kept.",
        "It ends for good.",
        "Who takes over reads first.",
    ],
)
def test_such_a_phrase_is_found(text: str) -> None:
    assert refused(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "It takes no more rows, and no more than two.",
        "Of a replica: it reads, computes and writes.",
        "Who restarts them?",
        "```\nno more.\n```",
    ],
)
def test_what_is_right_is_left_alone(text: str) -> None:
    assert refused(text) == []
