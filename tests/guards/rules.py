"""The rules of `docs/protocol/`: their headings, what cites them, and what of those pages is generated from that.

python -m tests.guards.rules    writes the links at the end of each page, and docs/protocol/code.md
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from os.path import relpath
from pathlib import Path

from tests.guards.tree import DOCUMENTS, ROOT, modules
from tests.transcripts.datadriven import TESTDATA

PROTOCOL = ROOT / "docs" / "protocol"
CODE_PAGE = PROTOCOL / "code.md"
NUMBER = r"(?:A\d{1,2}|[BR][1-9]\d?)(?:\.\d{1,2})?"
HEADING = re.compile(rf"(?m)^#{{2,3}} (({NUMBER})(?: (.+))?)$")
CITATION = re.compile(rf"(?<![\w.`/-]){NUMBER}(?![\w-])(?!\.\d)")
CODE_HEAD = """# Where the rules live

Which files cite a rule of these pages, as it is written there. Rules without a file are followed by code that cites
the whole rule, or another part of it. This page is generated from the code: `python -m tests.guards.rules`.

"""


@dataclass(frozen=True, slots=True)
class Rule:
    """A heading with a number. `title`: empty if the number is all. `text`: what stands below it, up to the next."""

    number: str
    title: str
    page: Path
    anchor: str
    text: str

    @property
    def sentence(self) -> str:
        """The first sentence below it, in one line, without links."""
        first = re.split(r"(?<=\.)\s", " ".join(self.text.split()), maxsplit=1)[0]
        return re.sub(r"\[([^\]]*)\](?:\([^)]*\))?", r"\1", first)

    def link(self, origin: Path) -> str:
        """The target of a link to it from a page."""
        page = "" if origin == self.page else relpath(self.page, origin.parent)
        return f"{page}#{self.anchor}"


def anchor_of(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    """Those of a document's headings."""
    return {anchor_of(heading) for heading in re.findall(r"(?m)^#+ (.+)$", document.read_text(encoding="utf-8"))}


def pages() -> list[Path]:
    """The pages of the protocol that are written by hand."""
    return [path for path in sorted(PROTOCOL.rglob("*.md")) if path != CODE_PAGE]


@cache
def rules() -> dict[str, Rule]:
    """Number -> rule, those of a page in its order."""
    found = [rule for page in pages() for rule in _rules_of(page)]
    assert len({rule.number for rule in found}) == len(found), "a number twice"
    return {rule.number: rule for rule in sorted(found, key=lambda rule: place(rule.number))}


def _rules_of(page: Path) -> Iterator[Rule]:
    text = page.read_text(encoding="utf-8")
    for match in HEADING.finditer(text):
        below = re.split(r"(?m)^(?:#|\[[ABR]\d)", text[match.end() :], maxsplit=1)[0]
        yield Rule(match[2], match[3] or "", page, anchor_of(match[1]), below.strip())


def place(number: str) -> tuple[str, list[int]]:
    """Where a number stands among others."""
    return number[0], [int(part) for part in number[1:].split(".")]


def cited(text: str) -> set[str]:
    """The numbers of rules in a text."""
    return set(CITATION.findall(text))


def citing() -> dict[Path, set[str]]:
    """What code, tests, transcripts and documents cite, by file."""
    files = [*modules().values(), *(ROOT / "tests").rglob("*.py"), *TESTDATA.rglob("*.txt"), *DOCUMENTS]
    return {path: cited(path.read_text(encoding="utf-8")) for path in files}


def linked(page: Path) -> str:
    """A page with a definition at its end for each number that it has in brackets."""
    text = re.sub(rf"\n*(?m:^\[{NUMBER}\]: .*\n)+\Z", "\n", page.read_text(encoding="utf-8"))
    numbers = sorted(set(re.findall(rf"\[({NUMBER})\](?!\()", text)), key=place)
    links = "".join(f"[{n}]: {rules()[n].link(page)}\n" for n in numbers if n in rules())
    return f"{text}\n{links}" if links else text


def code_page() -> str:
    """The page that lists the files of the product by the rules that they cite."""
    where = defaultdict(list)
    for path in modules().values():
        for number in cited(path.read_text(encoding="utf-8")):
            where[number].append(str(path.relative_to(ROOT)).removeprefix("borealis_py/"))
    lines = (_line(rule, sorted(where[rule.number])) for rule in rules().values() if where[rule.number])
    return f"{CODE_HEAD}| rule | | files |\n|---|---|---|\n{''.join(lines)}"


def _line(rule: Rule, files: list[str]) -> str:
    names = ", ".join(f"`{name}`" for name in files)
    return f"| [{rule.number}]({rule.link(CODE_PAGE)}) | {rule.title or rule.sentence} | {names} |\n"


def write() -> None:
    """Write what is generated."""
    for page in pages():
        page.write_text(linked(page), encoding="utf-8")
    CODE_PAGE.write_text(code_page(), encoding="utf-8")


if __name__ == "__main__":
    write()
