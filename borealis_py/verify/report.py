"""A verdict for people, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from borealis_py.verify.anomalies import EXAMPLES_MAX, AnomalyKind, Verdict

EXAMPLE_CHARS = 300


def table(verdict: Verdict, title: str) -> Table:
    """One line for each kind that was looked for: how often, what it means, where first."""
    out = Table(title=title, title_justify="left")
    for column in ("anomaly", "count", "meaning, first examples"):
        out.add_column(column)
    for kind in (k for k in AnomalyKind if k in verdict.judged):
        found = verdict.of(kind)
        examples = "\n".join(f"{a.where}: {a.what}"[:EXAMPLE_CHARS] for a in found[:EXAMPLES_MAX])
        style = "bold red" if found else "dim"
        out.add_row(Text(kind, style), Text(str(verdict.count(kind)), style), Text(examples or kind.says, style))
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
        examples = "\n".join(text[:EXAMPLE_CHARS] for text in verdict.undecided[:EXAMPLES_MAX])
        what = f"{len(verdict.undecided)} tentative statements could not be decided"
        console.print(Text(f"{what}:\n{examples}", "yellow"))
    for text in verdict.not_checked:
        console.print(Text(f"not checked: {text}", "yellow"))


def as_json(verdict: Verdict) -> dict[str, Any]:
    """What `--json` prints: every kind that was looked for with its count, and the anomalies that were kept."""
    return {
        "ok": not verdict.kinds,
        "anomalies": {
            str(kind): {
                "count": verdict.count(kind),
                "meaning": kind.says,
                "examples": [
                    {"where": a.where, "what": a.what, "about": str(a.subject)} for a in verdict.of(kind)[:EXAMPLES_MAX]
                ],
            }
            for kind in AnomalyKind
            if kind in verdict.judged
        },
        "looked_at": dict(verdict.looked_at),
        "undecided": verdict.undecided,
        "not_checked": verdict.not_checked,
    }
