"""The blocks of code of a Markdown page, and what is to be done with each.

A comment in front of a block says what its own text does not (the rendered page does not show it):

    <!-- test: until shown -->          its one command runs again and again until it prints what the page shows
    <!-- test: until Ctrl-C -->         its one command gets Ctrl-C once it has printed what the page shows
    <!-- test: meanwhile -->            likewise, and the page goes on at once: a second terminal
    <!-- test: elsewhere: WHERE -->     something else runs it: WHERE names what
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

RULES = ("until shown", "until Ctrl-C", "meanwhile", "elsewhere: ")
_RULE = re.compile(r"<!-- test: (.+?) -->")
_FILE = re.compile(r"# ([\w-]+\.\w+)\n")


@dataclass(frozen=True)
class Step:
    """A command, and the lines that the page shows below it."""

    command: str
    shown: str
    line: int


@dataclass(frozen=True)
class Block:
    """A block of code. `language`: of its fence; "" of an indented one. `line`: of its first line of text, from 1."""

    language: str
    text: str
    rule: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that it is the content of, by its first line: `# shop.py`."""
        found = None if self.language in ("sh", "console") else _FILE.match(self.text)
        return None if found is None else found[1]

    @property
    def elsewhere(self) -> str | None:
        """What runs it instead of the page's test."""
        return self.rule.removeprefix("elsewhere: ") if self.rule.startswith("elsewhere: ") else None

    def steps(self) -> Iterator[Step]:
        """The commands of a `console` block: after `$ `, further lines of one after `> `."""
        steps: list[tuple[int, list[str], list[str]]] = []
        for number, line in enumerate(self.text.splitlines(), self.line):
            if line.startswith("$ "):
                steps.append((number, [line[2:]], []))
            elif line.startswith("> ") and steps and not steps[-1][2]:
                steps[-1][1].append(line[2:])
            else:
                assert steps, f"line {number}: output in front of any command"
                steps[-1][2].append(line)
        return (Step("\n".join(command), "\n".join(shown), number) for number, command, shown in steps)


def blocks(page: Path) -> list[Block]:
    """All blocks of code of a page, in order."""
    found, rule = [], ""
    for token in MarkdownIt("commonmark").parse(page.read_text()):
        if token.type == "html_block":
            said = _RULE.search(token.content)
            rule = said[1] if said else ""
        elif token.type in ("fence", "code_block") and token.map is not None:
            fenced = token.type == "fence"
            found.append(Block(token.info if fenced else "", token.content, rule, token.map[0] + 1 + fenced))
            rule = ""
    return found
