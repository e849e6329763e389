"""A verdict for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.drills.checker.words import EXAMPLES_MAX, Verdict, Word


def table(verdict: Verdict, title: str) -> Table:
    """One line a word: how often, what it means, where first."""
    out = Table(title=title, title_justify="left")
    for column in ("word", "count", "meaning, first examples"):
        out.add_column(column)
    for word in Word:
        found = verdict.of(word)
        examples = "\n".join(f"{a.where}: {a.what}"[:300] for a in found[:EXAMPLES_MAX])
        style = "bold red" if found else "dim"
        out.add_row(Text(word, style), Text(str(len(found)), style), Text(examples or word.says, style))
    return out


def show(verdict: Verdict, title: str, console: Console | None = None) -> None:
    """Print it, and what was looked at."""
    console = console or Console(width=160)
    console.print(table(verdict, title))
    looked = ", ".join(f"{n} {what}" for what, n in verdict.looked_at.items())
    delays = sorted(verdict.delays_ms)
    if delays:
        looked += f"; added delay p50 {delays[len(delays) // 2]:.0f} ms, max {delays[-1]:.0f} ms"
    console.print(Text(f"looked at: {looked}", "dim"))
    if verdict.undecided:
        examples = "\n".join(text[:300] for text in verdict.undecided[:EXAMPLES_MAX])
        console.print(Text(f"{len(verdict.undecided)} tentative words could not be decided:\n{examples}", "yellow"))
