"""Generates docs/figures.md from docs/figures/*.json: the outcome of each experiment, next to published results.

python -m benchmarks.report.page
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.report.names import EXPERIMENTS, PAPERS
from benchmarks.report.outcome import Outcome
from borealis_py.bench.machine import BenchMachine

FIGURES, PAGE = Path("docs/figures"), Path("docs/figures.md")
INTRODUCTION = """# Figures

What `make bench NAME=...` found, and what others, or an earlier version, found of the same thing. It writes
docs/figures; then `python -m benchmarks.report.page` writes this page anew. Absolute figures are of
one machine, with little to spare: two cores run broker, replicas and publishers. It is slower on some days
than on others, and not all figures are of one version: compare within a table. Ratios are taken inside one run; `make
bench-check` compares them.
"""


class _Measured(msgspec.Struct):
    """The fields that `outcome.write` adds to an outcome."""

    machine: BenchMachine
    seconds: float


def page(directory: Path) -> str:
    """The page's text. Experiments that were not run here are left out.

    Raises:
        msgspec.DecodeError: a file that no experiment has written.
    """
    parts = [INTRODUCTION]
    for name, command, what in _forms():
        path = directory / f"{name}.json"
        if path.exists():
            parts.append("\n".join(_section(directory, name, command, what, path.read_bytes())))
    return "\n".join(parts)


def _forms() -> Iterator[tuple[str, str, str]]:
    """(name of its files, what to type after `make bench`, what it is) of each experiment and each model."""
    for name, what in EXPERIMENTS.items():
        yield name, f"NAME={name}", what
        if name in PAPERS:
            yield f"{name}-paper", f"NAME={name} OPTIONS=--paper", PAPERS[name]


def _section(directory: Path, name: str, command: str, what: str, written: bytes) -> Iterator[str]:
    told = msgspec.json.decode(written, type=Outcome)
    where = msgspec.json.decode(written, type=_Measured)
    yield f"## {told.title}\n"
    yield f"`make bench {command}`: {what}.\n"
    if (directory / f"{name}.svg").exists():
        yield f"![{told.title}]({directory.name}/{name}.svg)\n"
    yield _line([column.removesuffix(">") for column in told.columns])
    yield _line(["---:" if column.endswith(">") else "---" for column in told.columns])
    yield from (_line(row) for row in told.rows)
    for label, text in (("Elsewhere", told.published), ("Here", told.setup), ("Worse", told.worse)):
        yield f"\n**{label}.** {text}"
    yield f"\nMeasured: {'; '.join(where.machine.lines(where.seconds))}.\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def main() -> None:
    if not FIGURES.is_dir():
        raise SystemExit(f"no {FIGURES} here: run this in the checkout")
    PAGE.write_text(page(FIGURES))


if __name__ == "__main__":
    main()
