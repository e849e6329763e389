"""`borealis bench`: figures of this machine. A thin door to `borealis_py.bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from borealis_py.cli.console import err, fail, print_json
from borealis_py.cli.options import Json, NoSpark

app = typer.Typer(help="Measure this machine.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def bench() -> None:
    """Keeps `quick` a command of its own while it is the only one."""


@app.command()
def quick(
    seconds: Annotated[int, typer.Option("--seconds", min=1, help="How long delays are measured.")] = 20,
    events: Annotated[int, typer.Option("--events", help="The backlog of the throughput.")] = 1_000_000,
    per_record: Annotated[int, typer.Option("--per-record", help="Events of one bucket.")] = 5_000,
    redo_rows: Annotated[int, typer.Option("--redo-rows", help="Of the backlog.")] = 200_000,
    work: Annotated[
        Path | None, typer.Option("--work", help="Keep logs and data here.", show_default="a temporary one")
    ] = None,
    json: Json = False,
    no_spark: NoSpark = False,
) -> None:
    """Delay, throughput, redo speed and memory in under 3 minutes, on a broker of its own. Tables on standard error."""
    from borealis_py.bench import quick as measured
    from borealis_py.bench.figures import BenchError
    from borealis_py.bench.tables import show

    options = measured.Options(seconds, events, per_record, redo_rows, not no_spark, work)
    try:
        measured.check(options)
    except BenchError as exc:
        fail(str(exc))
        raise typer.Exit(1) from exc
    try:
        report = measured.run(options, err())
    except BenchError as exc:
        fail(str(exc), "with --work DIR the logs of all processes stay there")
        raise typer.Exit(1) from exc
    show(report, err())
    if json:
        print_json(report)
