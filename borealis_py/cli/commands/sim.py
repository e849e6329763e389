"""`borealis sim`: random failures in simulated worlds. Failures and tables on standard output, progress on standard
error.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer
from rich.text import Text

from borealis_py.cli.shared.console import err, out, print_json, print_table, say
from borealis_py.cli.shared.options import Json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from borealis_py.simulation.runner.run import RunOptions, SeedResult
    from borealis_py.simulation.runner.shrink import Edits

SHRUNK_MAX = 3
"""How many failures to shrink; more would take long and add little."""
TELL_S = 60
"""How often to tell how far it is where nobody sees a bar."""


def sim(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many worlds.")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 1,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=3, help="Simulated seconds until all heals.", show_default="drawn, 12 to 56"),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print what happens (with --seeds 1).")] = False,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="How many processes.", show_default="one a core")
    ] = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Append a line about this run to this file.")] = None,
    keep: Annotated[str | None, typer.Option("--keep", help="Only these faults of the scenario: 0,2 or none.")] = None,
    brief: Annotated[float, typer.Option("--brief", help="Fraction of each fault's duration.")] = 1.0,
    most_replicas: Annotated[int | None, typer.Option("--most-replicas", help="Maximum replicas per node.")] = None,
    heal: Annotated[float | None, typer.Option("--heal", help="Simulated second at which to heal.")] = None,
    ingress: Annotated[
        bool, typer.Option("--ingress", help="Worlds of ingresses that copy a foreign topic, and nothing else.")
    ] = False,
    json: Json = False,
) -> None:
    """Check every promise under random failures in simulated worlds.

    Each seed draws its own world: nodes, replicas, sources, rates, policies and failures. It runs the real protocol,
    heals, and is judged. Exit code 1 if a promise was broken; then it prints the smallest scenario that still fails, a
    story of one bucket, and the command that repeats it.
    """
    from borealis_py.simulation.runner.run import RunOptions, run_seeds
    from borealis_py.simulation.runner.shrink import Edits

    edits = Edits(_kept(keep), brief, most_replicas, heal)
    if ingress:
        if trace or edits != Edits() or seconds is not None:
            raise typer.BadParameter("--ingress goes with --seeds, --seed, --processes, --ledger and --json only")
        _ingresses(seeds, seed, processes, ledger, json)
        return
    if (trace or edits != Edits()) and seeds != 1:
        raise typer.BadParameter("--trace, --keep, --brief, --most-replicas and --heal are about one world: --seeds 1")
    options = RunOptions(seconds=seconds, edits=edits)
    began = time.perf_counter()
    results = (
        _one(seed, options, trace)
        if seeds == 1
        else list(_watched(run_seeds(seeds, seed, processes, seconds), _Pace(seeds)))
    )
    took_s = time.perf_counter() - began
    failed = sorted((r for r in results if not r.ok), key=lambda r: r.seed)
    if json:
        print_json({**_figures(results, seed, took_s), "failed": [_told(r) for r in failed]})
    else:
        for n, result in enumerate(failed):
            _show_failure(result, options, shrink=n < SHRUNK_MAX)
        _show(results, seed, took_s)
    if ledger is not None:
        from borealis_py.simulation.faults.coverage import covered, total

        _enter(ledger, results, seed, covered(total(r.cells for r in results)))
    if failed:
        raise typer.Exit(1)


def _ingresses(seeds: int, first: int, processes: int | None, ledger: Path | None, json: bool) -> None:
    """Run worlds of ingresses. Exit code 1 if a promise was broken."""
    from borealis_py.simulation.ingress.world import run_ingresses

    outcomes = list(_watched(run_ingresses(seeds, first, processes), _Pace(seeds)))
    failed = sorted((one for one in outcomes if not one.ok), key=lambda one: one.seed)
    figures = {
        "worlds": len(outcomes),
        "failed": {one.seed: list(one.violations) for one in failed},
        "rows": sum(one.rows for one in outcomes),
        "dead_letters": sum(one.letters for one in outcomes),
        "take_overs": sum(one.take_overs for one in outcomes),
    }
    if json:
        print_json(figures)
    else:
        for one in failed:
            say(f"seed {one.seed}: {len(one.violations)} promises broken, the first: {one.violations[0]}")
        numbers = [len(outcomes), len(failed), *(figures[name] for name in ("rows", "dead_letters", "take_overs"))]
        columns = ("worlds>", "failed>", "rows>", "dead letters>", "take-overs>")
        print_table("", columns, [[str(number) for number in numbers]])
    if ledger is not None:
        _enter(ledger, outcomes, first, None)
    if failed:
        raise typer.Exit(1)


def _kept(keep: str | None) -> tuple[int, ...] | None:
    if keep is None:
        return None
    try:
        return tuple(int(i) for i in keep.split(",") if i and keep != "none")
    except ValueError:
        raise typer.BadParameter(f"--keep {keep}: numbers of faults, such as 0,2, or none") from None


def _one(seed: int, options: RunOptions, trace: bool) -> list[SeedResult]:
    from dataclasses import replace

    from borealis_py.simulation.runner.run import run_seed

    result = run_seed(seed, replace(options, trace=trace, twice=not trace))
    for line in result.trace:
        out().print(Text(line), soft_wrap=True)
    if result.ok:
        say(result.scenario)
        say(f"history {result.digest}")
    return [result]


class _Outcome(Protocol):
    """What came of a world."""

    @property
    def ok(self) -> bool: ...
    @property
    def simulated_s(self) -> float: ...


One = TypeVar("One", bound=_Outcome)


class _Pace:
    """How far a run of many worlds is."""

    def __init__(self, seeds: int) -> None:
        self.seeds = seeds
        self._began = time.perf_counter()
        self._worlds = 0
        self._failed = 0
        self._simulated_s = 0.0

    def add(self, result: _Outcome) -> None:
        self._worlds += 1
        self._simulated_s += result.simulated_s
        self._failed += not result.ok

    @property
    def passed_s(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._began

    @property
    def speed(self) -> str:
        took = self.passed_s
        return (
            f"{self._worlds / took:.1f} worlds/s, {self._simulated_s / took:.0f} simulated s/s, {self._failed} failed"
        )

    def __str__(self) -> str:
        return f"{self._worlds} of {self.seeds} worlds after {self.passed_s:.0f} s: {self.speed}"


def _watched(results: Iterator[One], pace: _Pace) -> Iterator[One]:
    return _with_bar(results, pace) if err().is_terminal else _with_lines(results, pace)


def _with_lines(results: Iterator[One], pace: _Pace) -> Iterator[One]:
    """A line about every minute."""
    due_s = float(TELL_S)
    for result in results:
        pace.add(result)
        if pace.passed_s >= due_s:
            due_s = pace.passed_s + TELL_S
            say(str(pace))
        yield result


def _with_bar(results: Iterator[One], pace: _Pace) -> Iterator[One]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=err()) as bar:
        task = bar.add_task("", total=pace.seeds)
        for result in results:
            pace.add(result)
            bar.update(task, advance=1, description=pace.speed)
            yield result


def _show_failure(result: SeedResult, options: RunOptions, shrink: bool) -> None:
    from dataclasses import replace

    from borealis_py.simulation.runner.run import minimise, run_seed

    edits: Edits = options.edits
    if shrink:
        say(f"seed {result.seed} failed: making it small ...")
        edits = minimise(result, options)
        smaller = run_seed(result.seed, replace(options, edits=edits))
        result = result if smaller.ok else smaller
    seconds = "" if options.seconds is None else f" --seconds {options.seconds:g}"
    command = f"borealis sim --seeds 1 --seed {result.seed}{seconds} {edits.options()}".rstrip()
    out().print(Text(f"{result.failure()}\nrepeat: {command} --trace\n"), soft_wrap=True)


def _figures(results: list[SeedResult], first: int, took_s: float) -> dict[str, Any]:
    from borealis_py.simulation.faults.coverage import cells, missing, total

    hits = total(r.cells for r in results)
    simulated_s = sum(r.simulated_s for r in results)
    return {
        "seeds": len(results),
        "first_seed": first,
        "violations": sum(not r.ok for r in results),
        "seconds": took_s,
        "simulated_s": simulated_s,
        "seeds_per_s": len(results) / took_s,
        "simulated_s_per_s": simulated_s / took_s,
        "bound_asked_of_buckets": sum(r.asked for r in results),
        "tentative_buckets": sum(r.tentative for r in results),
        "reconciliations": sum(r.reconciliations for r in results),
        "adoptions": sum(r.adoptions for r in results),
        "ended_by_retention": sum(r.named_error is not None for r in results),
        "longest_overlap_ms": max(r.overlap_us for r in results) / 1e3,
        "longest_healing_ms": max(r.healed_us for r in results) / 1e3,
        "cells": {f"{a} -> {b}, {label}": hits[a, b, label] for a, b, label in cells()},
        "cells_missing": [f"{a} -> {b}, {label}" for a, b, label in missing(hits)],
    }


def _told(result: SeedResult) -> dict[str, Any]:
    return {"seed": result.seed, "oracle": result.oracle, "detail": result.detail, "bucket": result.bucket}


def _show(results: list[SeedResult], first: int, took_s: float) -> None:
    f = _figures(results, first, took_s)
    failed = [r.seed for r in results if not r.ok]
    if len(results) > 1:
        _show_cells(results)
    numbers = f" ({', '.join(map(str, sorted(failed)))})" if failed else ""
    said = [
        f"{f['seeds']} seeds from {first}, {f['simulated_s'] / 3600:.1f} simulated hours in {took_s:.0f} s "
        f"({f['seeds_per_s']:.1f} worlds/s, {f['simulated_s_per_s']:.0f} simulated s/s): {len(failed)} failed{numbers}",
        f"delay bound asked of {f['bound_asked_of_buckets']} buckets; {f['tentative_buckets']} tentative buckets, "
        f"{f['reconciliations']} reconciliations, {f['adoptions']} checkpoints adopted",
        f"{f['ended_by_retention']} worlds ended by retention, with its named error; longest healing "
        f"{f['longest_healing_ms'] / 1e3:.1f} s, longest overlap of reconciliations {f['longest_overlap_ms']:.0f} ms",
    ]
    out().print(Text("\n".join(said)), soft_wrap=True)


def _show_cells(results: list[SeedResult]) -> None:
    from borealis_py.protocol.states import TRANSITIONS
    from borealis_py.simulation.fault_kinds import CLASSES
    from borealis_py.simulation.faults.coverage import IMPOSSIBLE, total

    hits = total(r.cells for r in results)

    def cell(a: str, b: str, label: str) -> Text:
        if (a, b, label) in IMPOSSIBLE:
            return Text("-", "dim")
        count = hits[a, b, label]
        return Text(str(count), "" if count else "bold red")

    rows: list[list[str | Text]] = [
        [f"{a.value} -> {b.value}", *(cell(a.name, b.name, label) for label in CLASSES)] for a, b in TRANSITIONS
    ]
    print_table(
        "Transitions of replicas while a fault of a class was at work (- cannot be)",
        ["", *(f"{c}>" for c in CLASSES)],
        rows,
    )


def _enter(path: Path, results: Sequence[_Outcome], first: int, found: int | None) -> None:
    """`found`: cells of the table of coverage that were hit; None: these worlds have none."""
    from borealis_py.simulation.faults.coverage import IMPOSSIBLE, cells
    from borealis_py.simulation.runner import ledger

    simulated_s = sum(r.simulated_s for r in results)
    failed = sum(not r.ok for r in results)
    ledger.append(path, ledger.Line(len(results), first, simulated_s, found, len(cells()) - len(IMPOSSIBLE), failed))
    say(f"entered into {path}")
