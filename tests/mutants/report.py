"""docs/evidence/mutants.md: how many mutants were killed, and each survivor with a judgement in one line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import orig_function_and_class_names_from_key

PAGE = Path("docs/evidence/mutants.md")
JUDGED = Path("tests/mutants/judged.toml")
NOTICED = frozenset({"killed", "timeout", "segfault"})
"""An endless loop or a dead process is noticed as well as a failing test."""

HEAD = """# Mutants

What no test notices. `make mutants` changes one operator, number or argument of the product at a time (mutmut) and runs
mypy, then the tests beside the code and a short simulation on what mypy lets pass. Texts for people are left out.
`sunion` and `protocol` are tried whole, of the others 100 each are drawn (seed {seed}). *Noticed*: by mypy, or by the
tests at the share of the tried. A survivor is a gap in the tests, or a change that changes nothing; its judgement
(`tests/mutants/judged.toml`) says which.

| folder | mutants | mypy refuses | tried | killed | survived | not tried | killed of tried | noticed | asked for |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Mutants of one folder.

    Attributes:
        least: the share that must be noticed.
        total, refused: how many there are, and how many of these mypy refuses.
        codes: name -> exit code of the tests, of those that are to be tried; None: not tried.
    """

    folder: str
    least: float
    total: int
    refused: int
    codes: Mapping[str, int | None]

    def of(self, *states: str) -> list[str]:
        return [name for name, code in self.codes.items() if status_by_exit_code[code] in states]

    @property
    def killed(self) -> int:
        return len(self.of(*NOTICED))

    @property
    def untried(self) -> int:
        return len(self.of("not checked"))

    @property
    def survivors(self) -> list[str]:
        return [n for n in self.codes if n not in {*self.of(*NOTICED), *self.of("not checked")}]

    @property
    def share(self) -> float:
        tried = len(self.codes) - self.untried
        return self.killed / tried if tried else 0.0

    @property
    def noticed(self) -> float:
        refused = self.refused / self.total
        return refused + (1 - refused) * self.share


class Judge:
    """Judgements: of one change of one function, or of every change that a pattern in the table `kinds` matches."""

    def __init__(self, judged: dict[str, Any]) -> None:
        self._kinds = [(re.compile(pattern), verdict) for pattern, verdict in judged.get("kinds", {}).items()]
        self._judged = judged

    def of(self, where: str, change: str) -> str:
        """Empty: there is none."""
        found: str = self._judged.get(f"{where}: {change}", "")
        return found or next((verdict for pattern, verdict in self._kinds if pattern.fullmatch(change)), "")


def judge_of_today() -> Judge:
    return Judge(tomllib.loads(JUDGED.read_text()))


def unjudged(names: Sequence[str]) -> list[str]:
    """Those of these mutants that have no judgement."""
    judge = judge_of_today()
    return [name for name in names if not judge.of(*described(name))]


def write(groups: Sequence[Group], seed: int) -> int:
    """Writes the page. Returns 0 if every folder reaches its share and every survivor is judged."""
    judge = judge_of_today()
    lines, open_ = [], 0
    page = HEAD.format(seed=seed)
    for group in groups:
        page += (
            f"| {group.folder} | {group.total} | {group.refused} | {len(group.codes) - group.untried} | {group.killed} "
            f"| {len(group.survivors)} | {group.untried} | {group.share:.1%} | {group.noticed:.1%} "
            f"| {group.least:.0%} |\n"
        )
        for name in group.survivors:
            where, change = described(name)
            verdict = judge.of(where, change)
            open_ += not verdict
            lines.append(f"| `{where}` | `{change.replace('|', chr(92) + '|')}` | {verdict or '**not judged**'} |")
    page += "\n## Survivors\n\n| function | change | judgement |\n|---|---|---|\n" + "".join(f"{x}\n" for x in lines)
    PAGE.write_text(page)
    short = [g.folder for g in groups if g.noticed < g.least]
    untried = sum(g.untried for g in groups)
    print(f"{PAGE}: {open_} survivors without a judgement, {untried} mutants not tried, below what is asked: {short}")
    return 1 if open_ or short or untried else 0


def described(name: str) -> tuple[str, str]:
    """(function, what changed): the same as long as the function's text is, whatever mutmut numbers it."""
    module = name.rpartition(".")[0]
    function, class_ = orig_function_and_class_names_from_key(name)
    short = function.rpartition(".")[2]
    lines = get_diff_for_mutant(name).splitlines()[2:]
    old = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    new = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    return f"{module}.{class_ + '.' if class_ else ''}{short}", f"{old} -> {new}"
