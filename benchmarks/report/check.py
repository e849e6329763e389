"""Checks whether anything has become slower: compares the ratios of each experiment's short form with recorded ones.

    python -m benchmarks.report.check [--update] [NAME ...]

Ratios are taken within one run, so that they hold on another machine. Exit code 1: one fell by more than a third or is
missing, or an experiment could not run. --update writes the measured ratios into docs/figures/check.json instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.report import runner
from benchmarks.report.names import EXPERIMENTS, PAPERS
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench.console import table, wide
from borealis_py.bench.figures import BenchError

FIGURES = Path("docs/figures/check.json")
MOST = 1 / 3
"""Relative decrease that a ratio may have: machines vary."""

Ratios = Mapping[str, float]
Measure = Callable[[str], Outcome]
"""Runs the short form of an experiment."""


@dataclass(frozen=True, slots=True)
class RatioChange:
    """One ratio, then and now; None: it was not there."""

    experiment: str
    ratio: str
    then: float | None
    now: float | None

    @property
    def fell(self) -> bool:
        """By more than `MOST`, or out of sight."""
        return self.then is not None and (self.now is None or self.now < self.then * (1 - MOST))

    @property
    def cells(self) -> list[str]:
        """For the table."""
        then, now = ("" if value is None else f"{value:.3g}" for value in (self.then, self.now))
        if self.then is None or self.now is None:
            return [self.experiment, self.ratio, then, now, "new" if self.then is None else "GONE"]
        change = f"{self.now / self.then - 1:+.0%}" if self.then else ""
        return [self.experiment, self.ratio, then, now, f"{change} FELL" if self.fell else change]


def measured(names: Sequence[str], measure: Measure) -> tuple[dict[str, Ratios], dict[str, str]]:
    """Ratios of each experiment that ran, and why the others did not: a failing one must not stop the rest."""
    found: dict[str, Ratios] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            found[name] = measure(name).ratios
        except Exception as exc:
            failed[name] = f"{type(exc).__name__}: {exc}"
    return found, failed


def changes(then: Mapping[str, Ratios], now: Mapping[str, Ratios]) -> list[RatioChange]:
    """Every ratio of the experiments that ran."""
    return [
        RatioChange(name, ratio, then.get(name, {}).get(ratio), ratios.get(ratio))
        for name, ratios in now.items()
        for ratio in dict.fromkeys([*then.get(name, {}), *ratios])
    ]


def read(path: Path) -> dict[str, dict[str, float]]:
    """Raises BenchError: there is nothing to compare with."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, float]])
    except (OSError, msgspec.DecodeError) as exc:
        command = "python -m benchmarks.report.check --update"
        raise BenchError(f"nothing to compare with: {exc}. `{command}` writes it") from exc


def update(path: Path, now: Mapping[str, Ratios]) -> None:
    """Those of experiments that did not run stay as they are."""
    before = read(path) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode({**before, **now}, order="sorted"), indent=1) + b"\n")


def judged(then: Mapping[str, Ratios], names: Sequence[str], measure: Measure, console: Console) -> bool:
    """Run and compare. Returns whether all is well; prints the table, the ratios that fell and the experiments that
    failed.
    """
    now, failed = measured(names, measure)
    found = changes(then, now)
    table(console, "Ratios, then and now", ["experiment", "ratio", "then", "now", "change"], [c.cells for c in found])
    fell = [change for change in found if change.fell]
    for change in fell:
        console.print(f"fell: {change.experiment}: {change.ratio}", style="red", markup=False)
    _tell(failed, console)
    return not fell and not failed


def _tell(failed: Mapping[str, str], console: Console) -> None:
    for name, why in failed.items():
        console.print(f"could not run: {name}: {why}", style="red", markup=False)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.report.check", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--update", action="store_true", help=f"write {FIGURES}")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="what is compared with")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of experiments; none: all")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.names) - set(EXPERIMENTS))
    if unknown:
        parser.error(f"no experiment {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}")
    console, names = Console(stderr=True), args.names or list(EXPERIMENTS)

    def measure(name: str) -> Outcome:
        return runner.run(name, ExperimentOptions(size="short", paper=name in PAPERS), console, None)

    if args.update:
        now, failed = measured(names, measure)
        update(args.figures, now)
        _tell(failed, console)
        return 1 if failed else 0
    try:
        then = read(args.figures)
    except BenchError as exc:
        console.print(str(exc), style="red", markup=False)
        return 1
    return 0 if judged(then, names, measure, wide(Console())) else 1


if __name__ == "__main__":
    sys.exit(main())
