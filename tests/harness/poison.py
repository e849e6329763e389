"""Lines that a publisher is given and nobody can use, by what is wrong with them, and who finds out.

A publisher reads a line as `borealis publish` does: it refuses what is no row of the schema. What is one goes into its
source's log, and the kernel of the first node refuses it: there an expression of the drills' filter fails.
"""

from __future__ import annotations

import json
from pathlib import Path

ROW_MAX_BYTES = 1_000_000
NESTING_MAX = 100
_INT32_MAX = 2**31 - 1

KERNEL = ("cast fails", "no square root", "nested text")
PUBLISHER = ("no JSON", "no object", "mistyped", "no int64", "nested line", "beyond row_max")
WHATS = (*KERNEL, *PUBLISHER)


def line_of(what: str, source: str, n: int) -> bytes:
    """The line in place of tuple number `n` of a source."""
    if what == "no JSON":
        return b'{"origin": "%s", "k": %d, ' % (source.encode(), n)
    if what == "no object":
        return b"[%d]" % n
    if what == "nested line":
        return b'{"origin": %s%s}' % (b"[" * 100_000, b"]" * 100_000)
    row: dict[str, object] = {"origin": source, "k": n % 3, "v": n % 101}
    wrong: dict[str, dict[str, object]] = {
        "cast fails": {"v": _INT32_MAX + 1 + n},
        "no square root": {"v": -1 - n},
        "nested text": {"origin": "[" * (NESTING_MAX + 1) + "]" * (NESTING_MAX + 1)},
        "mistyped": {"k": "seven"},
        "no int64": {"v": 2**63 + n},
        "beyond row_max": {"origin": "x" * ROW_MAX_BYTES},
    }
    return json.dumps({**row, **wrong[what]}).encode()


def refused_by_kernel(origin: str, v: int | None) -> bool:
    """Whether the drills' filter fails on a row: independent of the engine that runs it."""
    if v is None:
        return False  # the first condition is false, and the others are not looked at
    return v > _INT32_MAX or v < 0 or _nesting(origin) > NESTING_MAX


def _nesting(text: str) -> int:
    """Of a text of brackets alone, the only one that comes."""
    depth = deepest = 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        deepest = max(deepest, depth)
    return deepest


class PoisonPlan:
    """Which tuple of which source is to be replaced by what: a file that grows, one JSON object a line.

    A line is written before its tuple is due, so every publisher of a source, the first or a successor, sends the same.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._read = 0
        self._of: dict[tuple[str, int], str] = {}

    def add(self, source: str, first: int, whats: list[str]) -> None:
        """From tuple `first` on, one after the other."""
        lines = [{"source": source, "seq": n, "what": what} for n, what in enumerate(whats, first)]
        with self.file.open("ab") as file:  # at once: a reader finds whole lines
            file.write("".join(json.dumps(line) + "\n" for line in lines).encode())

    def of(self, source: str, n: int) -> str | None:
        """What to send in place of a tuple; None: the tuple."""
        self._look()
        return self._of.get((source, n))

    def by_source(self, source: str) -> dict[int, str]:
        """All of one source."""
        self._look()
        return {n: what for (of, n), what in self._of.items() if of == source}

    def _look(self) -> None:
        if not self.file.exists() or self.file.stat().st_size == self._read:
            return
        with self.file.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + bool(whole)
        for line in map(json.loads, whole.splitlines()):
            self._of[line["source"], line["seq"]] = line["what"]
