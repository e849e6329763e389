"""Tables that fit the terminal: all of them decide here what a narrow one leaves out, and name it in a line below.

What is least important is known to the author of a table; nothing of a table is left out where the output is no
terminal, which has no width (`console.out`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

GAP = 3
"""Characters between two cells."""
EDGES = 2
"""Characters before the first and after the last cell of a line."""
PROSE = 20
"""Characters below which a cell of several words is not read with ease."""
FOLDED = 8
"""Characters to which a column of text is narrowed at most, by breaking words anywhere."""
KEPT = "\u00a0"
"""Stands in cells for a space at which no line is broken; it is printed as a space."""
_SEPARATORS = "_-./:,;="


@dataclass(frozen=True, slots=True)
class ColumnWidths:
    """Widths of a column, in characters, each no more than the one before.

    Attributes:
        most: what it makes use of. readable: the least that is read with ease.
        unbroken: the least at which no word is broken.
        pieces: the least at which words are broken after a sign like _ only, and numbers never.
        least: the least at all. Of a column of numbers all but `most` are equal.
    """

    most: int
    readable: int
    unbroken: int
    pieces: int
    least: int


class FittingTable:
    """A table of a title, a head and rows; it takes the width of whatever console prints it.

    Args:
        title: a line above, "" for none.
        columns: the heads. One that ends with ">" is a column of numbers: aligned to the right, its cells never broken.
        rows: a cell for each column; a `str` is shown as it is, without markup. Cells may have several lines.
        least: heads of the columns that a narrow terminal leaves out, the first ones first. If that does not suffice,
            words are broken, and then columns are left out from the right; the first column stays.
    """

    def __init__(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]], least: Sequence[str] = ()
    ) -> None:
        self._title = title
        self._numbers = [name.endswith(">") for name in columns]
        self._names = [name.rstrip(">") for name in columns]
        self._rows = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
        self._least = [columns.index(name) for name in least if name in columns]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [
            _widths(name, numbers, [row[i] for row in self._rows])
            for i, (name, numbers) in enumerate(zip(self._names, self._numbers, strict=True))
        ]
        kept = fitted(widths, options.max_width, self._least)
        if self._title:
            yield Text(self._title, "table.title")
        table = Table(header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        for i, width in kept.items():
            side = "right" if self._numbers[i] else "left"
            table.add_column(Text(self._names[i]), justify=side, overflow="fold", width=width)  # type: ignore[arg-type]
        for row in self._rows:
            table.add_row(*(wrapped(row[i], width) for i, width in kept.items()))
        yield table
        if len(kept) < len(widths):
            names = ", ".join(name for i, name in enumerate(self._names) if i not in kept)
            yield Text(f"not shown, as the terminal has {options.max_width} columns: {names} (--json has all)", "dim")


def fitted(columns: Sequence[ColumnWidths], width: int, least: Sequence[int] = ()) -> dict[int, int]:
    """Which columns a table of this width has, and how wide each is, by index.

    Args:
        width: of the terminal, in characters. least: columns to leave out, the first ones first.
    """
    order = [*dict.fromkeys(least), *(i for i in range(len(columns) - 1, 0, -1) if i not in least)]
    kept = list(range(len(columns)))
    gone = iter(order)
    for _ in range(len(set(least))):
        if _fits([columns[i].readable for i in kept], width):
            break
        kept.remove(next(gone))
    while True:
        for narrow in _narrower([columns[i] for i in kept], width):
            if _fits(narrow, width):
                return dict(zip(kept, _widened(narrow, [columns[i].most for i in kept], width), strict=True))
        out = next(gone, None)
        if out is None:
            return {kept[0]: max(1, width - EDGES)}
        kept.remove(out)


def _fits(widths: Sequence[int], width: int) -> bool:
    return sum(widths) + GAP * (len(widths) - 1) + EDGES <= width


def _narrower(columns: Sequence[ColumnWidths], width: int) -> Iterator[list[int]]:
    """Widths for these columns, ever narrower ones: the widest columns give way."""
    yield [c.readable for c in columns]
    yield [c.unbroken for c in columns]
    caps = range(min(width, max(c.unbroken for c in columns)), FOLDED - 1, -1)
    for most in caps:
        yield [max(c.pieces, min(c.unbroken, most)) for c in columns]
    for most in caps:
        yield [max(c.least, min(c.pieces, most)) for c in columns]


def _widened(widths: Sequence[int], most: Sequence[int], width: int) -> list[int]:
    """Widths of columns with what is left of the line: first those that need the least more."""
    left = width - sum(widths) - GAP * (len(widths) - 1) - EDGES
    found = list(widths)
    waiting = sorted(range(len(found)), key=lambda i: most[i] - found[i])
    for place, i in enumerate(waiting):
        more = min(most[i] - found[i], left // (len(waiting) - place))
        found[i] += more
        left -= more
    return found


def _widths(name: str, numbers: bool, cells: Sequence[Text]) -> ColumnWidths:
    lines = [line for cell in cells for line in cell.plain.splitlines()]
    whole = max(map(cell_len, lines), default=0)
    most = max(cell_len(name), whole, 1)
    head = _longest(name.split())
    if numbers:
        least = max(head, whole, 1)
        return ColumnWidths(most, least, least, least, least)
    words = [word for line in lines for word in line.split(" ")]
    unbroken = max(head, _longest(words), 1)
    pieces = max(head, _longest([piece for word in words for piece in _pieces(word)]), 1)
    return ColumnWidths(most, max(unbroken, min(whole, PROSE)), unbroken, pieces, min(pieces, FOLDED))


def _longest(words: Sequence[str]) -> int:
    return max(map(cell_len, words), default=0)


def wrapped(text: Text, width: int) -> Text:
    """The same in lines of this width: broken at spaces; a word that is too long, after a sign; if that is no help,
    anywhere."""
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        for part in line.divide(_breaks(line.plain, width)):
            part.rstrip()
            part.plain = part.plain.replace(KEPT, " ")
            lines.append(part)
    return Text("\n").join(lines)


def _breaks(line: str, width: int) -> list[int]:
    """Where lines after the first one begin."""
    found: list[int] = []
    at = used = 0
    for word in line.split(" "):
        size = cell_len(word)
        if used and used + size > width:
            found.append(at)
            used = 0
        for piece in _pieces(word) if size > width else [word]:
            if used and used + cell_len(piece) > width:
                found.append(at)
                used = 0
            for character in piece:
                if used + cell_len(character) > width and used:
                    found.append(at)
                    used = 0
                used += cell_len(character)
                at += 1
        at += 1
        used += 1
    return found


def _pieces(word: str) -> list[str]:
    """A word, cut after each sign that is not between two digits."""
    begins = [0]
    for i in range(1, len(word)):
        number = word[i].isdigit() and i > 1 and word[i - 2].isdigit()
        if word[i - 1] in _SEPARATORS and not number:
            begins.append(i)
    return [word[a:b] for a, b in zip(begins, [*begins[1:], len(word)], strict=True)]
