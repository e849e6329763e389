"""What became of each mutant, in a file beside this one: another checkout goes on where the last run stopped.

A line a function: module, function as mutmut mangles it, hash of its text, and a letter for each of its mutants.
Results of a function count as long as its text stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutmut.mutation.data import SourceFileMutationData
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files

LEDGER = Path("tests/mutants/ledger.txt")
REFUSED = 37
"""mutmut's exit code of a mutant that mypy refuses."""
CODES = {"k": 1, "t": 36, "c": -11, "s": 0, "n": 33, "m": REFUSED}
"""Letter of the ledger -> exit code of mutmut: killed, timeout, crash, survived, no tests, refused by mypy."""
UNTRIED = "-"


@dataclass(frozen=True, slots=True)
class Line:
    """Results of one function's mutants, in their order. `text`: hash of the function's text."""

    module: str
    function: str
    text: str
    letters: str

    def __str__(self) -> str:
        return f"{self.module} {self.function} {self.text} {self.letters}"


def lines(module: str, codes: dict[str, int | None], hashes: dict[str, str]) -> Iterator[Line]:
    """The results of one module: `codes` by mutant, `hashes` by function."""
    for function, text in sorted(hashes.items()):
        found = {int(name.rpartition("_")[2]): code for name, code in codes.items() if _function(name) == function}
        letters = "".join(letter_of(found[n]) for n in sorted(found))
        if letters.strip(UNTRIED):
            yield Line(module, function, text, letters)


def fill(line: Line, codes: dict[str, int | None], hashes: dict[str, str]) -> int:
    """Take over the results of a function that has not changed. Returns how many of its mutants had none."""
    names = sorted((n for n in codes if _function(n) == line.function), key=lambda n: int(n.rpartition("_")[2]))
    if hashes.get(line.function) != line.text or len(names) != len(line.letters):
        return 0
    known = {n: CODES[letter] for n, letter in zip(names, line.letters, strict=True) if letter != UNTRIED}
    new = {n: code for n, code in known.items() if codes[n] is None}
    codes.update(new)
    return len(new)


def letter_of(code: int | None) -> str:
    status = status_by_exit_code[code]
    return next((letter for letter, known in CODES.items() if status_by_exit_code[known] == status), UNTRIED)


def _function(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0].rpartition(".")[2]


def save() -> None:
    """Write the ledger from mutmut's own files."""
    found = [line for path in walk_mutatable_files() for line in lines(_module(path), *_data(path)[1:])]
    LEDGER.write_text("".join(f"{line}\n" for line in found))


def load() -> int:
    """Fill mutmut's own files from the ledger. Returns how many results came from there."""
    if not LEDGER.exists():
        return 0
    known: dict[str, list[Line]] = {}
    for text in LEDGER.read_text().splitlines():
        line = Line(*text.split(" "))
        known.setdefault(line.module, []).append(line)
    taken = 0
    for path in walk_mutatable_files():
        data, codes, hashes = _data(path)
        new = sum(fill(line, codes, hashes) for line in known.get(_module(path), ()))
        if new:
            data.save()
        taken += new
    return taken


def _data(path: Path) -> tuple[SourceFileMutationData, dict[str, int | None], dict[str, str]]:
    data = SourceFileMutationData(path=path)
    data.load()
    return data, data.exit_code_by_key, data.hash_by_function_name


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts)
