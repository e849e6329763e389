"""Human-readable tables, and the machine below them."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from borealis_py.bench.report.machine import Measured

WIDTH = 120
"""Columns of what goes into a pipe or a file."""


def wide(console: Console) -> Console:
    """The console, as wide as a table needs unless it is a terminal."""
    return console if console.is_terminal else Console(file=console.file, width=WIDTH, highlight=False)


def where(report: Measured, console: Console) -> None:
    """Print the machine and the duration."""
    for line in report.machine.lines(report.seconds):
        console.print(line)


def table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table; the first column is of words, the others of numbers."""
    console.print(title, style="italic", markup=False)
    shown = Table(header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(columns):
        shown.add_column(name, justify="right" if i else "left")
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
